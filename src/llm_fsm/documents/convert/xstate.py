"""Read and write the JSON of XState machines, versions 4 and 5.

It maps `states` (also nested ones), `initial`, `on`, `always`, `onDone`, guards, descriptions and
final states. Targets may be names, paths, `#ids` and `.children`. A model judges guards by their
text. Guards of our own writer carry their conditions. Actions, invocations, delays, history and
regions are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from llm_fsm._json import (
    JsonDict,
    JsonMap,
    as_list,
    as_text,
    list_at,
    member,
    object_at,
    of_kind,
    step,
)
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition, Transition
from llm_fsm.documents.convert.chart import (
    ANY_EVENT,
    MAX_DEPTH,
    UNSEEN,
    Arrow,
    Chart,
    ConversionError,
)

GUARD = "llm_fsm.conditions.compiler"
"""The type of the guards that our own writer makes. `params.conditions` are those of the
definition.
"""
_ACTING = (
    "entry",
    "exit",
    "onEntry",
    "onExit",
    "activities",
    "actions",
    "invoke",
    "output",
    "data",
    "history",
)
_SILENT = frozenset(
    {
        "$schema",
        "id",
        "key",
        "initial",
        "type",
        "states",
        "on",
        "always",
        "after",
        "onDone",
        "description",
        "version",
        "strict",
        "predictableActionArguments",
        "preserveActionOrder",
        "delimiter",
        "target",
        "order",
        "guard",
        "cond",
        "internal",
        "reenter",
        "schemas",
        "types",
        "tsTypes",
        "tags",
    }
)
_KINDS = ("decide", "task")


def read(text: str) -> Chart:
    """Return the chart of a machine's JSON. Raises ConversionError."""
    try:
        scan = source.scan(text)
    except source.SourceError as error:
        raise ConversionError(error.message, error.line) from error
    if not isinstance(scan.value, dict):
        raise ConversionError("an XState machine is one JSON object", 1)
    reader = _XStateReader(lambda pointer: scan.position(pointer).line)
    return reader.machine(scan.value)


@dataclass(frozen=True, slots=True)
class _NodePlace:
    """A node of the machine: its name (path joined by dots; "" is the root) and its place."""

    name: str
    pointer: str
    value: JsonMap


