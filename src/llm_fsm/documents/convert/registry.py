"""The notations, with their detection, readers and writers.

| form | read | written |
|---|---|---|
| `definition` | this form, 3.x, 4.x, workflow JSON 2.0, `{"states": {"a": ["b"]}}` | this form |
| `mermaid` | `stateDiagram`, `stateDiagram-v2` | `stateDiagram-v2` |
| `xstate` | JSON of versions 4 and 5 | version 5 |
| `dot` | | digraph |
| `scxml` | | SCXML 1.0 |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, member, of_kind, without_none
from llm_fsm.conditions import infix
from llm_fsm.definition import json_source as source
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import upgrade
from llm_fsm.definition.compat.other_tools import yaml_keys
from llm_fsm.definition.models import Condition, Definition, State, Transition
from llm_fsm.documents.convert import mermaid, scxml, xstate
from llm_fsm.documents.convert.chart import Chart, ConversionError, Note
from llm_fsm.documents.convert.flatten import flatten
from llm_fsm.documents.draw.dot import dot as draw_dot
from llm_fsm.documents.draw.extract import Details, Picture, extract, one_line
from llm_fsm.documents.draw.mermaid import mermaid as draw_mermaid
from llm_fsm.documents.loader import load_dict, load_text
from llm_fsm.errors import DefinitionError, hinted

DEFINITION = "definition"
CHARTS: Mapping[str, Callable[[str], Chart]] = {"mermaid": mermaid.read, "xstate": xstate.read}
"""Form to its reader."""
READ_FORMS = (DEFINITION, *CHARTS)
_FORM_OF: TextMap = {
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".scxml": "scxml",
    ".json": DEFINITION,
}
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*mermaid[ \t]*\r?", re.IGNORECASE)
_COMMENTS = re.compile(r"\A(?:\s+|%%[^\n]*|//[^\n]*|#[^\n]*|/\*.*?\*/|---\n.*?\n---\n)*", re.DOTALL)
_READ_LIST = "a definition (JSON), a Mermaid state diagram or XState JSON"
_DOT_GRAPH = re.compile(
    r"(?:strict\s+)?(?:di)?graph\b(?:\s+(?:\"(?:[^\"\\]|\\.)*\"|[^\s{;\"]+))?\s*(?:/[/*][^{]*)?\{",
    re.IGNORECASE,
)
_NOT_READ = "this is {}, which is written but not read; give {}"


@dataclass(frozen=True, slots=True)
class Converted:
    """A definition, its document, and notes on the conversion."""

    document: JsonMap
    definition: Definition
    notes: tuple[Note, ...]


def form_of_name(name: str) -> str | None:
    """Return the form for a file's ending."""
    return next((form for ending, form in _FORM_OF.items() if name.lower().endswith(ending)), None)


def unfenced(text: str) -> str:
    """Return the first diagram of a Markdown text, with its line numbers kept; any other text
    unchanged.
    """
    lines = text.split("\n")
    for start, line in enumerate(lines):
        found = _FENCE.fullmatch(line)
        if found is not None:
            rest = (
                number
                for number in range(start + 1, len(lines))
                if lines[number].strip() == found[1]
            )
            return "\n".join([*[""] * (start + 1), *lines[start + 1 : next(rest, len(lines))]])
    return text


def detect(text: str, name: str = "") -> str:
    """Detect the form of a text by its beginning; `name` decides in other cases. Raises
    ConversionError.
    """
    plain = text.removeprefix("\ufeff")
    found = _COMMENTS.match(plain)
    head = plain[found.end() if found else 0 :]
    if re.match(r"stateDiagram\b", head):
        return "mermaid"
    if head.startswith("{"):
        return _json_form(plain)
    if re.search(r"\b(?:createMachine|setup)\s*\(", head):
        raise ConversionError(
            "this is JavaScript, which is not run; give the machine's configuration as JSON", 1
        )
    if head.startswith("<"):
        raise ConversionError(_NOT_READ.format("XML such as SCXML", _READ_LIST), 1)
    if _DOT_GRAPH.match(head):
        raise ConversionError(_NOT_READ.format("a DOT graph", _READ_LIST), 1)
    other = re.match(
        r"(flowchart|graph|sequenceDiagram|classDiagram|mindmap|journey|gantt)\b", head
    )
    if other is not None:
        raise ConversionError(
            f"this is a Mermaid {other[1]}; of Mermaid only state diagrams are read", 1
        )
    by_name = form_of_name(name)
    if by_name in READ_FORMS and head:
        return by_name
    if yaml_keys(head) is not None:
        # Whose file it is, a check of it as a definition says.
        return DEFINITION
    raise ConversionError(
        f"it is none of the forms that are read: {_READ_LIST}; --from says which one it is", 1
    )


def _json_form(text: str) -> str:
    """Return the form of JSON. XState machines have `initial`, `on` and `type`, and definitions
    have other keys.
    """
    try:
        value = source.parse(text)
    except source.SourceError:
        return DEFINITION
    states = member(value, "states")
    if not isinstance(states, dict) or "initial_state" in value:
        return DEFINITION
    words = {"on", "always", "invoke", "entry", "exit", "after", "onDone", "type", "states"}
    nodes = of_kind(states.values(), dict)
    if (
        "initial" in value
        or value.get("type") == "parallel"
        or any(words & node.keys() for node in nodes)
    ):
        return "xstate"
    return DEFINITION


