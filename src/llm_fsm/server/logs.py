"""Logs as JSON lines on standard error: events of turns, and one line for each request.

Every value is written as JSON, so no client can add a line. What anything else prints to the
streams of the process becomes such a line, too.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, TextIO

from loguru import logger
from starlette.types import Scope

from llm_fsm import enable_logging
from llm_fsm.server.faults import LOGGER, REQUEST_ID
from llm_fsm.tools.failures import LOGGER as FUNCTIONS


def log_json(level: str = "INFO") -> Callable[[], None]:
    """Write JSON lines from now on, in this whole process. The returned function ends it."""
    logger.remove()
    logger.configure(patcher=_with_request)
    streams = sys.stdout, sys.stderr
    sink = logger.add(partial(_write, sys.stderr), level=level, format="{message}")
    sys.stdout, sys.stderr = _JsonLines(sys.stdout, "INFO"), _JsonLines(sys.stderr, "WARNING")
    stop = enable_logging(level)
    handlers = (
        (LOGGER, _FaultHandler("fault")),
        (FUNCTIONS, _FaultHandler("function failed")),
        ("", _FaultHandler("log")),  # of all other libraries, else Python prints them plainly
    )
    before = []
    for name, handler in handlers:
        log = logging.getLogger(name)
        before.append((log, log.propagate))
        log.addHandler(handler)
        log.propagate = False
    shown, warnings.showwarning = warnings.showwarning, _warn
    hook, sys.excepthook = sys.excepthook, _crash

    def end() -> None:
        sys.stdout, sys.stderr = streams
        warnings.showwarning = shown
        sys.excepthook = hook
        stop()
        for (log, was_passed_on), (_, handler) in zip(before, handlers, strict=True):
            log.removeHandler(handler)
            log.propagate = was_passed_on
        logger.remove(sink)

    return end


class _JsonLines(io.TextIOBase):
    """A stream of the process whose lines become JSON, whoever prints them."""

    def __init__(self, stream: TextIO, level: str) -> None:
        self._stream = stream
        self._level = level
        self._rest = ""

    def write(self, text: str) -> int:
        """Log every line that is whole."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            tell("output", line, level=self._level)
        return len(text)

    def fileno(self) -> int:
        """Return the descriptor of the stream, for what writes below Python."""
        return self._stream.fileno()


def tell(event: str, message: str, *, level: str = "INFO", **fields: str) -> None:
    """Write a line of the server itself, such as the addresses on which it listens."""
    logger.bind(event=event, **fields).log(level, "{}", message)


class _FaultHandler(logging.Handler):
    """Writes faults of requests, or failures of the host's functions, as JSON lines."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self._event = event

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        trace = {} if record.exc_info is None else {"traceback": self.format(record)}
        logger.bind(event=self._event, **trace).log(record.levelname, "{}", record.getMessage())


def _crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write the error that ends the process as a line."""
    told = "".join(traceback.format_exception(kind, error, trace))
    logger.bind(event="crash", traceback=told).critical("{}", str(error))


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    *_: object,
    **__: object,
) -> None:
    """Write a warning of Python as a line. The parameters are those of `warnings.showwarning`."""
    place = f"{filename}:{lineno}"
    logger.bind(event="warning", category=category.__name__, place=place).warning(
        "{}", str(message)
    )


def log_answer(scope: Scope, status: int, seconds: float) -> None:
    """Write the line of a request, without its query, which may hold anything."""
    caller = scope.get("state", {}).get("caller")
    logger.bind(
        event="request",
        method=scope["method"],
        path=scope["path"][:500],
        status=status,
        seconds=round(seconds, 4),
        token=None if caller is None else caller.name,
    ).info("request")


def _with_request(record: Any) -> None:
    request_id = REQUEST_ID.get()
    if request_id:
        record["extra"]["request_id"] = request_id


def _write(stream: TextIO, message: Any) -> None:
    record = message.record
    line = {
        "time": record["time"].isoformat(timespec="milliseconds"),
        "level": record["level"].name,
        "message": record["message"],
        **record["extra"],
    }
    stream.write(json.dumps(line, default=str) + "\n")
    stream.flush()
