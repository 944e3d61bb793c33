"""Values of secret keys, as they could stand in what is kept of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unicodedata import category

from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import texts_in
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.reply.parser import parse


def secret_samples(
    program: CompiledMachine, contexts: Iterable[Mapping[str, Any]], events: Iterable[ev.Event]
) -> set[str]:
    """Texts of all secret values that these contexts hold or that a turn wrote, also of those that were refused.

    Of refused ones not the shortest: a model's "no" is none, and stands in other words.
    """
    events = tuple(events)
    held = (*contexts, *(event.values for event in events if isinstance(event, ev.ContextSet)))
    named = (_named(event) for event in events if isinstance(event, ev.ModelReplied))
    return {text for value in _secret(program, held) for text in _texts(value)}.union(texts_in(_secret(program, named)))


def _secret(program: CompiledMachine, contexts: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    return (value for context in contexts for key, value in context.items() if program.is_secret(key))


def _named(event: ev.ModelReplied) -> Mapping[str, Any]:
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


def disguised(secret: str) -> str:
    """Other characters of the same kind, as many; what stands between letters and digits stays.

    Ones for digits, as no number begins with a zero; vowels are marks, and no letters, in some scripts.
    """
    return "".join("1" if one.isdecimal() else "x" if category(one)[0] in "LMN" else one for one in secret)