@dataclass(slots=True)
class _XStateReader:
    line: Callable[[str], int]
    chart: Chart = field(default_factory=Chart)
    places: list[_NodePlace] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)

    def lost(self, what: str, pointer: str) -> None:
        """Note a part at a pointer that nothing replaces."""
        self.chart.lost(what, self.line(pointer))

    def machine(self, value: JsonDict) -> Chart:
        if not object_at(value, "states"):
            raise ConversionError('an XState machine has "states"', self.line(""))
        name = value.get("id")
        self.chart.name = name if isinstance(name, str) and name != "(machine)" else ""
        words = value.get("description")
        self.chart.description = words if isinstance(words, str) else ""
        self.collect(_NodePlace("", "", value), 0)
        self.chart.initial = self.initial(self.places[0])
        if value.get("type") == "parallel":
            self.lost(
                "the machine runs regions side by side: only the first one is entered", "/type"
            )
            self.chart.initial = self.chart.initial or next(iter(self.chart.vertices), None)
        for place in self.places:
            self.arrows(place)
        return self.chart

    def collect(self, place: _NodePlace, depth: int) -> None:
        """Yield all nodes, outer ones first."""
        if depth > MAX_DEPTH:
            raise ConversionError(
                f"states are nested deeper than {MAX_DEPTH} levels", self.line(place.pointer)
            )
        self.places.append(place)
        value = place.value
        if isinstance(value.get("id"), str):
            self.ids[value["id"]] = place.name
        states = value.get("states")
        if states is not None and not isinstance(states, dict):
            self.lost(f'"states" of {_shown(place.name)} is no object', place.pointer + "/states")
        for key, inner in object_at(value, "states").items():
            pointer = f"{place.pointer}/states{step(key)}"
            if not isinstance(inner, dict):
                self.lost(f'state "{key[:80]}" is no object', pointer)
            name = key
            if place.name:
                name = f"{place.name}.{key}"
            if name in self.chart.vertices:
                self.lost(f'a second state "{name[:80]}"', pointer)
                continue
            vertex = self.chart.vertex(name, place.name or None, self.line(pointer))
            held = _NodePlace(name, pointer, inner if isinstance(inner, dict) else {})
            self.describe(held, vertex.label)
            self.collect(held, depth + 1)
        if place.name and object_at(value, "states"):
            self.chart.vertices[place.name].initial = self.initial(place)
        self.unused(value, place.pointer, _shown(place.name))

    def describe(self, place: _NodePlace, label: list[str]) -> None:
        value = place.value
        vertex = self.chart.vertices[place.name]
        words = value.get("description")
        if isinstance(words, str):
            label.extend(words.split("\n"))
        kind = value.get("type")
        if kind in ("final", "parallel", "history"):
            self.chart.give_kind(vertex, kind)
        elif _is_ours(value.get("meta")):
            vertex.kind = value["meta"]["kind"]

    def unused(self, value: JsonMap, pointer: str, where: str) -> None:
        for key in value:
            if key in _SILENT or (key == "meta" and _is_ours(value[key])):
                continue
            reason = ": what happens here is done by handlers or tools" if key in _ACTING else ""
            self.lost(f'"{key[:40]}" of {where}{reason}', f"{pointer}{step(key)}")

    def initial(self, place: _NodePlace) -> str | None:
        target = place.value.get("initial")
        if isinstance(target, dict):
            target = target.get("target")
        target = next(iter(as_list(target)), None)
        if target is None:
            return None
        found = None
        if isinstance(target, str):
            found = self.inside(place.name, target.removeprefix("."))
            if found is None and target.startswith("#"):
                found = self.by_id(target)
        if found is None:
            what = f"the initial state of {_shown(place.name)} is not among its states"
            self.lost(what, place.pointer + "/initial")
        return found

    def arrows(self, place: _NodePlace) -> None:
        value = place.value
        pointer = place.pointer
        for key in ("on", "after"):
            if value.get(key) is not None and not isinstance(value[key], dict):
                self.lost(f'"{key}" of {_shown(place.name)} is no object', f"{pointer}/{key}")
        for event, given in object_at(value, "on").items():
            self.each(place, given, f"{pointer}/on{step(event)}", event=event, auto=event == "")
        self.each(place, value.get("always"), pointer + "/always", event="", auto=True)
        self.each(place, value.get("onDone"), pointer + "/onDone", event="", done=True)
        for delay, given in object_at(value, "after").items():
            self.delay(place, delay, given)
        invoked = value.get("invoke")
        for index, one in enumerate(as_list(invoked)):
            for key in ("onDone", "onError"):
                if member(one, key) is not None:
                    where = f"{pointer}/invoke" + (f"/{index}" if isinstance(invoked, list) else "")
                    what = (
                        f"{_short(one.get('src'))} {'is done' if key == 'onDone' else 'has failed'}"
                    )
                    self.each(place, one[key], f"{where}/{key}", event=what)

    def delay(self, place: _NodePlace, delay: str, given: Any) -> None:
        """Make the shortest plain delay of a state its time-out, and report all others."""
        pointer = f"{place.pointer}/after{step(delay)}"
        found = given if isinstance(given, dict) else {"target": given}
        is_plain = delay.isdecimal() and "guard" not in found and "cond" not in found
        if not is_plain or isinstance(given, list) or place.value.get("states") or not place.name:
            what = f'the delay "{delay[:40]}" of {_shown(place.name)}: a time-out has seconds'
            self.lost(f"{what}, a state without others, and no guard", pointer)
            return
        target = self.target(place, found, pointer)
        vertex = self.chart.vertices[place.name]
        seconds = int(delay) / 1000
        if vertex.timeout is not None:
            what = f"{_shown(place.name)} has several delays: the shortest one is its time-out"
            self.lost(what, pointer)
        if target is not None and (vertex.timeout is None or seconds < vertex.timeout[0]):
            vertex.timeout = (seconds, target)

    def each(
        self,
        place: _NodePlace,
        given: Any,
        pointer: str,
        *,
        event: str,
        auto: bool = False,
        done: bool = False,
    ) -> None:
        """Yield the transitions of one event: a target, an object, or a list of them."""
        for index, one in enumerate(as_list(given)):
            where = pointer
            if isinstance(given, list):
                where = f"{pointer}/{index}"
            found = one if isinstance(one, dict) else {"target": one}
            self.unused(found, where, f"a transition of {_shown(place.name)}")
            target = None
            if one not in (None, {}):
                target = self.target(place, found, where)
            if target is not None:
                arrow = Arrow(
                    source=place.name or None,
                    target=target,
                    label=_label(found, event),
                    conditions=tuple(self.guards(found, where)),
                    auto=auto,
                    done=done and bool(place.name),
                    event=None if auto or done else event,
                    line=self.line(where),
                )
                self.chart.arrows.append(arrow)
            elif event and place.name:
                # An event that is handled without a move stops here: no outer state moves by it.
                self.chart.vertices[place.name].handled.add(event)
            if event and "guard" not in found and "cond" not in found:
                # The first transition of an event that has no guard is the last one that counts.
                return

    def target(self, place: _NodePlace, found: JsonMap, pointer: str) -> str | None:
        given = found.get("target")
        if isinstance(given, list):
            if len(given) > 1:
                self.lost("a transition to several states leads to the first of them", pointer)
            given = given[0] if given else None
        if not isinstance(given, str) or not given:
            self.lost(f"a transition of {_shown(place.name)} that leads nowhere", pointer)
            return None
        name = self.resolved(place, given)
        if name is None:
            self.lost(f'a transition to "{given[:80]}", which is not there', pointer)
        return name

    def resolved(self, place: _NodePlace, given: str) -> str | None:
        if given.startswith("#"):
            return self.by_id(given)
        if given.startswith("."):
            return self.inside(place.name, given[1:])
        parent = None
        if place.name:
            parent = self.chart.vertices[place.name].parent
        return self.inside(parent or "", given)

    def by_id(self, given: str) -> str | None:
        """Find `#id`, or `#id.child.grandchild`. Ids may have dots themselves."""
        whole = given[1:]
        end = len(whole)
        while end > 0:
            if whole[:end] in self.ids:
                name = self.ids[whole[:end]]
                rest = whole[end + 1 :]
                return (self.inside(name, rest) if rest else name) or None
            end = whole.rfind(".", 0, end)
        return self.inside("", whole)

    def inside(self, parent: str, path: str) -> str | None:
        name = path
        if parent:
            name = f"{parent}.{path}"
        return name if name in self.chart.vertices else None

    def guards(self, found: JsonMap, pointer: str) -> Iterator[JsonDict]:
        guard = found.get("guard", found.get("cond"))
        if guard is None:
            return
        if isinstance(guard, dict) and guard.get("type") == GUARD:
            conditions = member(guard.get("params"), "conditions")
            yield from of_kind(conditions or (), dict)
            return
        place = pointer + ("/guard" if "guard" in found else "/cond")
        words = _shortened(self.words_of(guard, place))
        self.chart.mapped(f'the guard "{words[:60]}" is for the model to judge', self.line(pointer))
        yield {"description": words}

    def words_of(self, guard: Any, pointer: str, depth: int = 0) -> str:
        """Describe a guard by its name and parameters, or by the guards that it is made of."""
        if not isinstance(guard, dict) or depth > MAX_DEPTH:
            return _short(guard)
        name = _short(guard.get("type", guard.get("name"))).removeprefix("xstate.")
        parts = guard.get("guards", guard.get("guard"))
        if name in ("and", "or", "not") and parts:
            inner = []
            for part in as_list(parts):
                text = self.words_of(part, pointer, depth + 1)
                inner.append(f"({text})" if len(list_at(part, "guards")) > 1 else text)
            if name == "not":
                return f"not {inner[0]}"
            return f" {name} ".join(inner)
        for key in guard.keys() - {"type", "name", "params"}:
            self.lost(f'"{key[:40]}" of the guard "{name[:60]}"', f"{pointer}{step(key)}")
        params = guard.get("params")
        if params:
            return f"{name} ({_short(params)})"
        return name


