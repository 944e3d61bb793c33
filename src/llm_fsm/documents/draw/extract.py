"""Extract a neutral picture from a document: nodes, edges, and their marks.

The document is in today's form. Faulty parts are tolerated, so that they can be drawn. The picture
holds everything to show, and renderers decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from llm_fsm._json import JsonMap, grouped, places_of
from llm_fsm.conditions import infix
from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.words import in_words, known
from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.graph import kind_of

Mark = Level | Literal["covered", "missed"]
"""The mark of a node or an edge: the level of its worst finding, or its coverage by tests."""
SIGNS: Mapping[Mark | None, str] = {
    None: "",
    "info": "ℹ ",
    "warning": "⚠ ",
    "error": "✖ ",
    "covered": "✓ ",
    "missed": "✗ ",
}
"""A character for each mark, for pictures that have no other place for it."""
UNKNOWN = "unknown"
"""The kind of a node that is only the target of a transition."""
EVERYWHERE = "*"
"""The source of an edge that every waiting state offers."""
_BY_ITSELF = (
    ("on_timeout", "timeout", "time-out"),
    ("on_exhausted", "exhausted", "after all retries"),
)
"""Options of a state that lead to another one, with the kind and the label of their edges."""
_RANK: Mapping[Level, int] = {"error": 0, "warning": 1, "info": 2}
_BLANK = re.compile(r"\s+")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Details of a picture beside states and moves. `rules`: conditions are expressions if
    possible.
    """

    conditions: bool = True
    rules: bool = False
    keys: bool = False
    tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnState:
    """A state. `purpose` may be its description, `reply` is its fixed text, and `level` its mark."""

    id: str
    kind: str
    purpose: str = ""
    reply: str = ""
    keys: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    key_results: tuple[str, ...] = ()
    flow: str = ""
    pointer: str = ""
    lit: bool = False
    level: Mark | None = None

    @property
    def label(self) -> str:
        """The purpose, and the definition that a sub-flow calls."""
        if self.kind != "subflow":
            return self.purpose
        called = f"calls {self.flow}"
        return f"{self.purpose} ({called})" if self.purpose else called

    def lines(self, words: str) -> Iterator[str]:
        """Yield the lines below its id: words, keys and tools."""
        if words:
            yield words
        if self.keys:
            yield f"needs {', '.join(self.keys)}"
        if self.tools:
            yield f"tools {', '.join(self.tools)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A move, also by a time-out or a failed task.

    `guards` are its conditions: one text in words, or one expression and then the ones in words.
    `how`: `picked` by the model, `auto`, or `timeout` and `exhausted`. `source` of a global one is
    EVERYWHERE. `pattern` is the repair pattern that makes the move.
    """

    source: str
    target: str
    label: str = ""
    guards: tuple[str, ...] = ()
    how: str = "picked"
    returns: bool = False
    agrees: bool = False
    priority: float | None = None
    pattern: str | None = None
    pointer: str = ""
    lit: bool = False
    level: Mark | None = None

    @property
    def id(self) -> str:
        """The name of the edge in its picture."""
        return self.pointer if self.pattern is None else f"pattern:{self.pattern}"

    @property
    def words(self) -> str:
        """All guards in one line."""
        return " && ".join(self.guards)

    @property
    def text(self) -> str:
        """Label and guards in one line: `the name is known [name != null]`."""
        guards = f"[{self.words}]" if self.guards else ""
        return " ".join(filter(None, (self.label, guards)))

    @property
    def everywhere(self) -> bool:
        """True for a global transition."""
        return self.source == EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A machine to be drawn. Edges are in order of the file, global ones last."""

    name: str
    initial: str | None
    nodes: tuple[DrawnState, ...]
    edges: tuple[Edge, ...]

    @property
    def shared(self) -> tuple[Edge, ...]:
        """Global transitions."""
        return tuple(edge for edge in self.edges if edge.everywhere)

    @property
    def own(self) -> tuple[Edge, ...]:
        """All other edges."""
        return tuple(edge for edge in self.edges if not edge.everywhere)

    def targets(self) -> dict[str, list[str]]:
        """Map each state to the targets of its own edges."""
        names = (node.id for node in self.nodes)
        return grouped(((edge.source, edge.target) for edge in self.own), names)


def extract(written: JsonMap, details: Details | None = None) -> Picture:
    """Return the picture of a document in today's form, with any faults, as texts of one line."""
    shown = details or Details()
    return tidied(picture_of(Document(Placed("", written)), shown), shown)


