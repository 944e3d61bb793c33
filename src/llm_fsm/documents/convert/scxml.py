"""Read and write SCXML (W3C recommendation, 2015): states, nested states, transitions, conditions, ends.

Documents with a DTD are refused, so that no entity is ever expanded. Simple conditions are read as expressions.
Executable content, data, history and parallel states are reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from llm_fsm.conditions import infix
from llm_fsm.definition.models import Definition, Transition
from llm_fsm.documents.convert.chart import (
    MAX_DEPTH,
    UNSEEN,
    Arrow,
    Chart,
    ConversionError,
    Vertex,
    conditions_of,
)
from llm_fsm.documents.convert.xstate import event_name

_SCXML = "http://www.w3.org/2005/07/scxml"
_OWN = "urn:llm-fsm"
_STATES = frozenset({"state", "parallel", "final", "history"})
_SILENT = frozenset({"initial", "transition", *_STATES})
_KINDS = frozenset({"decide", "task"})


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)
    state: str = ""
    """Its name, once it is known as a state."""

    def each(self, *names: str) -> Iterator[_Element]:
        return (child for child in self.children if child.name in names)


def read(text: str) -> Chart:
    """Return the chart of a document. Raises ConversionError."""
    root = _parsed(text)
    if root.name != "scxml":
        raise ConversionError(f"an SCXML document begins with <scxml>, this one with <{root.name[:40]}>", root.line)
    reader = _Reader(Chart(name=root.attributes.get("name", "")))
    reader.collect(root, None)
    reader.chart.initial = reader.initial(root)
    for element, name in reader.states:
        reader.arrows(element, name)
    return reader.chart


def _parsed(text: str) -> _Element:
    """Return the elements as a tree. A DTD is refused before any of it is read."""
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    top = _Element("", {}, 0)
    stack = [top]

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise ConversionError(f"elements are nested deeper than {MAX_DEPTH} levels", parser.CurrentLineNumber)
        space, _, local = name.rpartition(" ")
        known = local if space in ("", _SCXML) else f"{{{space}}}{local}"
        element = _Element(known, attributes, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def refuse(*_: Any) -> None:
        raise ConversionError("a document type declaration (<!DOCTYPE …>) is not read", parser.CurrentLineNumber)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: stack.pop() and None
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise ConversionError(f"it is no XML: {expat.ErrorString(error.code)}", error.lineno) from error
    return top.children[0]


@dataclass(slots=True)
class _Reader:
    chart: Chart
    states: list[tuple[_Element, str | None]] = field(default_factory=list)

    def collect(self, element: _Element, parent: str | None) -> None:
        """Yield all states, outer ones first, and give ids to those without one."""
        self.states.append((element, parent))
        for child in element.children:
            if child.name in _STATES:
                self.collect(child, self.state(child, parent))
            elif child.name not in _SILENT:
                where = f'"{parent}"' if parent else "the document"
                self.chart.lost(
                    f"<{child.name[:40]}> of {where}: what it does is done by handlers or tools", child.line
                )
        if parent is not None and any(element.each(*_STATES)):
            self.chart.vertices[parent].initial = self.initial(element)

    def state(self, element: _Element, parent: str | None) -> str:
        name = element.attributes.get("id") or f"{element.name}_{len(self.chart.vertices) + 1}"
        if name in self.chart.vertices:
            raise ConversionError(f'a second state has the id "{name[:80]}"', element.line)
        vertex = Vertex(name, parent, line=element.line)
        element.state = name
        self.chart.vertices[name] = vertex
        words = element.attributes.get(f"{_OWN} purpose")
        if words:
            vertex.label = words.split("\n")
        own = element.attributes.get(f"{_OWN} kind")
        if element.name in ("final", "parallel", "history"):
            self.chart.give_kind(vertex, element.name)
        elif own in _KINDS:
            vertex.kind = own
        return name

    def initial(self, element: _Element) -> str | None:
        """Return the state that is entered first: `initial`, as attribute or element."""
        given = element.attributes.get("initial", "").split()
        for inner in element.each("initial"):
            for transition in inner.each("transition"):
                given = transition.attributes.get("target", "").split()
        if given and given[0] not in self.chart.vertices:
            self.chart.lost(f'the initial state "{given[0][:80]}" is not there', element.line)
            return None
        if given:
            return given[0]
        first = next(element.each("state", "parallel", "final"), None)
        return None if first is None else first.state

    def arrows(self, element: _Element, name: str | None) -> None:
        if name is not None and self.chart.vertices[name].kind == "history":
            return
        for transition in element.each("transition"):
            self.arrow(transition, name)

    def arrow(self, element: _Element, name: str | None) -> None:
        where = f'"{name}"' if name else "the document"
        for child in element.children:
            self.chart.lost(f"<{child.name[:40]}> in a transition of {where}", child.line)
        targets = element.attributes.get("target", "").split()
        if not targets:
            self.chart.lost(f"a transition of {where} that leads nowhere", element.line)
            return
        if len(targets) > 1:
            self.chart.lost("a transition to several states leads to the first of them", element.line)
        if targets[0] not in self.chart.vertices:
            self.chart.lost(f'a transition to "{targets[0][:80]}", which is not there', element.line)
            return
        event = element.attributes.get("event", "").strip()
        done = name is not None and event == f"done.state.{name}"
        words = element.attributes.get(f"{_OWN} description")
        label = words if words is not None else "" if done else "any other event" if event == "*" else event
        self.chart.arrows.append(
            Arrow(
                source=name,
                target=targets[0],
                label=" ".join(label.split()),
                conditions=self.conditions(element),
                auto=not event,
                done=done,
                event=event or None,
                line=element.line,
            )
        )

    def conditions(self, element: _Element) -> tuple[dict[str, Any], ...]:
        own = element.attributes.get(f"{_OWN} conditions")
        if own is not None:
            try:
                found = json.loads(own)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, list) and all(isinstance(one, dict) for one in found):
                return tuple(found)
            self.chart.lost("conditions that are no JSON", element.line)
        guard = element.attributes.get("cond", "")
        found = conditions_of(guard, bare=True)
        if found and "description" in found[0]:
            self.chart.mapped(f'the condition "{guard[:60]}" is for the model to judge', element.line)
        return found


def write(definition: Definition) -> str:
    """Return a definition as an SCXML document. The document of `read` gives the same graph."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<scxml xmlns="{_SCXML}" xmlns:llm="{_OWN}" version="1.0" datamodel="ecmascript"'
        f" name={_quoted(definition.name)} initial={_quoted(definition.initial_state)}>",
    ]
    for name in definition.states:
        lines += _state(definition, name)
    lines += [f"  {_transition(one, eventless=one.auto)}" for one in definition.global_transitions]
    return "\n".join((*lines, "</scxml>")) + "\n"


