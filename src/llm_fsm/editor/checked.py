"""A text as the page shows it: its kind, its findings with places, its states and its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, object_at, places_of, step, steps
from llm_fsm._text import units
from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import Upgraded, upgrade
from llm_fsm.definition.json_source import LineStarts, SourceError, lines_of, scan
from llm_fsm.definition.plain import NotPlainError, plain
from llm_fsm.documents.check import check_edited
from llm_fsm.documents.draw.extract import (
    UNKNOWN,
    Details,
    DrawnState,
    Edge,
    Picture,
    note_level,
    picture_of,
    with_unknown,
)
from llm_fsm.documents.files import stem_of
from llm_fsm.documents.translations import Edits
from llm_fsm.editor.folder import Folder, beside_in
from llm_fsm.editor.models import (
    CheckedText,
    FileKind,
    FindingRow,
    FixOffer,
    Graph,
    GraphEdge,
    GraphNode,
)
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.fix.fixes import fix
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.workflow.schema import validate_workflow_json

_MAX_FIXED = 200_000
"""Characters of a text whose corrections are tried: each one checks the text again."""


def kind_of_value(value: object, path: str) -> FileKind:
    """Return the kind of a parsed file."""
    if path.endswith(".layout.json"):
        return "layout"
    if not isinstance(value, dict):
        return "other"
    if isinstance(value.get("cases"), list) and "states" not in value:
        return "tests"
    if not isinstance(value.get("states"), dict | list):
        return "other"
    if "initial_state" not in value and isinstance(value.get("transitions"), dict):
        return "workflow"
    return "definition"


def check_written(
    text: str,
    path: str,
    folder: Folder,
    *,
    edits: Edits | None = None,
    fixes: bool = True,
    findings: bool = True,
) -> CheckedText:
    """Read and check a text.

    Args:
        text: The text, which need not be saved.
        path: Its path below the folder.
        folder: The folder, in which definitions that it calls are read.
        edits: Translations, which need not be saved.
        fixes: True tries safe corrections, too.
        findings: False leaves out the findings of a definition, which take most of the time. Faults
            of other files are found in any case.

    Returns:
        The findings and the graph. A text that is no JSON has the finding that says where.
    """
    lines = lines_of(text)
    offsets = _Offsets(text, lines)
    file = folder.place(path)
    checked = CheckedText(kind="other", is_json=False, findings=[], graph=Graph())
    try:
        checked.value = scan(text).value
    except SourceError:
        checked.findings = _rows(check_edited(text, file=file), offsets)
        return checked
    checked.is_json = True
    checked.kind = kind_of_value(checked.value, path)
    if checked.kind == "tests":
        checked.findings = _of_tests(text, path, folder)
    elif checked.kind == "workflow":
        checked.findings = list(_of_workflow(checked.value, text, offsets))
        checked.graph = _graph(workflow_picture(checked.value), checked.findings)
    elif checked.kind == "definition":
        if findings:
            checked.findings = _rows(check_edited(text, file=file, edits=edits), offsets)
        if fixes and checked.findings:
            checked.fix = _offer(text, file)
        checked.graph = definition_graph(checked.value, path, folder, checked.findings)
    elif checked.kind == "other":
        checked.findings = _rows(check_edited(text, file=file), offsets)
    return checked


class _Offsets:
    """Offsets in UTF-16 code units of lines and columns of a text."""

    def __init__(self, text: str, lines: LineStarts) -> None:
        self._text = text
        self._lines = lines
        self._is_narrow = text.isascii()

    def of(self, line: int | None, column: int | None) -> int | None:
        if line is None or line > len(self._lines.starts):
            return None
        at = min(self._lines.starts[line - 1] + (column or 1) - 1, len(self._text))
        return at if self._is_narrow else units(self._text[:at])


def _rows(findings: Iterable[Finding], offsets: _Offsets) -> list[FindingRow]:
    rows = [FindingRow.model_validate(found) for found in findings]
    for row in rows:
        row.offset = offsets.of(row.line, row.column)
        row.state = _state_at(row.pointer)
    return rows


def _state_at(pointer: str) -> str | None:
    parts = steps(pointer)
    return parts[1] if len(parts) > 1 and parts[0] == "states" else None


def _offer(text: str, file: str) -> FixOffer | None:
    """Return the text with all safe corrections; None if there are none."""
    if len(text) > _MAX_FIXED:
        return None
    fixed = fix(text, partial(check_edited, file=file))
    return None if fixed.text == text else FixOffer(changes=list(fixed.changes), text=fixed.text)


def _of_tests(text: str, path: str, folder: Folder) -> list[FindingRow]:
    """Return the faults of a file of tests, one a line."""
    try:
        suite_of(text, file=folder.place(path))
    except SuiteError as error:
        lines = folder.shortened(str(error)).splitlines()
        return [
            FindingRow(code="T001", name="bad-test", level="error", message=line) for line in lines
        ]
    return []


def workflow_faults(value: Any) -> list[str]:
    """Return the faults of a workflow of version 2.0 with parts of any shape, one sentence each."""
    try:
        return validate_workflow_json(value)
    except (TypeError, AttributeError, KeyError):
        return [
            "a part of the workflow has the wrong shape; states are objects, key results and tools are lists"
        ]


def _of_workflow(value: Any, text: str, offsets: _Offsets) -> Iterator[FindingRow]:
    scanned = scan(text)
    for fault in workflow_faults(value):
        state = next((name for name in object_at(value, "states") if f"{name!r}" in fault), None)
        pointer = "" if state is None else "/states" + step(state)
        place = scanned.position(pointer, at_key=True)
        yield FindingRow(
            code="W001",
            name="workflow",
            level="error",
            message=fault,
            line=place.line,
            column=place.column,
            offset=offsets.of(place.line, place.column),
            pointer=pointer,
            state=state,
        )


# -- definitions


def todays(value: JsonMap, path: str) -> Upgraded:
    """Return a parsed definition in today's form. Raises NotPlainError."""
    return upgrade(plain(value), partial(rewrite, stem=stem_of(path)))


