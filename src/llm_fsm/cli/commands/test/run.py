"""`llm-fsm test`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from llm_fsm.cli import documents
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import host_code as host
from llm_fsm.cli.commands.test import coverage as test_coverage
from llm_fsm.cli.commands.test import generate as test_generate
from llm_fsm.cli.commands.test import simulate as test_users
from llm_fsm.cli.commands.test import watch as test_watch
from llm_fsm.cli.commands.test.report import FORMATS
from llm_fsm.cli.destination import write_output
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.terminal import escape as printing
from llm_fsm.cli.verbosity import Settings, verbose_option
from llm_fsm.errors import ConfigurationError
from llm_fsm.testing.scenarios import selection
from llm_fsm.testing.scenarios import session as playing
from llm_fsm.testing.scenarios.loader import read_suite
from llm_fsm.testing.scenarios.player import Host
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.session import FileResult, Job, Mode
from llm_fsm.testing.scenarios.tape import Match

PASSED, FAILED, INTERRUPTED, INTERNAL, USAGE, NOTHING = range(6)
"""The exit codes, as pytest has them."""

_MODELS = ("--live", "-n", "--threshold", "--record", "--replay", "--match", "--simulate", "--user-model")
_PLAYING = ("-x", "-j", "--watch", "--coverage", "--fail-under")
_WITHOUT: Mapping[str, frozenset[str]] = {
    "--generate": frozenset({*_MODELS, *_PLAYING, "-k", "--format", "--tools", "--model", "--base-url"}),
    "--simulate": frozenset({*_PLAYING, "--match"}),
    "--record": frozenset({"--watch", "--match"}),
}
"""An option, and those that mean nothing beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    paths: tuple[str, ...]
    expression: str | None
    processes: int
    form: str
    output: str | None
    tools: tuple[str, ...]
    job: Job
    coverage: str | None
    fail_under: float | None


class _Command(click.Command):
    """A command whose exit codes are those of pytest."""

    def make_context(self, *given: Any, **options: Any) -> click.Context:
        """As click does; a wrong option is a usage error of ours."""
        with _Codes():
            return super().make_context(*given, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does."""
        with _Codes():
            return super().invoke(ctx)


class _Codes:
    """Gives errors the codes of this command."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, click.UsageError):
            hint = f" (see '{error.ctx.command_path} --help')" if error.ctx is not None else ""
            raise Failure(error.format_message().removesuffix(".") + hint, USAGE) from error
        if isinstance(error, Failure) and error.code == exits.USAGE:
            raise Failure(error.message, USAGE) from error
        if isinstance(error, KeyboardInterrupt):
            exits.interrupted()
            raise click.exceptions.Exit(INTERRUPTED) from error


@click.command(cls=_Command)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "-k", "expression", metavar="EXPR", help="Only cases whose file::name fits, e.g. booking and not slow."
)
@click.option("-x", "stop", is_flag=True, help="Stop at the first case that fails.")
@click.option(
    "-j", "processes", metavar="N", type=click.IntRange(0), default=1, help="Processes; 0: one a core."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="How to report.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the report to a file.")