def _label(transition: JsonMap, event: str) -> str:
    words = transition.get("description")
    label = "any other event" if event == ANY_EVENT else event
    if isinstance(words, str):
        label = words
    return " ".join(label.split())


def _is_ours(meta: Any) -> bool:
    """Return true for the `meta` of our own writer, which holds the kind of a state."""
    return any(meta == {"kind": kind} for kind in _KINDS)


def _short(value: Any) -> str:
    return _shortened(as_text(value))


def _shortened(text: str) -> str:
    return " ".join(text.split())[:200]


def _shown(name: str) -> str:
    return f'"{name[:80]}"' if name else "the machine"


def write(definition: Definition) -> str:
    """Return a definition as the JSON of an XState 5 machine. The document of `read` gives the same
    graph.
    """
    machine: JsonDict = {"id": definition.name, "initial": definition.initial_state}
    if definition.description:
        machine["description"] = definition.description
    machine["states"] = {name: _state(definition, name) for name in definition.states}
    shared = definition.global_transitions
    if always := [_relative(_transition(one)) for one in shared if one.auto]:
        machine["always"] = always
    heard = set()
    for state in machine["states"].values():
        heard.update(state.get("on", ()))
    if events := _events([one for one in shared if not one.auto]):
        # A state that hears an event itself keeps it from the machine, so that names differ.
        machine["on"] = {
            f"{event}_ANYWHERE" if event in heard else event: [_relative(one) for one in given]
            for event, given in events.items()
        }
    text = json.dumps(machine, ensure_ascii=False, indent=2)
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _relative(transition: JsonDict) -> JsonDict:
    return {**transition, "target": "." + transition["target"]}


