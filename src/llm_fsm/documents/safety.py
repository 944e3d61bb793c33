"""What a machine refuses to start with: an act without a yes, and a yes to nothing.

Two rules of the checker are judged at every start. Only definitions that act or ask for a yes are
judged, so the start of all others costs nothing.
"""

from __future__ import annotations

from dataclasses import replace

from llm_fsm._json import JsonDict, TextMap
from llm_fsm.definition.subflows import Flow, Flows, document_of
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Called, Document, Placed

_MARKS = ('"acts":true', '"agrees":', '"confirms":')
"""Of a definition that has none of these in its JSON, nothing can be unsafe."""


def unsafe(flows: Flows, file: str | None = None) -> list[Finding]:
    """Return the errors of these rules in a machine's definitions.

    Args:
        flows: The definition that is started, and those that it calls.
        file: The file of the first one, for the findings.

    Returns:
        The findings; none for a machine that may start.
    """
    text = document_of(flows)
    if not any(mark in text for mark in _MARKS):
        return []
    # They are slow to import, and most machines need none of them.
    from llm_fsm.lint.rules.graph.acts import act_without_yes, yes_without_effect  # noqa: PLC0415

    places = {name: f"{place}.json" for place, name in enumerate(flows.called)}
    called = {places[name]: _document(flow, places) for name, flow in flows.called.items()}

    def read(path: str, _: str | None) -> Called:
        return Called(path, called.get(path))

    root = Document(Placed("", _document(flows.root, places)), read_flow=read)
    found = [*act_without_yes.findings(root), *yes_without_effect.findings(root)]
    for inner in called.values():
        found += yes_without_effect.findings(Document(Placed("", inner)))
    return [replace(one, file=file) for one in found if one.level == "error"]


def _document(flow: Flow, places: TextMap) -> JsonDict:
    """Return a definition whose calls name the places of the called ones."""
    document = dict(flow.definition.document)
    states = {name: dict(state) for name, state in document["states"].items()}
    for name, called in flow.calls.items():
        states[name]["flow"] = places[called]
    return {**document, "states": states}