def picture_of(document: Document, shown: Details) -> Picture:
    """Return the picture of a document with all keys and tools, and with texts as they are written."""
    edges: list[Edge] = []
    for name, placed in document.states.items():
        edges += _edges(name, placed, shown)
    for placed in document.root.items("global_transitions"):
        edges.append(_edge(EVERYWHERE, placed, shown))
    edges += _of_patterns(document)
    return Picture(
        name=document.root.text("name"),
        initial=document.initial,
        nodes=with_unknown(
            (_node(document, name, placed) for name, placed in document.states.items()), edges
        ),
        edges=tuple(edges),
    )


def with_unknown(nodes: Iterable[DrawnState], edges: Iterable[Edge]) -> tuple[DrawnState, ...]:
    """Return the nodes of a picture, also for targets that do not exist."""
    found = {node.id: node for node in nodes}
    for edge in edges:
        found.setdefault(edge.target, DrawnState(id=edge.target, kind=UNKNOWN))
    return tuple(found.values())


def _of_patterns(document: Document) -> Iterator[Edge]:
    """Yield the edges to the states that replace repair patterns."""
    for pointer, name in document.root.texts("patterns"):
        target = name
        if name == "cancel" and name not in document.states:
            target = "cancelled"
        if target in document.states:
            yield Edge(source=EVERYWHERE, target=target, label=name, pointer=pointer, pattern=name)


def tidied(picture: Picture, shown: Details) -> Picture:
    """Return the picture with texts of one line and without details that are not wanted."""
    nodes = [_tidy_node(node, shown) for node in picture.nodes]
    return Picture(
        name=one_line(picture.name),
        initial=None if picture.initial is None else _id(picture.initial),
        nodes=tuple({node.id: node for node in nodes}.values()),
        edges=tuple(map(_tidy_edge, picture.edges)),
    )


def _tidy_node(node: DrawnState, shown: Details) -> DrawnState:
    return replace(
        node,
        id=_id(node.id),
        purpose=one_line(node.purpose),
        reply=one_line(node.reply),
        keys=tuple(map(one_line, node.keys)) if shown.keys else (),
        tools=tuple(map(one_line, node.tools)) if shown.tools else (),
        flow=one_line(node.flow),
    )


def _tidy_edge(edge: Edge) -> Edge:
    label = edge.label
    if edge.pattern is not None:
        label = "repair pattern"
    elif edge.how in ("timeout", "exhausted"):
        label = edge.how
    elif edge.returns and edge.everywhere:
        label += " (comes back)"
    return replace(edge, source=_id(edge.source), target=_id(edge.target), label=one_line(label))


def one_line(text: str) -> str:
    """Return a text as a label, with single blanks and without characters that control a
    terminal.
    """
    return " ".join(_UNSAFE.sub("", _BLANK.sub(" ", text)).split())


def _id(name: str) -> str:
    """Return a state's id as it is drawn, without unprintable characters."""
    return one_line(name) or "?"


def _node(document: Document, name: str, placed: Placed) -> DrawnState:
    return DrawnState(
        id=name,
        kind=kind_of(document, name),
        purpose=placed.text("purpose") or placed.text("description"),
        reply=placed.text("reply"),
        keys=_names(placed, "required_context_keys"),
        tools=_names(placed, "tools"),
        key_results=tuple(one.text("name") for one in placed.items("key_results")),
        flow=placed.text("flow"),
        pointer=placed.pointer,
    )


def _names(placed: Placed, key: str) -> tuple[str, ...]:
    return tuple(placed.names(key))


def _edges(name: str, placed: Placed, shown: Details) -> Iterator[Edge]:
    for transition in placed.items("transitions"):
        yield _edge(name, transition, shown)
    for key, how, label in _BY_ITSELF:
        target = placed.get(key)
        if isinstance(target, str) and not (
            key == "on_exhausted" and target in ("raise", "continue")
        ):
            yield Edge(
                source=name, target=target, label=label, how=how, pointer=f"{placed.pointer}/{key}"
            )


def _edge(source: str, placed: Placed, shown: Details) -> Edge:
    written = placed.value
    target, priority, on = written.get("target_state"), written.get("priority"), written.get("on")
    label = placed.text("description")
    if not label and isinstance(on, str):
        label = on
    return Edge(
        source=source,
        target=target if isinstance(target, str) else "?",
        label=label,
        guards=_guards(placed, shown) if shown.conditions else (),
        how="auto" if written.get("auto") is True else "picked",
        returns=written.get("return") is True,
        agrees=written.get("agrees") is True,
        priority=priority if is_number(priority) else None,
        pointer=placed.pointer,
    )


