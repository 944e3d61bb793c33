"""Flatten a chart to a definition: states that contain others are replaced by their inner states.

An arrow to a state that contains others leads to its initial state. An arrow from one starts in
every state inside, after their own arrows. The same event of an inner state takes precedence. A
final state inside another continues where the outer one continues when it is done.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from llm_fsm._json import JsonDict, TextMap, grouped
from llm_fsm.definition.names import ids_of
from llm_fsm.documents.convert.chart import (
    ANY_EVENT,
    MAX_DEPTH,
    Arrow,
    Chart,
    ConversionError,
    Vertex,
    judged,
)

_MAX_STATES = 20_000
_MAX_TRANSITIONS = 200_000


def flatten(chart: Chart, stem: str | None) -> JsonDict:
    """Return the definition's document. `stem`: its name if the chart has none. Raises
    ConversionError.
    """
    if not chart.vertices:
        raise ConversionError("there are no states in it")
    return _Flattening.of(chart).document(stem)


def state_ids(names: Iterable[str]) -> dict[str, str]:
    """Map any names to unique state ids. Names that are valid ids stay."""
    return ids_of(names, _latin)


def _latin(name: str) -> str:
    """Return a name without the accents of its letters."""
    latin = unicodedata.normalize("NFKD", name[:200].replace("ß", "ss"))
    return "".join(char for char in latin if not unicodedata.combining(char))


def is_judged(arrow: Arrow) -> bool:
    """Return true for an automatic move with a guard that only a model can judge."""
    return arrow.auto and any(map(judged, arrow.conditions))


def is_heard(event: str | None, handled: set[str]) -> bool:
    """Return true if an event is among those that are handled."""
    return event is not None and (event in handled or ANY_EVENT in handled)


@dataclass(frozen=True, slots=True)
class _Flattening:
    chart: Chart
    children: Mapping[str, list[str]]
    arrows: Mapping[str, list[Arrow]]
    ids: TextMap
    shared: list[Arrow]
    overruled: list[Arrow]
    """Arrows of the whole machine whose event some state handles in its own way."""

    @classmethod
    def of(cls, chart: Chart) -> _Flattening:
        vertices = chart.vertices.values()
        inner = ((one.parent, one.name) for one in vertices if one.parent is not None)
        children = grouped(inner, chart.vertices)
        leaving = [(arrow.source, arrow) for arrow in chart.arrows if arrow.source is not None]
        arrows = grouped(leaving, chart.vertices)
        handled: set[str] = set()
        handled.update(*(vertex.handled for vertex in vertices))
        for _, arrow in leaving:
            if arrow.event is not None and not arrow.conditions:
                handled.add(arrow.event)
        shared: list[Arrow] = []
        overruled: list[Arrow] = []
        for arrow in chart.arrows:
            if arrow.source is None:
                is_certain = arrow.auto and not any(map(is_judged, chart.arrows))
                kept = replace(arrow, auto=is_certain)
                (overruled if is_heard(arrow.event, handled) else shared).append(kept)
        leaves = [
            name
            for name, vertex in chart.vertices.items()
            if not children[name] and vertex.kind != "history"
        ]
        if not leaves:
            raise ConversionError("there are no states in it")
        if len(leaves) > _MAX_STATES:
            raise ConversionError(
                f"it has {len(leaves):,} states; at most {_MAX_STATES:,} are converted"
            )
        return cls(chart, children, arrows, state_ids(leaves), shared, overruled)

    def document(self, stem: str | None) -> JsonDict:
        chart = self.chart
        for name, unique in self.ids.items():
            if name != unique:
                chart.mapped(f'state "{name[:80]}" is called "{unique}"', chart.vertices[name].line)
        initial = chart.initial or self.guessed()
        states = {}
        count = 0
        for name, unique in self.ids.items():
            states[unique] = self.state(chart.vertices[name])
            count += len(states[unique].get("transitions", ()))
            if count > _MAX_TRANSITIONS:
                raise ConversionError(
                    f"made flat, it has more than {_MAX_TRANSITIONS:,} transitions"
                )
        document: JsonDict = {
            "name": chart.name or stem or "machine",
            "initial_state": self.ids[self.entered(initial)],
            "states": states,
        }
        if chart.description:
            document["description"] = chart.description
        if self.shared:
            document["global_transitions"] = list(map(self.transition, self.shared))
        for name in self.children:
            if self.children[name] and chart.vertices[name].label:
                chart.lost(
                    f'the words of "{name[:80]}", which contains other states',
                    chart.vertices[name].line,
                )
        return document

    def guessed(self) -> str:
        """Return the start if the source names none: the first state that nothing leads to."""
        aimed = {arrow.target for arrow in self.chart.arrows if arrow.target != arrow.source}
        tops = [name for name, vertex in self.chart.vertices.items() if vertex.parent is None]
        first = next(
            (name for name in tops if name not in aimed), tops[0] if tops else next(iter(self.ids))
        )
        self.chart.mapped(
            f'nothing says where to begin; taken is "{self.ids[self.entered(first)]}"'
        )
        return first

    def entered(self, name: str) -> str:
        """Return the innermost state that is entered together with a state."""
        seen: set[str] = set()
        while True:
            vertex = self.chart.vertices[name]
            if vertex.kind == "history":
                name = vertex.parent or self.first_leaf()
            elif not self.children[name]:
                return name
            else:
                inner = None
                if vertex.initial in self.chart.vertices:
                    inner = vertex.initial
                plain = [
                    child
                    for child in self.children[name]
                    if self.chart.vertices[child].kind != "history"
                ]
                name = inner or (plain[0] if plain else self.first_leaf())
            if name in seen or len(seen) > 2 * MAX_DEPTH:
                return self.first_leaf()
            seen.add(name)

    def first_leaf(self) -> str:
        return next(iter(self.ids))

    def state(self, vertex: Vertex) -> JsonDict:
        words = [line for line in vertex.label if line.strip()]
        if self.chart.titled and words and words[0].strip() == vertex.name:
            words = words[1:]
        if not words and self.ids[vertex.name] != vertex.name:
            words = [vertex.name]
        state: JsonDict = {}
        if words:
            state["purpose"] = "\n".join(words)
        if vertex.remarks:
            state["description"] = "\n".join(vertex.remarks)
        kind, arrows = self.kind(vertex)
        if kind:
            state["kind"] = kind
        if kind != "final" and arrows:
            state["transitions"] = [
                self.transition(arrow, decides=kind == "decide") for arrow in arrows
            ]
        if vertex.timeout is not None and not kind:
            seconds, target = vertex.timeout
            state |= {"timeout": seconds, "on_timeout": self.ids[self.entered(target)]}
        return state

    def kind(self, vertex: Vertex) -> tuple[str, list[Arrow]]:
        """Return the state's kind and the arrows that leave it."""
        arrows = list(self.outgoing(vertex))
        if vertex.kind == "final":
            return self.end(vertex, arrows)
        if vertex.kind == "task":
            return "task", arrows
        if vertex.kind not in ("decide", "fork", "join"):
            return "", arrows
        # A state that is passed in one step is never left through the states around it.
        own = [arrow for arrow in self.arrows[vertex.name] if not arrow.done]
        if vertex.kind == "fork" and len(own) > 1:
            self.chart.lost(
                f'"{vertex.name}" forks: only the first branch is followed', vertex.line
            )
        kind, left = self.decided(vertex, own)
        return kind, left if kind else arrows

    def decided(self, vertex: Vertex, arrows: list[Arrow]) -> tuple[str, list[Arrow]]:
        if not arrows:
            return "", arrows
        if any(map(judged, chain.from_iterable(arrow.conditions for arrow in arrows))):
            what = (
                f'"{vertex.name}" chooses by guards in words, which only a model can judge: it'
                " waits for the user"
            )
            self.chart.lost(what, vertex.line)
            return "", arrows
        if vertex.kind == "decide" and sum(not arrow.conditions for arrow in arrows) > 1:
            what = (
                f'"{vertex.name}" chooses by labels, which only a model can judge: it waits'
                " for the user"
            )
            self.chart.lost(what, vertex.line)
            return "", arrows
        return "decide", sorted(arrows, key=lambda arrow: not arrow.conditions)

    def end(self, vertex: Vertex, arrows: list[Arrow]) -> tuple[str, list[Arrow]]:
        if vertex.parent is None:
            if arrows:
                self.chart.lost(f'arrows that leave the final state "{vertex.name}"', vertex.line)
            return "final", []
        after = [arrow for arrow in self.arrows[vertex.parent] if arrow.done]
        if after:
            kind, arrows = self.decided(vertex, after)
            return kind, arrows
        if not arrows:
            self.chart.lost(
                f'the inner end "{vertex.name}" ends the whole conversation', vertex.line
            )
            return "final", []
        return "", arrows

    def outgoing(self, vertex: Vertex) -> Iterator[Arrow]:
        """Yield its own arrows, then those of the states around it and of the whole machine."""
        heard: set[str] = set()
        is_certain = True
        for owner in (vertex.name, *self.chart.above(vertex.name), None):
            events = set()
            arrows = self.overruled
            if owner is not None:
                events |= self.chart.vertices[owner].handled
                arrows = self.arrows[owner]
            for arrow in arrows:
                # A move behind a guard in words is made only if a model finds that the guard fails.
                is_certain = is_certain and not is_judged(arrow)
                inherited = owner != vertex.name
                if arrow.done or (inherited and is_heard(arrow.event, heard)):
                    continue
                if arrow.event is not None and not arrow.conditions:
                    events.add(arrow.event)
                if not inherited or self.entered(arrow.target) != vertex.name:
                    yield replace(arrow, auto=arrow.auto and is_certain)
            heard |= events

    def transition(self, arrow: Arrow, *, decides: bool = False) -> JsonDict:
        found: JsonDict = {"target_state": self.ids[self.entered(arrow.target)]}
        if arrow.label:
            found["description"] = arrow.label
        if arrow.conditions:
            found["conditions"] = [dict(condition) for condition in arrow.conditions]
        if arrow.auto and not decides:
            found["auto"] = True
        return found
