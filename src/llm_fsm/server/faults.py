"""Faults that an operator must see and a client must not: they go to the log, under the id of the
request.

The log is `logging.getLogger("llm_fsm.server")`. The program decides its level and handlers.
Without any, Python writes it to standard error.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from llm_fsm.errors import told

LOGGER = "llm_fsm.server"
REQUEST_ID: ContextVar[str] = ContextVar("llm_fsm_request_id", default="")
"""The id of the current request, which its answer carries as `X-Request-Id`; "" outside of
requests.
"""
PREFIX: ContextVar[str] = ContextVar("llm_fsm_prefix", default="")
"""The prefix that the ids of the caller's conversations have in the store. No answer shows it."""


def report(what: str, error: BaseException | None = None, *, with_traceback: bool = False) -> None:
    """Write a fault to the log.

    Args:
        what: The work that failed, as a clause.
        error: The error, whose class and words are added.
        with_traceback: True adds the traceback, for errors that are faults of the server itself.
    """
    request_id = REQUEST_ID.get()
    words = what if error is None else f"{what}: {told(error)}"
    text = f"request {request_id}: {words}" if request_id else words
    logging.getLogger(LOGGER).error(
        "%s",
        text.encode("unicode_escape").decode(),
        exc_info=error if with_traceback else None,
        extra={"request_id": request_id},
    )