def convert(text: str, form: str, name: str) -> Converted:
    """Convert a text of a known form to a definition. Raises ConversionError or DefinitionError."""
    stem = re.sub(r"\.[^.]*\Z", "", re.split(r"[/\\]", name)[-1]) or None
    if form == DEFINITION:
        return _modern(text, name, stem)
    chart = CHARTS[form](unfenced(text))
    document = flatten(chart, stem if name != "<stdin>" else None)
    try:
        loaded = load_dict(document)
    except DefinitionError as error:
        reasons = "; ".join(found.message for found in error.findings if found.level == "error")
        raise ConversionError(f"what came out of it cannot be used: {reasons[:500]}") from error
    return Converted(document, loaded.definition, tuple(chart.notes))


def _modern(text: str, name: str, stem: str | None) -> Converted:
    """Return a definition in today's form. The report has the loader's findings about older
    forms.
    """
    loaded = load_text(text, file=name)
    upgraded = upgrade(source.parse(text), partial(rewrite, stem=stem)).document
    told = {"older-form": False, "not-mapped": True, "no-effect": True, "unknown-key": True}
    notes = tuple(
        Note(told[found.name], hinted(found.message, found.hint), found.line)
        for found in loaded.findings
        if found.name in told
    )
    return Converted(_without_nulls(upgraded), loaded.definition, notes)


def _without_nulls(document: JsonMap) -> JsonDict:
    """Return the document without keys that are null, also in its states."""
    found = without_none(document)
    states = found.get("states")
    if isinstance(states, dict):
        found["states"] = {name: without_none(state) for name, state in states.items()}
    return found


def picture(definition: Definition) -> Picture:
    """Return the picture for Mermaid and DOT, with conditions as expressions."""
    document = definition.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return extract(document, Details(rules=True))


WRITERS: Mapping[str, Callable[[Definition], str]] = {
    "mermaid": lambda definition: draw_mermaid(picture(definition)),
    "dot": lambda definition: draw_dot(picture(definition), whole=True),
    "xstate": xstate.write,
    "scxml": scxml.write,
}
"""Form to its writer. Definitions are written as JSON."""
WRITTEN_FORMS = (DEFINITION, *WRITERS)

_CARRIED = frozenset({"name", "initial_state", "states", "global_transitions", "ui", "x_lint"})
_STATE_CARRIED = frozenset({"id", "kind", "purpose", "transitions"})
_MOVE_CARRIED = frozenset({"target_state", "description", "conditions", "auto"})


def left_out(definition: Definition, form: str) -> Iterator[Note]:
    """Yield the parts of a definition that the notation cannot hold."""
    for name, field in Definition.model_fields.items():
        carried = name in _CARRIED or (form == "xstate" and name == "description")
        if not carried and name in definition.model_fields_set:
            yield Note(True, f'"{field.alias or name}" of the machine')
    states = definition.states
    for name in State.model_fields:
        if name in _STATE_CARRIED:
            continue
        default = State.model_fields[name].default
        count = sum(getattr(state, name) != default for state in states.values())
        given = any(name in state.model_fields_set for state in states.values())
        if given and count:
            yield Note(True, f'"{name}" of {count} state{"s" if count > 1 else ""}')
    moves = []
    for state in states.values():
        moves += state.transitions
    moves += definition.global_transitions
    for name, field in Transition.model_fields.items():
        if name in _MOVE_CARRIED or field.is_required():
            continue
        count = sum(getattr(move, name) != field.default for move in moves)
        if count:
            counted = f"{count} transition{'s' if count > 1 else ''}"
            yield Note(True, f'"{field.alias or name}" of {counted}')
    if form in CHARTS:
        yield from _kinds_not_read_back(definition)
    if form in ("mermaid", "dot"):
        yield from _hidden_descriptions(moves)
    if form == "mermaid":
        yield from _rules_not_read_back(moves)


def _kinds_not_read_back(definition: Definition) -> Iterator[Note]:
    kinds = {definition.kind_of(name) for name in definition.states}
    for kind in sorted(kinds - {"converse", "decide", "final", "task"}):
        yield Note(True, f'the kind "{kind}" is shown, and not read back')


def _readable(logic: Any) -> bool:
    text = infix.write(logic, loose=True) or ""
    try:
        infix.read(text)
    except ValueError:
        return False
    return text == one_line(text)


def _hidden_descriptions(moves: Sequence[Transition]) -> Iterator[Note]:
    """Yield a note on descriptions that no label shows, because it shows the rule instead."""
    hidden = 0
    for condition in _conditions(moves):
        if condition.description and not condition.judged:
            hidden += 1
    if hidden:
        yield Note(
            True, f'"description" of {hidden} condition{"s" if hidden > 1 else ""} that have a rule'
        )


def _rules_not_read_back(moves: Sequence[Transition]) -> Iterator[Note]:
    """Yield a note on rules that a label shows in a form that cannot be read."""
    shown = 0
    for condition in _conditions(moves):
        if condition.logic is not None and not _readable(condition.logic):
            shown += 1
    if shown:
        yield Note(
            True,
            f"rules of {shown} condition{'s' if shown > 1 else ''} are only shown, not readable"
            " back",
        )


def _conditions(moves: Sequence[Transition]) -> Iterator[Condition]:
    for move in moves:
        yield from move.conditions
