"""Questions with two answers of which only one leads on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.solver.solver import Reasoning, reasoning
from llm_fsm.lint.solver.value_sets import SET
from llm_fsm.turn.repair.questions import asks


@lint_rule("C222", "warning")
def one_way_confirmation(document: Document) -> Iterator[Finding]:
    """A state asks the user to agree, and no way leads on for those who do not.

    Why it is bad:
    Whoever says no stays in the state and is asked again. The only way out is to agree.

    Example:
        "context_schema": {"type": "object", "properties": {"agreed": {"type": "boolean"}}},
        "states": {"confirm": {"purpose": "Ask whether to book", "required_context_keys": ["agreed"], "transitions": [
                {"target_state": "booked", "conditions": [{"logic": {"==": [{"var": "agreed"}, true]}}]}]},
            "booked": {"kind": "final", "reply": "It is booked."}}

    Fix:
    Add a transition for the other answer, to a state that changes or cancels. A global transition or the pattern
    `cancel` will do as well.
    """
    if any(name == "cancel" for _, name in document.root.texts("patterns")):
        return
    known = reasoning(document)
    shared = [arc for arc in document.shared if arc.placed.value.get("return") is not True]
    for name, state in document.states.items():
        ways = [arc for arc in document.own_from[name] if arc.target != name]
        if document.kind_of(name) != "converse" or not ways or any(True for _ in document.left_for(name)):
            continue
        found = next(_shut(known, name, ways), None)
        worded = found is None and len({arc.target for arc in ways}) == 1 and _reads_back(document, name)
        if found is None and not worded:
            continue
        others = [arc for arc in shared if arc.target != name]
        if any(found is None or _opens(known, arc, *found) for arc in others):
            continue
        yield one_way_confirmation.finding(
            f"the reply of state {quoted(name)} reads back what was said and asks, but one way alone leads on"
            if found is None
            else f"state {quoted(name)} asks for {quoted(found[0])}, and no transition leads on when it is "
            f"{as_json(found[1])}",
            pointer=state.pointer + "/transitions",
            hint="add a transition for the other answer, or a global one with which users can leave",
        )


def _shut(known: Reasoning, state: str, ways: list[Arc]) -> Iterator[tuple[str, Any]]:
    """(key, value) of each key with two values that a state asks for, if one value opens no way."""
    flow = data_flow(known.document)
    asked = {flow.declared(key) or key for _, key in known.document.states[state].texts("required_context_keys")}
    if not asked:
        tested = {key for arc in ways for key in flow.condition_names(arc.placed)}
        asked = {key for key in tested if flow.setters(key) <= {state} and known.document.source_of(key) == "model"}
    for key in sorted(asked):
        values = (known.keys.domain(key) & SET).finite(2) or []
        shut = [value for value in values if not any(_opens(known, arc, key, value) for arc in ways)]
        if len(values) == 2 and len(shut) == 1:
            yield key, shut[0]


def _opens(known: Reasoning, arc: Arc, key: str, value: Any) -> bool:
    guard = known.guard(arc.placed)
    if guard is None or guard.holds is None:
        return True
    return any(key not in case.sets or case.sets[key].has(value) for case in guard.holds)


def _reads_back(document: Document, name: str) -> bool:
    """True for a state that collects nothing, whose fixed reply asks and shows keys, and whose ways are words alone."""
    state = document.states[name]
    shown = any(mention.shown for mention in data_flow(document).replies.get(name, ()))
    worded = not any(arc.auto or arc.conditions for arc in document.own_from[name])
    return shown and worded and asks(state.text("reply")) and not state.value.get("required_context_keys")
