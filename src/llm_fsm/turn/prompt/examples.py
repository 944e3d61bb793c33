"""Three short example replies, made from a definition's own states and keys: stay and ask, move,
correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llm_fsm._text import escaped
from llm_fsm.session.messages import ReplyForm

_TEXT = "…"
"""The value of a text. A model would copy an example with real words."""
_FORMATS = {
    "date": "2030-05-17",
    "time": "14:30",
    "date-time": "2030-05-17T14:30:00Z",
    "email": "name@example.org",
    "uri": "https://example.org",
}
_SMALL = 3
_MOST_PARTS = 2
_MOST_KEYS = 3
"""Keys of a state that examples name."""


class ExampleState(NamedTuple):
    """A state for example replies: the keys that it asks for, and the target of its first own
    transition.
    """

    id: str
    asks: tuple[str, ...]
    target: str


def example_replies(
    states: Sequence[ExampleState],
    keys: Mapping[str, Mapping[str, Any]],
    *,
    form: ReplyForm,
    reasoning: str,
    correct: bool,
) -> str:
    """Return the examples, each after a line that describes the situation.

    Args:
        states: States in which a user is asked, in order.
        keys: The keys that a reply may write, with their schemas.
        form: The form of a reply.
        reasoning: none, first or last.
        correct: True if a correction has a name of its own to give.
    """
    lines: list[str] = []
    for example in _examples(states, keys, correct=correct):
        lines.append(example.situation)
        lines.append(_reply(example, form, reasoning, keys))
    return "\n".join(lines)


class _Example(NamedTuple):
    """A situation, and the target and the keys of the reply to it."""

    situation: str
    target: str
    keys: tuple[str, ...] = ()


def _examples(
    states: Sequence[ExampleState], keys: Mapping[str, Any], *, correct: bool
) -> Iterator[_Example]:
    """Yield the examples in the first state that asks for keys: stay, move, and correct in the next
    state.
    """
    if not states:
        return
    asking = [number for number, state in enumerate(states) if state.asks]
    place = asking[0] if asking else 0
    here = states[place]
    asks = here.asks[:_MOST_KEYS]
    yield _staying(here.id, asks)
    if here.target:
        yield _moving(here, asks[1:] or asks)
    changed = asks[0] if asks else next(iter(keys), "")
    if not changed:
        return
    later = states[(place + 1) % len(states)].id
    situation = f"In state {later}, the user only changes {changed}."
    if correct:
        yield _Example(f"{situation} You name the pattern:", "correct", (changed,))
    else:
        yield _Example(f"{situation} You write it and stay:", later, (changed,))


def _staying(state: str, asks: tuple[str, ...]) -> _Example:
    if not asks:
        return _Example(
            f"In state {state}, no transition fits. You stay and ask:", state
        )
    first, *rest = asks
    if not rest:
        situation = (
            f"In state {state}, the user does not give {first} yet. You stay and ask:"
        )
        return _Example(situation, state)
    are = "are" if len(rest) > 1 else "is"
    missing = f"{_listed(rest)} {are} still missing"
    situation = (
        f"In state {state}, the user gives {first}, and {missing}. You stay and ask:"
    )
    return _Example(situation, state, (first,))


def _moving(here: ExampleState, last: tuple[str, ...]) -> _Example:
    """Return the example of a move. `last`: the keys that the user gives."""
    transition = f"the transition to {here.target}"
    if not last:
        situation = f"In state {here.id}, the message fits {transition}. You move:"
        return _Example(situation, here.target)
    situation = (
        f"In state {here.id}, the user gives {_listed(last)}, and {transition} fits."
    )
    return _Example(f"{situation} You move:", here.target, last)


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _reply(
    example: _Example,
    form: ReplyForm,
    reasoning: str,
    keys: Mapping[str, Mapping[str, Any]],
) -> str:
    values = {key: sample(keys.get(key, {})) for key in example.keys}
    update: Any = values
    if form == "list":
        update = [{"key": key, "value": value} for key, value in values.items()]
    transition = {"target_state": example.target, "context_update": update}
    reply: dict[str, Any] = {"transition": transition, "message": _TEXT}
    if reasoning == "first":
        reply = {"reasoning": _TEXT, **reply}
    elif reasoning == "last":
        reply["reasoning"] = _TEXT
    return escaped(reply)


def sample(schema: Mapping[str, Any]) -> Any:
    """Return a value of a key for an example."""
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return next((value for value in enum if value is not None), None)
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), None)
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "array":
        return [sample(_schema_or_any(schema.get("items")))]
    if kind == "object":
        properties = _schema_or_any(schema.get("properties"))
        parts = list(properties.items())[:_MOST_PARTS]
        return {name: sample(_schema_or_any(part)) for name, part in parts}
    return _FORMATS.get(str(schema.get("format")), _TEXT)


def _schema_or_any(schema: object) -> Mapping[str, Any]:
    """Return an object of a schema; {} for anything else, such as true."""
    return schema if isinstance(schema, Mapping) else {}


def _number(schema: Mapping[str, Any]) -> int | float:
    """Return a small number within the simple bounds of a schema."""
    least, most, step = (
        schema.get("minimum"),
        schema.get("maximum"),
        schema.get("multipleOf"),
    )
    number = step if isinstance(step, int | float) else _SMALL
    if isinstance(most, int | float) and number > most:
        number = most
    if isinstance(least, int | float) and number < least:
        number = least
    return number
