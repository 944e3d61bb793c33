"""The failures of the host's own code on standard error: a line each, with -v the traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from llm_fsm.cli.terminal import console
from llm_fsm.tools.failures import LOGGER


class _Lines(logging.Handler):
    """Writes each record as lines on standard error."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._write(record.getMessage())


def _write(text: str) -> None:
    console.err(*text.split("\n"))


def show_failures(*, verbose: bool, write: Callable[[str], None] = _write) -> Callable[[], None]:
    """Show the failures of functions, tools and handlers of the host from now on.

    Args:
        verbose: True shows the traceback above each line.
        write: Receives the text of each record.

    Returns:
        A function that ends it.
    """
    logger = logging.getLogger(LOGGER)
    handler = _Lines(write)
    level, passed_on = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.propagate = False

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = passed_on

    return end


def reporting(verbose: int) -> ExitStack:
    """Show failures of the host from now on, and with -v also logs. Closing the stack ends it.

    Args:
        verbose: How often -v was given.
    """
    stack = ExitStack()
    stack.callback(show_failures(verbose=verbose > 0))
    if verbose:
        from llm_fsm.engine.logging import enable_logging

        stack.callback(enable_logging("DEBUG" if verbose > 1 else "INFO"))
    return stack
