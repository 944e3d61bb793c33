"""A nested state chart, as other notations have it: states in states, arrows, and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from llm_fsm._json import JsonDict, member
from llm_fsm.conditions import infix
from llm_fsm.definition.names import KEY_PATTERN

ANY_EVENT = "*"
MAX_DEPTH = 50
"""The greatest depth of nested states."""
_KEY = re.compile(KEY_PATTERN)
_SPACE = re.compile(r"\s+")
UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that move a terminal's cursor or hide text. Writers replace them by escapes."""


class ConversionError(ValueError):
    """The text is not in the expected notation. `line` counts from 1, if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a part of the source. `lost`: nothing replaces it."""

    lost: bool
    message: str
    line: int | None = None

    def to_dict(self) -> JsonDict:
        """Return the JSON form, as `llm-fsm convert --report json` prints it."""
        return {"mapped": not self.lost, "message": self.message, "line": self.line}


@dataclass(slots=True)
class Vertex:
    """A state. `kind`: "" or final, decide, task, fork, join, history, parallel. `initial` names a
    child. `handled` are events that it handles without a move, so that no outer state does.
    `timeout` has the seconds and the target of a time-out.
    """

    name: str
    parent: str | None = None
    kind: str = ""
    initial: str | None = None
    label: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    handled: set[str] = field(default_factory=set)
    timeout: tuple[float, str] | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A move between states by their names. `source` None: from every state.

    `conditions` are those of the definition. `done`: taken when the states inside `source` have
    ended. `event` is its name, ANY_EVENT for the others. An inner state's arrow takes precedence
    over an outer one with the same event.
    """

    source: str | None
    target: str
    label: str = ""
    conditions: tuple[JsonDict, ...] = ()
    auto: bool = False
    done: bool = False
    event: str | None = None
    line: int | None = None


@dataclass(slots=True)
class Chart:
    """The whole chart. Vertices are in order of their first mention.

    `titled`: the first line of a state's text may be a title, which is dropped if it equals the
    name.
    """

    name: str = ""
    description: str = ""
    titled: bool = False
    initial: str | None = None
    vertices: dict[str, Vertex] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def lost(self, message: str, line: int | None = None) -> None:
        """Note a part that nothing replaces."""
        self.notes.append(Note(True, message, line))

    def mapped(self, message: str, line: int | None = None) -> None:
        """Note a part that is now written in another way."""
        self.notes.append(Note(False, message, line))

    def give_kind(self, vertex: Vertex, kind: str) -> None:
        """Give a state the kind that UML has for it, and note what becomes of it."""
        vertex.kind = kind
        if kind == "parallel":
            self.lost(
                f'"{vertex.name}" runs regions side by side: only the first one is entered',
                vertex.line,
            )
        elif kind == "history":
            self.lost(f'history "{vertex.name}" is read as the state around it', vertex.line)

    def vertex(self, name: str, parent: str | None = None, line: int | None = None) -> Vertex:
        """Return the state of this name, and make it on its first mention."""
        return self.vertices.setdefault(name, Vertex(name, parent, line=line))

    def above(self, name: str | None) -> Iterator[str]:
        """Yield the states around a state, innermost first."""
        seen = set()
        while name is not None and name not in seen:
            seen.add(name)
            name = self.vertices[name].parent
            if name is not None:
                yield name


def conditions_of(guard: str) -> tuple[JsonDict, ...]:
    """Convert a guard to conditions. An expression becomes keys and logic, and a model judges any
    other text.
    """
    text = _SPACE.sub(" ", guard).strip()
    if not text:
        return ()
    try:
        rule = infix.read(text)
    except ValueError:
        return ({"description": text},)
    parts = rule["and"] if isinstance(rule, dict) and "and" in rule else [rule]
    keys = [key for part in parts if (key := _demanded(part)) is not None]
    rest = [part for part in parts if _demanded(part) is None]
    condition: JsonDict = {"requires_context_keys": keys} if keys else {}
    if rest:
        condition["logic"] = rest[0] if len(rest) == 1 else {"and": rest}
    return (condition,)


def _demanded(rule: Any) -> str | None:
    """Return the key of `key != null`, which becomes a required key."""
    sides = member(rule, "!=")
    if not isinstance(sides, list) or sides[1] is not None:
        return None
    key = member(sides[0], "var")
    if isinstance(key, str) and _KEY.fullmatch(key):
        return key
    return None


def judged(condition: JsonDict) -> bool:
    """Return true if only a model can judge it."""
    return condition.get("logic") is None and not condition.get("requires_context_keys")


_IF = re.compile(r"(?:if|when)\s+", re.IGNORECASE)


def read_choices(chart: Chart) -> None:
    """Read labels of choices as guards if they are expressions: `if n < 0`."""
    for index, arrow in enumerate(chart.arrows):
        vertex = chart.vertices.get(arrow.source or "")
        if vertex is None or vertex.kind != "decide" or arrow.conditions or not arrow.label:
            continue
        conditions = conditions_of(_IF.sub("", arrow.label, count=1))
        if not any(judged(condition) for condition in conditions):
            chart.arrows[index] = replace(arrow, conditions=conditions)


_GUARDED = re.compile(
    r"(?P<label>[^\[\]]*)\[(?P<guard>[^\[\]]*)\]\s*(?:/\s*(?P<action>.*))?", re.DOTALL
)


def split_label(text: str) -> tuple[str, str, str]:
    """Split the UML form `label [guard] / action`."""
    found = _GUARDED.fullmatch(text.strip())
    if found is None:
        return text.strip(), "", ""
    return found["label"].strip(), found["guard"].strip(), (found["action"] or "").strip()
