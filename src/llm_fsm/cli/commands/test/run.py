"""`llm-fsm test`: conversation tests, run by pytest.

The command reads its own options and leaves all others to pytest. `plugin` is its part inside
pytest; the collector is `llm_fsm.testing.pytest_plugin`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click
from click.core import ParameterSource

from llm_fsm._json import JsonMap
from llm_fsm.cli import documents
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.commands.test import generate as generation
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.host_code import host_of
from llm_fsm.cli.options import base_url_option, example, timeout_option, tools_option, turn_time
from llm_fsm.engine.host_files import HostTools
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.offline.model import OfflineLLM
from llm_fsm.llm.registry import models_of
from llm_fsm.testing.scenarios.recording import Match
from llm_fsm.testing.scenarios.session import Mode, PlayOptions

INTERRUPTED, USAGE = 2, 4
"""Exit codes of pytest."""

_PLUGINS = ("llm_fsm.testing.pytest_plugin", "llm_fsm.cli.commands.test.plugin")
_PARALLEL = ("-n", "--numprocesses", "--dist", "--tx")
_LIVE = ("--live", "--record", "--simulate")
_REPEATED = ("--live", "--simulate")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "--times": _REPEATED,
    "--threshold": _REPEATED,
    "--model": _LIVE,
    "--base-url": _LIVE,
    "--timeout": _LIVE,
    "--user-model": ("--simulate",),
    "--output": ("--generate",),
}
"""An option, and those of which it needs one."""


class _Command(click.Command):
    """A command whose exit codes are those of pytest, and that leaves unknown options to pytest."""

    def make_context(self, *given: Any, **options: Any) -> click.Context:
        """Parse the arguments."""
        with _codes():
            return super().make_context(*given, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _codes():
            return super().invoke(ctx)


@contextmanager
def _codes() -> Iterator[None]:
    """Give errors the exit codes of this command."""
    try:
        yield
    except click.UsageError as error:
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx is not None else ""
        raise Failure(error.format_message().removesuffix(".") + hint, USAGE) from error
    except Failure as error:
        raise Failure(error.message, USAGE if error.code == exits.USAGE else error.code) from error
    except KeyboardInterrupt as error:
        exits.interrupted()
        raise click.exceptions.Exit(INTERRUPTED) from error


@click.command(
    cls=_Command,
    context_settings={"ignore_unknown_options": True},
    epilog=example(
        "llm-fsm test bots -v", "llm-fsm test flow.test.json --record --model openai/gpt-4o-mini"
    ),
)
@click.argument(
    "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PATH[::NAME]…] [PYTEST OPTIONS]"
)
@tools_option
@click.option(
    "--record", is_flag=True, help="Call a live model and keep its replies beside the file."
)
@click.option(
    "--replay", is_flag=True, help="Play the recordings, also where replies are scripted."
)
@click.option(
    "--match",
    type=click.Choice(["exact", "words"]),
    default="exact",
    show_default=True,
    help="Compare a recording by its prompts, or by states and messages.",
)
@click.option("--live", is_flag=True, help="Call a live model instead of playing replies.")
@click.option(
    "--times",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    help="Play each case or user N times.",
)
@click.option(
    "--threshold",
    metavar="R",
    type=click.FloatRange(0, 1),
    help="The share that must pass, 0 to 1.",
)
@click.option(
    "--simulate", is_flag=True, help="Let the simulated users of the files talk to a live model."
)
@click.option(
    "--user-model", metavar="M", help="The model of the simulated users; by default the same one."
)
@click.option(
    "--model",
    metavar="M",
    help="For --live, --record and --simulate: provider/model; else LLM_FSM_MODEL.",
)
@base_url_option
@timeout_option
@click.option(
    "--coverage",
    metavar="FILE",
    help="Report coverage, and write it to a .json file; - writes none.",
)
@click.option(
    "--fail-under",
    metavar="N",
    type=click.FloatRange(0, 100),
    help="Fail below N percent coverage.",
)
@click.option(
    "--generate",
    is_flag=True,
    help="Write tests for definitions, or for what files of tests leave out.",
)
@click.option("-o", "--output", metavar="FILE", help="With --generate: the file to write.")
@click.pass_context
def test(
    ctx: click.Context,
    *,
    arguments: tuple[str, ...],
    tools: tuple[str, ...],
    record: bool,
    replay: bool,
    match: Match,
    live: bool,
    times: int,
    threshold: float | None,
    simulate: bool,
    user_model: str | None,
    model: str | None,
    base_url: str | None,
    timeout: float | None,
    coverage: str | None,
    fail_under: float | None,
    generate: bool,
    output: str | None,
) -> int:
    """Run conversation tests and report failures.

    PATH is a *.test.json file or a folder; the default is the current folder. FILE::NAME is a
    single case. The replies of the model are in the files, or were recorded with --record, so no
    model is needed.

    pytest runs the tests and takes all its options, for example -k EXPR, -x, -v, --lf and
    --junitxml=FILE. If pytest-xdist is installed, -n N runs them in several processes. To run again
    whenever a file changes, use pytest-watcher.

    \b
    Example:
      llm-fsm test bots -k "booking and not slow" -x

    Exit codes: 0 passed. 1 failed, or a file that cannot be used. 2 interrupted. 3 internal error.
    4 usage. 5 no tests found.
    """
    given = _given(ctx)
    _check(ctx, given)
    if generate:
        _generate(ctx, arguments, output, host_of(tools))
        return exits.OK
    if coverage is not None:
        _check_report(ctx, coverage)
    mode: Mode = "scripted"
    if record:
        mode = "record"
    elif replay:
        mode = "replay"
    elif live:
        mode = "live"
    default = 0.0 if simulate else 1.0
    options = PlayOptions(
        mode=mode,
        model=model,
        base_url=base_url,
        **turn_time(timeout),
        match=match,
        times=times,
        threshold=default if threshold is None else threshold,
        cover=coverage is not None or fail_under is not None,
    )
    host_of(tools)
    if options.asks or simulate:
        _check_models(options, user_model, simulate=simulate)
    wanted = {
        "play": asdict(options),
        "tools": tools,
        "coverage": coverage,
        "fail_under": fail_under,
        "simulate": simulate,
        "user_model": user_model,
    }
    return run(wanted, arguments)


def run(wanted: JsonMap, arguments: Sequence[str]) -> int:
    """Run pytest and return its exit code. Raises Failure for -n without pytest-xdist."""
    parallel = any(argument.startswith(_PARALLEL) for argument in arguments)
    if parallel and find_spec("xdist") is None:
        raise Failure("-n needs pytest-xdist: pip install pytest-xdist", USAGE)
    plugins = [*_PLUGINS, *(("xdist.plugin",) if parallel else ())]
    here = os.getcwd()
    own = ["--no-header", "--continue-on-collection-errors", "--noconftest", "-c", os.devnull]
    own += ["--rootdir", _root(here, arguments), "-o", f"cache_dir={here}/.pytest_cache"]
    for name in plugins:
        own += ("-p", name)
    with pytest_alone():
        pytest = import_module("pytest")
        return int(pytest.main([*own, f"--llm-fsm-test={json.dumps(wanted)}", *arguments]))


def _root(here: str, arguments: Sequence[str]) -> str:
    """Return the folder that holds all files, below which pytest names them."""
    named = [os.path.abspath(argument.partition("::")[0]) for argument in arguments]
    return os.path.commonpath([here, *(path for path in named if os.path.exists(path))])


@contextmanager
def pytest_alone() -> Iterator[None]:
    """Keep other plug-ins of pytest from being loaded, also in worker processes: they cost most of
    the start.
    """
    name = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _given(ctx: click.Context) -> list[str]:
    """List the options of ours that were given, each by its long name."""
    return [
        parameter.opts[-1]
        for parameter in ctx.command.params
        if isinstance(parameter, click.Option)
        and ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]


def _check(ctx: click.Context, given: Sequence[str]) -> None:
    """Raise UsageError for options that do not go together."""
    modes = [
        name
        for name in ("--live", "--record", "--replay", "--simulate", "--generate")
        if name in given
    ]
    if len(modes) > 1:
        ctx.fail(f"{' and '.join(modes)} exclude one another")
    for name, needed in _NEEDS.items():
        if name in given and not set(needed) & set(given):
            ctx.fail(f"{name} is for {_and(needed)}")
    if "--generate" in given:
        for name in given:
            if name not in ("--generate", "--output", "--tools"):
                ctx.fail(f"{name} is not for --generate")


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _generate(
    ctx: click.Context, arguments: Sequence[str], output: str | None, host: HostTools
) -> None:
    for argument in arguments:
        if argument.startswith("-"):
            ctx.fail(f"{argument} is not for --generate")
    generation.generate(arguments or (os.curdir,), output, host)


def _check_report(ctx: click.Context, path: str) -> None:
    """Raise UsageError where the coverage report would not be found again or would overwrite
    something.
    """
    if path == "-":
        return
    if not path.endswith(".json"):
        ctx.fail(f"--coverage writes a file that ends in .json, or none with -, not {path!r}")
    kept = documents.precious(path)
    if kept is not None:
        ctx.fail(f"--coverage writes a report, and {path} is {kept}: name another file")


def _check_models(options: PlayOptions, user_model: str | None, *, simulate: bool) -> None:
    """Raise Failure where a live model cannot be used."""
    with exits.failing(ConfigurationError, code=USAGE):
        _, human = models_of(options.model, user_model, options.base_url, os.environ)
    if simulate and isinstance(human, OfflineLLM):
        said = "the model `offline` plays no users: name another one with --user-model or --model"
        raise Failure(said, USAGE)
