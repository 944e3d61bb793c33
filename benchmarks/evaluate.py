"""Play the dialogues of this folder with a small real model, and print the table of `llm-fsm
evaluate`.

    python -m benchmarks.evaluate qwen --python .venv-model/bin/python

`make evaluate` makes the environment of the model, and calls this. The page and all turns are in
`.bench/`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.small_model import MODELS

HERE = Path(__file__).parent
RESULTS = Path(".bench")
TIMEOUT = 900
"""Seconds for a turn: two cores read some forty tokens a second of a model with 1.5 billion
parameters.
"""


@contextmanager
def served(model: str, python: str, cache: Path) -> Iterator[str]:
    """Serve a small model in a process of its own.

    Args:
        model: A name of `MODELS`.
        python: The Python of an environment with `xllamacpp`.
        cache: The folder of the models.

    Yields:
        The address of the OpenAI form.
    """
    command = [python, "-m", "benchmarks.small_model", model, "--cache", str(cache)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit(f"{model}: the server of the model did not start")
        try:
            yield address
        finally:
            process.stdin.close()


def main() -> int:
    """Serve the model, play the dialogues, and return the exit code of the command."""
    parser = argparse.ArgumentParser(description="Play the dialogues with a small real model.")
    parser.add_argument("model", nargs="?", default="qwen", choices=sorted(MODELS))
    parser.add_argument("--python", default=sys.executable, help="the Python that has xllamacpp")
    parser.add_argument(
        "--cache", type=Path, default=RESULTS / "models", help="the folder of the models"
    )
    parser.add_argument(
        "paths", nargs="*", default=[], help="other dialogues and conversation tests"
    )
    given = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    paths = given.paths or sorted(map(str, (HERE / "dialogues").glob("*.json")))
    with served(given.model, given.python, given.cache) as address:
        command = [sys.executable, "-m", "llm_fsm", "evaluate", *paths]
        command += [
            "--model",
            f"local/{given.model}",
            "--base-url",
            address,
            "--timeout",
            str(TIMEOUT),
        ]
        command += [
            "-o",
            str(RESULTS / "evaluation.json"),
            "--page",
            str(RESULTS / "evaluation.html"),
        ]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
