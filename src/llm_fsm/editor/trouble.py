"""Errors of the package as problems for the author, who may read the whole message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llm_fsm import errors
from llm_fsm.server.problems import Problem

_KINDS: Sequence[tuple[type[Exception], str]] = (
    (errors.DefinitionError, "invalid"),
    (errors.ConfigurationError, "invalid"),
    (errors.ModelError, "model-unavailable"),
    (errors.ReplyError, "model-unavailable"),
    (errors.HandlerError, "host-failed"),
    (errors.ConversationNotFound, "not-found"),
    (errors.ConversationEnded, "ended"),
    (errors.ConversationError, "conflict"),
    (errors.StoreError, "store-unavailable"),
)


@contextmanager
def told() -> Iterator[None]:
    """Turn errors of the package into problems with their own words. Raises Problem."""
    try:
        yield
    except Problem:
        raise
    except (errors.LLMFSMError, ValueError) as error:
        raise problem_of(error) from error


def problem_of(error: Exception) -> Problem:
    """Return the problem of an error of the package."""
    kind = next((kind for row, kind in _KINDS if isinstance(error, row)), "invalid")
    words = str(error)
    if isinstance(error, errors.DefinitionError):
        faults = [one for one in error.findings if one.level == "error"]
        found = (faults or error.findings)[0]
        where = "" if found.line is None else f" (line {found.line})"
        words = f"the definition cannot run yet: {found.message}{where}"
    return Problem(kind, words)
