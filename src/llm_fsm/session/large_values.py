"""Large values of contexts: a stored session refers to them, so that no turn writes them anew.

The record of the turn that set a value holds it. The stored session has null in its place, and
`large` says where it is: {"/context/catalogue": [1, "/events/0/context/catalogue", "9f86d0…"]}.
That is a JSON pointer (RFC 6901) into the session; then the number of the record, a JSON pointer
into it, and the SHA-256 of the value's JSON text. Small values, and values that no record holds
whole, stay in the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from llm_fsm._json import JsonMap, step, text_of, without_none
from llm_fsm._text import sha256_of
from llm_fsm.session import events as ev
from llm_fsm.session.session import Frame, Reference, Session

LARGE = 16_000
"""Characters of JSON text. To look up a shorter value takes longer than to write it."""
_CONTEXTS = ("context", "shared")


class Located(NamedTuple):
    """A large value, and where it is on record."""

    value: Any
    reference: Reference


def without_large(
    session: Session, located: Sequence[Located], records: Mapping[int, Sequence[ev.Event]]
) -> tuple[Session, dict[str, Reference], tuple[Located, ...]]:
    """Take large values out of a session, to store it.

    Args:
        session: The session.
        located: Large values of which it is known where they are on record.
        records: Events by number of the record, in which other values are looked for.

    Returns:
        The session with None in the place of each value; a reference by place; the values with
        their references.
    """
    known, places, on_record = (list(located), dict[str, Reference](), dict(_values_of(records)))

    def referred(value: Any) -> Reference | None:
        """Return where a value is on record; None for a small one, and for one that is on no
        record."""
        # The same object, so nothing has changed it: values are never changed in place.
        for same in known:
            if same.value is value:
                return same.reference
        # To write every value of a context costs as much as the session.
        text = text_of(value) if on_record else ""
        reference = on_record.get(digest(text)) if len(text) > LARGE else None
        if reference is not None:
            known.append(Located(value, reference))
        return reference

    def small(place: str, context: JsonMap) -> JsonMap:
        found = {key: referred(value) for key, value in context.items()}
        # Null stands for them, so that a reader sees which keys have a value.
        large = without_none(found)
        places.update((place + step(key), reference) for key, reference in large.items())
        return {**context, **dict.fromkeys(large)} if large else context

    lean = _with_contexts(session, small)
    # What no place refers to any more need not be remembered.
    return lean, places, tuple(one for one in known if one.reference in places.values())


def with_large(session: Session, values: JsonMap) -> Session:
    """Put large values back into a session that was stored without them.

    Args:
        session: The session as it was stored.
        values: Each value, by its place in the session as a JSON pointer.
    """
    return _with_contexts(
        session,
        lambda place, context: {
            key: values.get(place + step(key), value) for key, value in context.items()
        },
    )


def digest(text: str) -> str:
    """Return the SHA-256 of a value's JSON text."""
    return sha256_of(text)


def _values_of(records: Mapping[int, Sequence[ev.Event]]) -> Iterator[tuple[str, Reference]]:
    """Yield the SHA-256 of each large value on record, and where it is."""
    for number, events in records.items():
        for index, event in enumerate(events):
            for place, context in _contexts_of(event):
                for key, value in context.items():
                    text = text_of(value)
                    if len(text) > LARGE:
                        sha = digest(text)
                        yield (sha, Reference(number, f"/events/{index}{place}{step(key)}", sha))


def _contexts_of(event: ev.Event) -> Iterator[tuple[str, JsonMap]]:
    """Yield the contexts in an event, with their places as JSON pointers."""
    match event:
        case ev.TurnUndone():
            yield from ((f"/session/{name}", event.session.get(name, {})) for name in _CONTEXTS)
        case ev.ContextSet() | ev.AnswersChanged() | ev.SharedSet():
            yield "/values", event.values
        case ev.Started():
            yield "/context", event.context
            yield "/shared", event.shared
        case ev.FlowPushed() | ev.Restarted():
            yield "/context", event.context


def _with_contexts(session: Session, change: Callable[[str, JsonMap], JsonMap]) -> Session:
    """Change every context of a session; `change` is given its place as a JSON pointer, and the
    context."""

    def saved(place: str, fields: Any) -> Any:
        return {
            **fields,
            **{
                name: change(f"{place}/{name}", fields[name])
                for name in _CONTEXTS
                if name in fields
            },
        }

    def frame(place: str, one: Frame) -> Frame:
        return replace(
            one,
            saved=saved(f"{place}/kept", one.saved),
            before=change(f"{place}/before", one.before),
        )

    work = session.work
    return replace(
        session,
        context=change("/context", session.context),
        shared=change("/shared", session.shared),
        stack=tuple(frame(f"/stack/{number}", one) for number, one in enumerate(session.stack)),
        work=work and replace(work, checkpoint=saved("/work/checkpoint", work.checkpoint)),
    )