def definition_graph(
    value: JsonMap, path: str, folder: Folder, rows: Iterable[FindingRow]
) -> Graph:
    """Return the states and edges of a definition with any faults, with pointers into the text.

    Args:
        value: The parsed definition.
        path: Its path below the folder.
        folder: The folder, in which called definitions are looked up.
        rows: The findings, whose levels mark nodes and edges.

    Returns:
        The graph.
    """
    try:
        upgraded = todays(value, path)
    except NotPlainError:
        return Graph()
    document = Document(Placed("", upgraded.document))
    graph = _graph(picture_of(document, Details()), rows, upgraded.origin)
    graph.patterns = document.root.names("patterns")
    for node in graph.nodes:
        node.flow = beside_in(path, node.flow) if node.flow else None
        node.flow_exists = node.flow is not None and folder.exists(node.flow)
    return graph


def _graph(
    picture: Picture,
    rows: Iterable[FindingRow],
    origin: Callable[[str], str] = lambda pointer: pointer,
) -> Graph:
    """Return a picture as the canvas shows it, with the pointers of the text and worst findings."""
    graph = Graph.model_validate(picture)
    worst = worst_levels(rows)
    for node in graph.nodes:
        node.initial = node.id == graph.initial and node.kind != UNKNOWN
    drawn: list[GraphNode | GraphEdge] = [*graph.nodes, *graph.edges]
    for part in drawn:
        part.pointer = origin(part.pointer)
        part.level = worst.get(part.pointer) if part.pointer else None
    return graph


def worst_levels(rows: Iterable[FindingRow]) -> JsonDict:
    """Return pointer to the level of the worst finding at or below it."""
    worst: JsonDict = {}
    for row in rows:
        for place in places_of(row.pointer):
            note_level(worst, place, row.level)
    return worst


# -- workflows of version 2.0


def workflow_picture(value: JsonMap) -> Picture:
    """Return the states and branches of a workflow of version 2.0, with any faults."""
    rows = object_at(value, "states")
    states = {name: Placed("/states" + step(name), object_at(rows, name)) for name in rows}
    edges = tuple(branches(value))
    initial = [name for name, state in states.items() if state.value.get("is_initial") is True]
    objective = value.get("objective")
    return Picture(
        name=objective if isinstance(objective, str) else "",
        initial=initial[0] if initial else None,
        nodes=with_unknown((_workflow_node(*item) for item in states.items()), edges),
        edges=edges,
    )


def _workflow_node(name: str, state: Placed) -> DrawnState:
    return DrawnState(
        id=name,
        kind="final" if state.value.get("is_final") is True else "task",
        pointer=state.pointer,
        purpose=state.text("objective"),
        tools=tuple(state.names("tools")),
        key_results=tuple(one.text("name") for one in state.items("key_results")),
    )


def branches(workflow: JsonMap) -> Iterator[Edge]:
    """Yield the ways on in a workflow of version 2.0."""
    for source, way in object_at(workflow, "transitions").items():
        pointer = "/transitions" + step(source)
        match way:
            case str():
                yield Edge(source=source, target=way, pointer=pointer, how="auto")
            case dict():
                for label, target in way.items():
                    place = pointer + step(label)
                    if isinstance(target, str) and not (label == "route" and len(way) == 1):
                        yield Edge(source=source, target=target, pointer=place, label=label)
