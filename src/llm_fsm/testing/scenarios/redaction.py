"""Find and replace values of secret keys in recordings of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from unicodedata import category

from llm_fsm._json import JsonMap, of_kind
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import texts_in
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.reply.parser import parse


def secret_samples(
    program: CompiledMachine, contexts: Iterable[JsonMap], events: ev.Events
) -> set[str]:
    """Return the texts of all secret values in these contexts and events, refused values included.

    Short refused values are left out: a model's "no" is no secret, and other text contains it.
    """
    events = tuple(events)
    held = (*contexts, *(event.values for event in of_kind(events, ev.ContextSet)))
    named = map(_named, of_kind(events, ev.ModelReplied))
    secrets: set[str] = set()
    for value in _secret(program, held):
        secrets.update(_texts(value))
    return secrets.union(texts_in(_secret(program, named)))


def _secret(program: CompiledMachine, contexts: Iterable[JsonMap]) -> Iterator[Any]:
    for context in contexts:
        for key, value in context.items():
            if program.is_secret(key):
                yield value


def _named(event: ev.ModelReplied) -> JsonMap:
    try:
        return parse(event.text).update
    except ReplyError:
        return {}


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value and of everything in it."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    else:
        yield from texts_in([value])


def disguised(secret: str) -> str:
    """Replace letters and digits by others of the same kind, so that length and punctuation stay.

    Digits become ones, because no number begins with a zero. In some scripts vowels are marks, and
    not letters.
    """
    return "".join(map(_disguised_character, secret))


def _disguised_character(character: str) -> str:
    if character.isdecimal():
        return "1"
    return "x" if category(character)[0] in "LMN" else character