def _state(definition: Definition, name: str) -> JsonDict:
    state = definition.states[name]
    kind = definition.kind_of(name)
    found: JsonDict = {}
    words = state.purpose or state.description
    if words:
        found["description"] = words
    if kind == "final":
        return {**found, "type": "final"}
    if kind != "converse":
        found["meta"] = {"kind": kind}
    always = [one for one in state.transitions if one.auto or kind == "decide"]
    if always:
        found["always"] = [_transition(one) for one in always]
    events = _events([one for one in state.transitions if one not in always])
    if events:
        found["on"] = events
    return found


def _events(transitions: list[Transition]) -> dict[str, list[JsonDict]]:
    found: dict[str, list[JsonDict]] = {}
    for one in transitions:
        name = event_name(one)
        # A move without a guard is the last of its event that is ever made.
        while name in found and "guard" not in found[name][-1]:
            name += "_"
        found.setdefault(name, []).append(_transition(one))
    return found


def event_name(transition: Transition) -> str:
    """Return a name for the user's intention, from `on`, the description, or the target."""
    words = transition.on or transition.description or transition.target_state
    slug = re.sub(r"\W+", "_", words).strip("_")[:40].strip("_").upper()
    return slug or "GO"


def _transition(transition: Transition) -> JsonDict:
    found: JsonDict = {"target": transition.target_state, "description": transition.description}
    conditions = [
        one.model_dump(mode="json", exclude_defaults=True) for one in transition.conditions
    ]
    if conditions:
        found["guard"] = {"type": GUARD, "params": {"conditions": conditions}}
    return found
