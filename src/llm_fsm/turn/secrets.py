"""Find every value of a secret key: accepted, refused, replaced, withdrawn or deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llm_fsm._json import JsonMap, KeyTest
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import EXTRA
from llm_fsm.session.redaction import DOTS, texts_in
from llm_fsm.turn.reply.parser import parse


def secrets_in(
    events: ev.Events,
    is_secret: KeyTest,
    contexts: Iterable[JsonMap] = (),
    earlier: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the values that events and contexts give to secret keys, as texts, longest first.

    Args:
        events: The events of one turn, or of many. A reply's values count although they were
            refused.
        is_secret: Tells secret keys from others.
        contexts: Further contexts.
        earlier: Values that were given before, such as `Session.secrets`.
    """
    secrets: list[Any] = [*earlier]
    # They are gone through twice, and an iterator would be empty then.
    events = tuple(events)
    for event in events:
        if isinstance(event, ev.SecretsGiven):
            secrets += event.texts
    for values in (*contexts, *_all_values(events)):
        secrets += [value for key, value in values.items() if is_secret(key)]
    # A model may send the dots back that it was shown, and they are no secret.
    return tuple(text for text in texts_in(secrets) if text != DOTS)


def _all_values(events: ev.Events) -> Iterator[JsonMap]:
    for event in events:
        yield from _values(event)


def _values(event: ev.Event) -> Iterator[JsonMap]:
    """Yield the values that an event gives to keys, or tries to give."""
    match event:
        case ev.ContextSet() | ev.AnswersChanged():
            yield event.values
        case ev.Started() | ev.FlowPushed() | ev.Restarted():
            yield event.context
        case ev.Updated():
            yield event.values
        case ev.ModelReplied(asked_for="turn"):
            # What a reply gives to a secret key is secret even if it was refused.
            try:
                update = parse(event.text).update
            except ReplyError:
                return
            yield update
            extra = update.get(EXTRA)
            if isinstance(extra, dict):
                yield extra
