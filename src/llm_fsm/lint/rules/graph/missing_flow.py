"""Subflows whose file cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.subflows import is_absolute, is_path, leads_out
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule


@lint_rule("F114", "error", blocks=False)
def missing_flow(document: Document) -> Iterator[Finding]:
    """The file of a subflow is not there, is no definition, or lies outside the folder of its caller.

    Why it is bad:
    There is nothing to call. The machine cannot be made.

    Example:
        "states": {"pay": {"kind": "subflow", "flow": "/tmp/payment.json", "transitions": [{"target_state": "done"}]},
                   "done": {"purpose": "Say goodbye"}}

    Fix:
    Correct the path, which is relative to the file that names it. Neither the path nor a link may lead out of the
    folder of the first file. A name without a slash and without `.json` is a definition that the host registers.
    """
    for state in document.states.values():
        flow, pointer = state.value.get("flow"), state.pointer + "/flow"
        if not isinstance(flow, str) or not is_path(flow):
            continue
        if is_absolute(flow):
            message = f"{quoted(flow)} is not a relative path"
            yield missing_flow.finding(message, pointer=pointer, hint="name a file of the same folder tree")
        elif document.read_flow is not None:
            place, found, why = document.read_flow(flow, None)
            if leads_out(flow):
                yield missing_flow.finding(
                    f"{quoted(flow)} leads out of the folder of this file: a machine that begins here cannot call it",
                    pointer=pointer,
                    hint="keep a machine's files in one folder tree, and begin with the one at its root",
                    level="warning" if found is not None else None,
                )
            elif found is None:
                yield missing_flow.finding(
                    f"there is no definition in {quoted(place)}: {why}",
                    pointer=pointer,
                    hint="the path is relative to this file",
                )
