"""The end of a command: the one place where errors become a sentence and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import click

from llm_fsm import errors
from llm_fsm.cli import installation
from llm_fsm.cli.terminal import console, escape

OK = 0
AT_FAULT = 1
USAGE = 2
MODEL = 3
STORE = 4
PAUSED = 5
INTERNAL = 70
OUTPUT = 74
INTERRUPTED = 130
PIPE_CLOSED = 141

SERVING = ("fastapi", "uvicorn", "sse_starlette", "httptools", "prometheus_client", "ag_ui")
"""Modules that a server needs."""
UNREADABLE = "unreadable-file"
"""The finding that says there is no file to judge, which is not the definition's fault."""

CODES: Mapping[type[Exception], int] = {
    errors.DefinitionError: AT_FAULT,
    errors.ConfigurationError: MODEL,
    errors.ModelError: MODEL,
    errors.ReplyError: MODEL,
    errors.ConversationError: USAGE,
    errors.StoreError: STORE,
    click.ClickException: USAGE,
    OSError: OUTPUT,
}
"""Error to exit code; of a class that is not here, its nearest base counts. Everything else is a
bug.
"""


class Failure(click.ClickException):
    """A command could not do what was asked, for an expected reason."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def failing(*kinds: type[Exception], place: str = "", code: int = USAGE) -> Iterator[None]:
    """Report errors of these kinds as a Failure, with its place before the message."""
    try:
        yield
    except kinds as error:
        raise Failure(f"{place}{error}", code) from error


def need(what: str, modules: Iterable[str], extra: str) -> None:
    """Raise Failure with a line for pip if one of these modules is not installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise Failure(
            f"{what} needs {', '.join(missing)}: pip install 'llm-fsm-runtime[{extra}]'", USAGE
        )


def need_docstrings() -> None:
    """Raise Failure under `python -OO`, because help texts are docstrings."""
    if sys.flags.optimize > 1:
        raise Failure(
            "Python's option -OO (PYTHONOPTIMIZE=2) removes this text; run Python without it"
        )


class PipeClosed(Exception):
    """The reader of standard output has stopped reading."""


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case BrokenPipeError() | PipeClosed():
            return PIPE_CLOSED
        case Failure():
            return error.code
    if installation.missing_module(error) is not None:
        return USAGE
    if isinstance(error, errors.DefinitionError) and any(
        item.name == UNREADABLE for item in error.findings
    ):
        return USAGE
    return next((CODES[base] for base in type(error).__mro__ if base in CODES), INTERNAL)


def end(error: BaseException, *, verbose: bool) -> int:
    """Say what went wrong, in one sentence on standard error, and give the exit code."""
    code = code_of(error)
    if code == PIPE_CLOSED:
        _drop_output()
    elif code == INTERNAL:
        console.note(f"internal error: {type(error).__name__}: {error}; please report")
        if verbose:
            console.text(
                "".join(import_module("traceback").format_exception(error)).rstrip(), sys.stderr
            )
    elif code == INTERRUPTED:
        interrupted()
    else:
        _explain(error)
    return code


def interrupted() -> None:
    """Print that the command was interrupted. A further Ctrl-C then ends the process at once,
    without a traceback.
    """
    # else a program around this one has its own
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    console.note("interrupted")


def _explain(error: BaseException) -> None:
    missing_module = installation.missing_module(error)
    if missing_module is not None:
        console.error(installation.cure(missing_module))
    elif isinstance(error, errors.DefinitionError):
        _explain_definition(error)
    elif isinstance(error, click.UsageError):
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx is not None else ""
        # where click has lines for a list of choices
        said = " ".join(error.format_message().split())
        console.error(said.removesuffix(".") + hint)
    elif isinstance(error, click.ClickException):
        console.error(error.format_message())
    elif isinstance(error, OSError):
        # so a folder is that somebody has removed meanwhile
        missing = isinstance(error, FileNotFoundError)
        place = error.filename or ("the current folder" if missing else "standard output")
        console.error(f"{place}: {errors.os_reason(error)}")
        if error.filename is None and not missing:
            _drop_output()
    else:
        console.error(error)


def _explain_definition(error: errors.DefinitionError) -> None:
    found = [finding for finding in error.findings if finding.level == "error"]
    name = next((finding.file for finding in found if finding.file is not None), "the definition")
    console.error(f"{name} cannot be used: {escape.plural(len(found), 'error')}")
    console.err(*map(str, error.findings), wrapped=True)


def _drop_output() -> None:
    """Nobody reads standard output any more: what is left in its buffer must not be written at
    exit.
    """
    try:
        place = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)
