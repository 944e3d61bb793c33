"""Play a set that others made, and print its tables.

    python -m benchmarks.suites sgd DATA [--renamed] [--model MODEL] [--reply prompt | --bare]
    python -m benchmarks.suites star DATA [--model MODEL]
    python -m benchmarks.suites tau DATA [--tasks N] [--swaps N]
    python -m benchmarks.suites tau DATA --reader --task N [--bare] --base-url URL --user-url URL --out FILE

Without `--model`, SGD and STAR are played with the right replies, which shows that every label can
be reached. `tau` needs no model, but with `--reader` one plays the agent, and one the customer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suites import labelled, reader, retail_tables
from benchmarks.suites.files import Unusable
from llm_fsm.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the arguments name.

    Returns:
        The exit code: 2 if the data or the model is unusable, 3 if a model failed in a live task.
    """
    options = _options(arguments)
    try:
        if options.reader:
            return reader.report(options)
        if options.suite == "tau":
            retail_tables.report(options)
        else:
            labelled.report(options)
    except (Unusable, ConfigurationError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.suites",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=["sgd", "star", "tau"])
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of the set")
    parser.add_argument("--model", help="provider/model; without it the right replies are played")
    parser.add_argument("--base-url", help="an OpenAI-compatible server")
    told = "force the form of replies, or ask for it in words"
    parser.add_argument("--reply", choices=["schema", "prompt"], default="", help=told)
    told = "seconds for a turn, or for a reply in a live task (900)"
    parser.add_argument("--timeout", type=float, default=900.0, help=told)
    told = "SGD: the bare prompt instead of the machine; live: a bare tool loop"
    parser.add_argument("--bare", action="store_true", help=told)
    parser.add_argument("--turns", type=int, help="the most turns of each part")
    parser.add_argument("--only", action="append", metavar="PART", help="a service or task by name")
    parser.add_argument("--renamed", action="store_true", help="SGD: change names and descriptions")
    parser.add_argument("--tasks", type=int, help="τ: the first N tasks alone")
    parser.add_argument("--swaps", type=int, default=2, help="τ: other values of an argument (2)")
    parser.add_argument("--seed", type=int, default=1, help="τ: the seed of what is drawn (1)")
    parser.add_argument("--reader", action="store_true", help="τ: play one task live")
    parser.add_argument("--task", metavar="N", help="live: the id of the task")
    parser.add_argument("--user-url", help="live: an OpenAI-compatible server for the customer")
    parser.add_argument("--user-model", help="live: the model of that server")
    parser.add_argument("--out", type=Path, metavar="FILE", help="live: the file of the result")
    options = parser.parse_args(arguments)
    fault = _fault(options)
    if fault:
        parser.error(fault)
    return options


def _fault(options: argparse.Namespace) -> str:
    """Say which options do not fit together; "" if all do."""
    needed = ("task", "base_url", "user_url", "out")
    missing = [f"--{name.replace('_', '-')}" for name in needed if not getattr(options, name)]
    bare, live = options.bare, options.reader
    has_model = options.model or options.base_url
    faults = (
        (live and options.suite != "tau", "--reader plays a task of tau"),
        (live and missing, f"--reader needs {', '.join(missing)}"),
        (bare and not live and options.suite != "sgd", "--bare is for sgd, and for tau --reader"),
        (bare and not has_model, "--bare needs a model: --model or --base-url"),
        (bare and options.reply, "--bare has no form of a reply, so leave out --reply"),
    )
    return next((said for is_so, said in faults if is_so), "")


if __name__ == "__main__":
    sys.exit(main())
