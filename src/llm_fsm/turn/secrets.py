"""Every value that was given for a secret key: accepted, refused, replaced, taken back or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import EXTRA
from llm_fsm.session.redaction import DOTS, texts_in
from llm_fsm.turn.reply.parser import parse


def secrets_in(
    events: Iterable[ev.Event], is_secret: Callable[[str], bool], contexts: Iterable[Mapping[str, Any]] = ()
) -> tuple[str, ...]:
    """Return the values that events and contexts give to secret keys, as texts, longest first.

    Args:
        events: The events of one turn, or of many. A reply's values count although they were refused.
        is_secret: Tells secret keys from others.
        contexts: Further contexts.
    """
    given = (*contexts, *(values for event in events for values in _given(event)))
    found = texts_in(value for values in given for key, value in values.items() if is_secret(key))
    return tuple(text for text in found if text != DOTS)


def _given(event: ev.Event) -> Iterator[Mapping[str, Any]]:
    match event:
        case ev.ContextSet() | ev.AnswersChanged():
            yield event.values
        case ev.Started() | ev.FlowPushed() | ev.Restarted():
            yield event.context
        case ev.Updated():
            yield event.values
        case ev.ModelReplied(asked_for="turn"):
            try:
                update = parse(event.text).update
            except ReplyError:
                return
            yield update
            if isinstance(extra := update.get(EXTRA), dict):
                yield extra
