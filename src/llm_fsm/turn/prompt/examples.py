"""Three short example replies, made from a definition's own states and keys: stay and ask, move, correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llm_fsm._text import escaped
from llm_fsm.session.messages import ReplyForm

_TEXT = "…"
"""The value of a text. An example with words of its own would be copied."""
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
    """A state of which replies can be shown: the keys that it asks for, and its first own transition's target."""

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
    """Return the examples, each after a line that says what has happened.

    Args:
        states: States in which a user is asked, in order.
        keys: The keys that a reply may write, with their schemas.
        form: The form of a reply.
        reasoning: none, first or last.
        correct: True if a correction has a name of its own to give.
    """
    return "\n".join(
        f"{when}\n{_reply(target, update, form, reasoning, keys)}"
        for when, target, update in _examples(states, keys, correct=correct)
    )


def _examples(
    states: Sequence[ExampleState], keys: Mapping[str, Any], *, correct: bool
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what has happened, the target and the keys of each example."""
    if not states:
        return
    place, here = next(((n, state) for n, state in enumerate(states) if state.asks), (0, states[0]))
    here = here._replace(asks=here.asks[:_MOST_KEYS])
    first, *rest = here.asks or ("",)
    if rest:
        lacking = f"{_listed(rest)} {'are' if len(rest) > 1 else 'is'} still missing"
        yield f"In state {here.id}, the user gives {first}, and {lacking}. You stay and ask:", here.id, (first,)
    elif first:
        yield f"In state {here.id}, the user does not give {first} yet. You stay and ask:", here.id, ()
    else:
        yield f"In state {here.id}, no transition fits. You stay and ask:", here.id, ()
    last = tuple(rest or here.asks)
    if here.target and last:
        fits = f"the transition to {here.target} fits. You move:"
        yield f"In state {here.id}, the user gives {_listed(last)}, and {fits}", here.target, last
    elif here.target:
        yield f"In state {here.id}, the message fits the transition to {here.target}. You move:", here.target, ()
    changed = here.asks[0] if here.asks else next(iter(keys), "")
    later = states[(place + 1) % len(states)].id
    if changed and correct:
        yield f"In state {later}, the user only changes {changed}. You name the pattern:", "correct", (changed,)
    elif changed:
        yield f"In state {later}, the user only changes {changed}. You write it and stay:", later, (changed,)


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _reply(
    target: str, update: Sequence[str], form: ReplyForm, reasoning: str, keys: Mapping[str, Mapping[str, Any]]
) -> str:
    values = {key: sample(keys.get(key, {})) for key in update}
    written: Any = [{"key": key, "value": value} for key, value in values.items()] if form == "list" else values
    reply: dict[str, Any] = {"transition": {"target_state": target, "context_update": written}, "message": _TEXT}
    if reasoning == "first":
        reply = {"reasoning": _TEXT, **reply}
    elif reasoning == "last":
        reply["reasoning"] = _TEXT
    return escaped(reply)


def sample(schema: Mapping[str, Any]) -> Any:
    """Return a value of a key as an example shows it."""
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return next((value for value in enum if value is not None), None)
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "array":
        items = schema.get("items")
        return [sample(items if isinstance(items, Mapping) else {})]
    if kind == "object":
        properties = schema.get("properties")
        parts = list(properties.items())[:_MOST_PARTS] if isinstance(properties, Mapping) else []
        return {name: sample(part if isinstance(part, Mapping) else {}) for name, part in parts}
    return _FORMATS.get(str(schema.get("format")), _TEXT)


def _number(schema: Mapping[str, Any]) -> int | float:
    """Return a small number within the bounds of a schema, as far as these are simple."""
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    found = step if isinstance(step, int | float) else _SMALL
    if isinstance(most, int | float) and found > most:
        found = most
    return least if isinstance(least, int | float) and found < least else found