def _quoted(text: str) -> str:
    """Return an attribute's value, with line breaks and without characters that XML cannot hold."""
    plain = "".join(char for char in text if char in "\t\n\r" or (char >= " " and char not in "\ufffe\uffff"))
    quoted = quoteattr(plain, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
    return UNSEEN.sub(lambda found: f"&#{ord(found[0])};", quoted)


def _state(definition: Definition, name: str) -> Iterator[str]:
    state, kind = definition.states[name], definition.kind_of(name)
    words = state.purpose or state.description
    purpose = f" llm:purpose={_quoted(words)}" if words else ""
    if kind == "final":
        yield f"  <final id={_quoted(name)}{purpose}/>"
        return
    own = f" llm:kind={_quoted(kind)}" if kind != "converse" else ""
    yield f"  <state id={_quoted(name)}{own}{purpose}>"
    for one in state.transitions:
        yield f"    {_transition(one, eventless=one.auto or kind == 'decide')}"
    yield "  </state>"


def _transition(transition: Transition, *, eventless: bool) -> str:
    parts = [] if eventless else [f"event={_quoted(event_name(transition))}"]
    conditions = [one.model_dump(mode="json", exclude_defaults=True) for one in transition.conditions]
    rules: list[Any] = []
    for one in transition.conditions:
        rules += [{"!=": [{"var": key}, None]} for key in one.requires_context_keys]
        rules += [] if one.logic is None else [one.logic]
    expression = infix.write(rules[0] if len(rules) == 1 else {"and": rules}) if rules else None
    if expression is not None:
        parts.append(f"cond={_quoted(expression)}")
    parts.append(f"target={_quoted(transition.target_state)}")
    parts.append(f"llm:description={_quoted(transition.description)}")
    if conditions:
        parts.append(f"llm:conditions={_quoted(json.dumps(conditions))}")
    return f"<transition {' '.join(parts)}/>"