def _guards(transition: Placed, shown: Details) -> tuple[str, ...]:
    if shown.rules:
        return tuple(rules(transition))
    words = " and ".join(guards(transition))
    return (words,) if words else ()


def guards(transition: Placed) -> Iterator[str]:
    """Yield the conditions of a transition in words: the author's, else a description of the
    test.
    """
    for condition in transition.items("conditions"):
        if words := one_line(condition.text("description")):
            yield words
            continue
        if keys := _names(condition, "requires_context_keys"):
            yield one_line(known(keys))
        if (logic := condition.get("logic")) is not None:
            yield one_line(in_words(logic))


def rules(transition: Placed) -> Iterator[str]:
    """Yield the conditions of a transition as one expression, if possible, then the conditions in
    words.
    """
    parts: list[Any] = []
    for condition in transition.items("conditions"):
        parts += [
            {"!=": [{"var": key}, None]} for key in _names(condition, "requires_context_keys")
        ]
        logic = condition.get("logic")
        if isinstance(logic, dict) and isinstance(logic.get("and"), list):
            parts += logic["and"]
        elif logic:
            parts.append(logic)
    if parts:
        whole = parts[0] if len(parts) == 1 else {"and": parts}
        yield one_line(infix.write(whole, loose=True) or "")
    for condition in transition.items("conditions"):
        if not condition.get("requires_context_keys") and condition.get("logic") is None:
            yield one_line(condition.text("description"))


def light(picture: Picture, states: Iterable[str] = (), path: Sequence[str] = ()) -> Picture:
    """Return the picture with some states and the moves of a path highlighted."""
    lit = {*states, *path}
    moves = set(pairwise(path))
    offered = {(EVERYWHERE, target) for _, target in moves}
    known = {(edge.source, edge.target) for edge in picture.edges}
    wanted = (moves & known) | {(EVERYWHERE, target) for source, target in moves - known} & offered
    return replace(
        picture,
        nodes=tuple(replace(node, lit=True) if node.id in lit else node for node in picture.nodes),
        edges=tuple(
            replace(edge, lit=True) if (edge.source, edge.target) in wanted else edge
            for edge in picture.edges
        ),
    )


def faults_of_path(picture: Picture, path: Sequence[str]) -> list[str]:
    """Return the faults of a path, one sentence each: unknown states and missing moves."""
    known = {node.id: node.kind for node in picture.nodes if node.kind != UNKNOWN}
    faults = [f"there is no state {state!r}" for state in dict.fromkeys(path) if state not in known]
    moves = {(edge.source, edge.target) for edge in picture.edges}
    for source, target in pairwise(path):
        shared = known.get(source) == "converse" and (EVERYWHERE, target) in moves
        if source in known and target in known and (source, target) not in moves and not shared:
            faults.append(f"no transition leads from {source!r} to {target!r}")
    return faults


def mark(
    picture: Picture,
    findings: Iterable[Finding],
    origin: Callable[[str], str] = lambda pointer: pointer,
) -> Picture:
    """Return the picture with each node and edge marked by the worst finding about it.

    `origin` maps a place in today's form to the place in the document of the findings.
    """
    pointers = [
        *(node.pointer for node in picture.nodes),
        *(edge.pointer for edge in picture.edges),
    ]
    places = {origin(pointer): pointer for pointer in pointers if pointer}
    worst: dict[str, Level] = {}
    for found in findings:
        holders = (places[place] for place in places_of(found.pointer) if place in places)
        place = next(holders, "")
        note_level(worst, place, found.level)
    worst.pop("", None)
    return _marked(picture, worst)


def note_level(worst: dict[str, Level], place: str, level: Level) -> None:
    """Note the level of a finding at a place, if it is the worst one there."""
    if place not in worst or _RANK[level] < _RANK[worst[place]]:
        worst[place] = level


def cover(picture: Picture, counts: Mapping[str, int]) -> Picture:
    """Return the picture with each node and edge marked by its coverage; `counts`: pointer to
    number of touches.
    """
    return _marked(
        picture, {pointer: "covered" if count else "missed" for pointer, count in counts.items()}
    )


def _marked(picture: Picture, marks: Mapping[str, Mark]) -> Picture:
    return replace(
        picture,
        nodes=tuple(replace(node, level=marks.get(node.pointer)) for node in picture.nodes),
        edges=tuple(replace(edge, level=marks.get(edge.pointer)) for edge in picture.edges),
    )
