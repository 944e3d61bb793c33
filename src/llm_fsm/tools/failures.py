"""Failures of the host's functions: the place in the host's code, and the line in the log.

The log is `logging.getLogger("llm_fsm.functions")`. Each failure is one line at WARNING, so Python
shows it even if the program configures no logging. The traceback follows at DEBUG. It holds lines
of code and no values: the message of an error may repeat a secret, so only the first line has it,
redacted.
"""

from __future__ import annotations

import inspect
import logging
import sysconfig
import traceback
from pathlib import Path

from llm_fsm._text import cut, visible
from llm_fsm.errors import told
from llm_fsm.session.events import FunctionFailed

LOGGER = "llm_fsm.functions"
_ERROR_CHARS = 500
_OWN = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def failure_of(
    kind: str, name: str, error: BaseException, function: object = None
) -> FunctionFailed:
    """Return the failure of a function, and log its traceback at DEBUG.

    Args:
        kind: function, check, route, tool or handler.
        name: The name under which it is registered.
        error: The error that it raised, or the reason why it was given up.
        function: The function. Its place is named if the error did not arise in the host's code.
    """
    frames = traceback.extract_tb(error.__traceback__)
    logger = logging.getLogger(LOGGER)
    if logger.isEnabledFor(logging.DEBUG):
        shown = [frame for frame in frames if not frame.filename.startswith(_OWN)]
        lines = "".join(traceback.format_list(shown)).rstrip()
        logger.debug("%s %s: traceback (most recent call last):\n%s", kind, visible(name), lines)
    file, line = _place(frames) or _place_of(function)
    text = " ".join(told(error).split())
    return FunctionFailed(kind=kind, name=name, error=cut(text, _ERROR_CHARS), file=file, line=line)


def _place(frames: traceback.StackSummary) -> tuple[str, int] | None:
    """Return file and line of the last frame in the host's code; None if no frame is."""
    foreign = [frame for frame in frames if not frame.filename.startswith((_OWN, "<"))]
    own = [frame for frame in foreign if not frame.filename.startswith(_LIBRARIES)]
    for frame in reversed(own or foreign[:1]):
        return frame.filename, frame.lineno or 0
    return None


def _place_of(function: object) -> tuple[str, int]:
    """Return file and line of a function's definition; "" and 0 if they are unknown."""
    if not callable(function):
        return "", 0
    found = inspect.unwrap(function)
    code = getattr(found, "__code__", None)
    if code is None:  # an object with __call__
        code = getattr(type(found).__call__, "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def line_of(failed: FunctionFailed) -> str:
    """Return a failure as one line: what failed, the error, and its place.

    Example:
        >>> failed = FunctionFailed(kind="tool", name="price", error="KeyError: 'x'", file="a.py")
        >>> line_of(failed)
        "tool 'price' failed: KeyError: 'x' (a.py:0)"
    """
    place = f" ({failed.file}:{failed.line})" if failed.file else ""
    return visible(f"{failed.kind} {failed.name!r} failed: {failed.error}{place}")


def log_failure(conversation_id: str, failed: FunctionFailed) -> None:
    """Write the line of a failure to the log."""
    logging.getLogger(LOGGER).warning(
        "%s", line_of(failed), extra={"conversation_id": conversation_id}
    )