@click.option(
    "--tools", metavar="FILE.py", multiple=True, help="Run this Python file for its TOOLS and FUNCTIONS."
)
@click.option("--watch", is_flag=True, help="Run again whenever a file changes, until Ctrl-C.")
@click.option("--record", is_flag=True, help="Ask a live model and keep its replies beside the file.")
@click.option("--replay", is_flag=True, help="Play what was recorded, also where replies are scripted.")
@click.option(
    "--match",
    type=click.Choice(["exact", "words"]),
    default="exact",
    show_default=True,
    help="A recording fits by its prompts, or by states and words.",
)
@click.option("--live", is_flag=True, help="Ask a live model instead of playing replies.")
@click.option(
    "-n", "times", metavar="N", type=click.IntRange(1), default=1, help="Play each case live so often."
)
@click.option(
    "--threshold", metavar="R", type=click.FloatRange(0, 1), help="What part of these must pass, 0 to 1."
)
@click.option("--simulate", is_flag=True, help="Let the simulated users of the files talk to a live model.")
@click.option("--user-model", metavar="M", help="The model that plays them; without it the same one.")
@click.option("--model", metavar="M", help="For --live, --record and --simulate: provider/model; else LLM_FSM_MODEL.")
@click.option("--generate", is_flag=True, help="Write tests for definitions, or for what files of tests leave out.")
@click.option(
    "--coverage", metavar="FILE", help="Say what was touched, and write it to a .json file; - writes none."
)
@click.option(
    "--fail-under", metavar="N", type=click.FloatRange(0, 100), help="Fail when coverage is under N percent."
)
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible server; its key is LLM_FSM_API_KEY.")
@verbose_option
@click.pass_context
def test(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    expression: str | None,
    stop: bool,
    processes: int,
    form: str,
    output: str | None,
    tools: tuple[str, ...],
    watch: bool,
    record: bool,
    replay: bool,
    match: Match,
    live: bool,
    times: int,
    threshold: float | None,
    simulate: bool,
    generate: bool,
    user_model: str | None,
    model: str | None,
    base_url: str | None,
    coverage: str | None,
    fail_under: float | None,
) -> None:
    """Play conversation tests and say what is otherwise than expected.

    PATH is a *.test.json file or a folder with such files; without it the present folder. Replies stand in the
    files, or were recorded with --record, so that no model is needed; --live asks one.

    Exit codes: 0 passed, 1 failed or a file that cannot be used, 2 interrupted, 3 internal error, 4 usage,
    5 nothing to play.
    """
    _alone(ctx)
    if generate:
        test_generate.generate(paths or (os.curdir,), output)
        return
    asks = {"--live": live, "--record": record, "--simulate": simulate}
    _check(
        ctx,
        ({**asks, "--replay": replay}, asks),
        {"-n": times > 1, "--threshold": threshold is not None},
        {"--model": model is not None, "--base-url": base_url is not None},
    )
    if user_model is not None and not simulate:
        raise click.UsageError("--user-model is for --simulate", ctx)
    if coverage is not None and coverage != "-" and not coverage.endswith(".json"):
        raise click.UsageError(
            f"--coverage writes a file that ends in .json, or none with -, not {coverage!r}", ctx
        )
    for option, path in (("-o", output), ("--coverage", coverage)):
        kept = None if path is None else documents.precious(path)
        if kept is not None:
            raise click.UsageError(f"{option} writes a report, and {path} is {kept}: name another file", ctx)
    mode: Mode = "record" if record else "replay" if replay else "live" if live else "scripted"
    wanted = Wanted(
        paths=paths or (os.curdir,),
        expression=expression,
        processes=processes or os.cpu_count() or 1,
        form=form,
        output=output,
        tools=tools,
        job=Job(
            file="",
            stop=stop,
            mode=mode,
            model=model,
            base_url=base_url,
            match=match,
            times=times,
            threshold=1.0 if threshold is None else threshold,
            cover=coverage is not None or fail_under is not None,
        ),
        coverage=coverage,
        fail_under=fail_under,
    )
    if simulate:
        ctx.exit(_simulated(wanted, user_model, threshold))
    if watch:
        _watch(wanted)
    ctx.exit(run(wanted, ctx))


