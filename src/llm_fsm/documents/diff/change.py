"""One difference between two definitions, and the running conversations that it affects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from llm_fsm._json import JsonDict, JsonMap, step
from llm_fsm.conditions.coercion import look_up
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape

Subject = Literal["machine", "state", "transition", "condition", "key", "words", "setting"]
How = Literal["added", "removed", "changed", "renamed"]
Impact = Literal["strands", "needs-map", "safe"]
When = Literal["set", "unset", "misfit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference. `pointer` is its place in the new definition, or in the old one for a removed
    part. Most differences are changes that are safe.

    A conversation is affected if it is in one of `states` (empty: in any state) and its context
    fits `when`. That is: `key` is set, is not set, or has a value that `schema` refuses. Safe
    changes affect none.
    """

    subject: Subject
    how: How = "changed"
    impact: Impact = "safe"
    message: str
    pointer: str
    reason: str = ""
    states: tuple[str, ...] = ()
    key: str | None = None
    when: When = "set"
    schema: JsonMap | None = None

    def touches(self, state: str, context: JsonMap) -> bool:
        """Return true if a running conversation cannot simply continue."""
        if self.impact == "safe" or (self.states and state not in self.states):
            return False
        if self.key is None:
            return True
        value = look_up(context, self.key)
        if self.when == "misfit":
            return value is not None and _mismatches(self.schema or {}, value)
        return (value is not None) == (self.when == "set")

    def to_dict(self) -> JsonDict:
        """Return the JSON form, as `llm-fsm diff --format json` prints it."""
        return {
            "subject": self.subject,
            "how": self.how,
            "impact": self.impact,
            "message": self.message,
            "reason": self.reason,
            "pointer": self.pointer,
            "states": list(self.states),
            "key": self.key,
        }


Differences = Iterator[Difference]


def member_changes(
    old: BaseModel,
    new: BaseModel,
    names: Iterable[str],
    place: str,
    what: str,
    *,
    subject: Subject = "setting",
    verb: str = "changed",
) -> Differences:
    """Yield the differences of the named members of a part, which is at `place`; they are safe."""
    for name in names:
        was = getattr(old, name)
        now = getattr(new, name)
        if was != now:
            key = type(new).model_fields[name].alias or name
            text = f'"{key}"{what} {verb}{from_to(was, now)}'
            yield Difference(subject=subject, message=text, pointer=place + step(key))


def from_to(old: Any, new: Any) -> str:
    """Return ` from x to y` for short values."""
    shown = [json.dumps(value, ensure_ascii=False, default=str) for value in (old, new)]
    if all(len(text) <= 60 for text in shown):
        return f" from {shown[0]} to {shown[1]}"
    return ""


def _mismatches(schema: JsonMap, value: Any) -> bool:
    try:
        return compile_shape(schema).fault(value) is not None
    except ShapeError:
        return True
