"""Values of secret keys, as they could stand in what is kept of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_fsm import events as ev
from llm_fsm.errors import ReplyError
from llm_fsm.program import Program
from llm_fsm.reply import parse
from llm_fsm.secrecy import texts_in


def confided(program: Program, contexts: Iterable[Mapping[str, Any]], events: Iterable[ev.Event]) -> set[str]:
    """Texts of all secret values that these contexts hold or that a turn wrote, also of those that were refused."""
    written = [found for event in events if (found := _written(event))]
    return {
        text
        for context in (*contexts, *written)
        for key, value in context.items()
        if program.is_secret(key)
        for text in _texts(value)
    }


def _written(event: ev.Event) -> Mapping[str, Any]:
    if isinstance(event, ev.ContextSet):
        return event.values
    if not isinstance(event, ev.ModelReplied):
        return {}
    try:
        return parse(event.text).update
    except ReplyError:
        return {}


def _texts(value: object) -> Iterator[str]:
    """A value as words have it; of lists and objects, what is in them."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    else:
        yield from texts_in([value])