def _alone(ctx: click.Context) -> None:
    """Raise UsageError for options that another one would leave aside."""
    given = {
        parameter.opts[0]
        for parameter in ctx.command.params
        if ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    for main, without in _WITHOUT.items():
        for option in given:
            if main in given and option in without:
                raise click.UsageError(f"{option} is not for {main}", ctx)
    if "--simulate" in given and ctx.params["form"] not in ("text", "json"):
        raise click.UsageError("--simulate reports as text or json", ctx)


def _check(
    ctx: click.Context,
    modes: tuple[Mapping[str, bool], Mapping[str, bool]],
    counted: Mapping[str, bool],
    asked: Mapping[str, bool],
) -> None:
    """Raise UsageError for options that do not go together. `modes`: all of them, and those that ask a live model."""
    every, live = modes
    given = [name for name, is_given in every.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude one another", ctx)
    repeats = live["--live"] or live["--simulate"]
    for options, allowed, whose in (
        (counted, repeats, "--live and --simulate"),
        (asked, any(live.values()), "--live, --record and --simulate"),
    ):
        for name, is_given in options.items():
            if is_given and not allowed:
                raise click.UsageError(f"{name} is for {whose}", ctx)


def run(wanted: Wanted, ctx: click.Context | None = None) -> int:
    """Play everything once and give the exit code."""
    began = time.perf_counter()
    found: list[FileResult] = []
    interrupted = False
    try:
        found.extend(_played(wanted))
    except KeyboardInterrupt:
        interrupted = True
    except (selection.NoSuchPathError, selection.ExpressionError, ConfigurationError) as error:
        raise Failure(str(error), USAGE) from error
    except click.ClickException:
        raise
    except Exception as error:  # whatever is raised here is a fault of ours
        if ctx is not None and ctx.ensure_object(Settings).verbose:
            raise
        printing.note(f"internal error: {type(error).__name__}: {error}; please report")
        return INTERNAL
    report = FORMATS[wanted.form](found, time.perf_counter() - began)
    _give(wanted, report)
    for told in filter(None, (one.recorded for one in found)):
        printing.note(told)
    if interrupted or any(one.interrupted for one in found):
        exits.interrupted()
        return INTERRUPTED
    enough = not wanted.job.cover or _covered(wanted, found)
    if not enough or not all(one.passed for one in found):
        return FAILED
    return PASSED if any(one.results for one in found) else _nothing(wanted, "test")


def _nothing(wanted: Wanted, what: str) -> int:
    """Say why there is nothing to play."""
    where = ", ".join(map(printing.one_line, wanted.paths))
    chosen = f" that -k {printing.one_line(wanted.expression)} chooses" if wanted.expression is not None else ""
    printing.note(f"there is no {what}{chosen} in {where}")
    return NOTHING


def _simulated(wanted: Wanted, human: str | None, threshold: float | None) -> int:
    """Let simulated users talk; their rates fail nothing unless a threshold is given, or an error ended every talk."""
    try:
        fits = selection.wanted(wanted.expression) if wanted.expression is not None else lambda _: True
        wish = test_users.Wish(
            files=selection.files(wanted.paths),
            fits=fits,
            bot=wanted.job.model,
            human=human,
            base_url=wanted.job.base_url,
            times=wanted.job.times,
            host=host_of(wanted.tools),
        )
        found = test_users.played(wish)
    except (selection.NoSuchPathError, selection.ExpressionError, ConfigurationError) as error:
        raise Failure(str(error), USAGE) from error
    rates = [rate for one in found for rate in one.rates]
    if not rates and not any(one.faults for one in found):
        return _nothing(wanted, "simulated user")
    as_json = wanted.form == "json"
    _give(wanted, printing.as_json(test_users.document(found)) if as_json else test_users.table(found))
    poor = any(rate.share < (threshold or 0) for rate in rates)
    broken = bool(rates) and all(met.broken for rate in rates for met in rate.encounters)
    return FAILED if poor or broken or any(one.faults for one in found) else PASSED


def _give(wanted: Wanted, report: str) -> None:
    if wanted.output is not None:
        write_output(wanted.output, report + "\n")
        printing.note(f"wrote {wanted.output}")
    else:
        printing.out(report)


def _covered(wanted: Wanted, files: Sequence[FileResult]) -> bool:
    """Tell what was touched; False when it is too little."""
    found = test_coverage.covered(files)
    tell = printing.out if wanted.form == "text" and wanted.output is None else printing.err
    if found:
        tell("\n" + test_coverage.table(found))
    if wanted.coverage not in (None, "-"):
        write_output(str(wanted.coverage), printing.as_json(test_coverage.document(found)) + "\n")
        printing.note(f"wrote {wanted.coverage}")
    reached = test_coverage.share(found)
    if wanted.fail_under is None or reached >= wanted.fail_under:
        return True
    printing.note(f"coverage is {reached:.1f} %, under {wanted.fail_under:g} %")
    return False


def _played(wanted: Wanted) -> Iterator[FileResult]:
    """The results of all files in order."""
    run_job: Callable[[Job], FileResult] = partial(_run_job, wanted.tools)
    ready: list[Job] = []
    for file in selection.files(wanted.paths):
        ready += _jobs(wanted, file)
    done = playing.run_jobs(ready, run_job, wanted.processes)
    yield from done if wanted.processes <= 1 else playing.joined(done)


def _jobs(wanted: Wanted, file: str) -> Sequence[Job]:
    """What is to be played of a file; a file that cannot be used is one job, which says so."""
    job = replace(wanted.job, file=file)
    if wanted.expression is None and wanted.processes <= 1:
        return [job]
    fits = selection.wanted(wanted.expression) if wanted.expression is not None else lambda _: True
    try:
        names = [play.name for play in read_suite(file).plays if fits(f"{file}::{play.name}")]
    except SuiteError:
        return [job]
    if not names:
        return []
    parts = 1 if job.mode == "record" else wanted.processes
    return playing.split(replace(job, names=tuple(names)), names, parts)


def _run_job(tools: tuple[str, ...], job: Job) -> FileResult:
    return playing.run_job(job, host_of(tools))


def host_of(tools: tuple[str, ...]) -> Host:
    """The tools and functions of the caller's Python files."""
    brought = host.host_of(tools)
    return Host(tools=brought.tools, functions=brought.functions)


def _watch(wanted: Wanted) -> None:
    """Play, and again at each change; a fault is told and the watch goes on."""

    def play() -> None:
        if sys.stdout.isatty():
            click.clear()
        try:
            run(wanted)
        except click.ClickException as error:
            exits.end(error, verbose=False)

    written = (wanted.output, wanted.coverage)
    test_watch.watch(wanted.paths, wanted.tools, [path for path in written if path not in (None, "-")], play)
