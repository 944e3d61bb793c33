"""Deciding states in which a run can be stuck."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, is_system, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.solver.guards import Guard
from llm_fsm.lint.solver.solver import Context, described, read_names, reasoning


@lint_rule("C208", "warning")
def decide_gap(document: Document) -> Iterator[Finding]:
    """A deciding state has no transition for values that are possible when it is entered.

    Why it is bad:
    A `decide` state asks nobody: when no transition holds, the run ends there with the outcome `stuck`. So does a
    `wait` state whose answer opens no transition.

    Example:
        "context_schema": {"type": "object", "properties": {
            "topic": {"type": "string", "enum": ["order", "billing", "other"]}}},
        "states": {"hello": {"purpose": "Ask what it is about", "required_context_keys": ["topic"], "transitions": [
                {"target_state": "route", "conditions": [{"requires_context_keys": ["topic"]}]}]},
            "route": {"kind": "decide", "transitions": [
                {"target_state": "order", "conditions": [{"logic": {"==": [{"var": "topic"}, "order"]}}]},
                {"target_state": "billing", "conditions": [{"logic": {"==": [{"var": "topic"}, "billing"]}}]}]},
            "order": {"purpose": "Help with the order"}, "billing": {"purpose": "Help with the bill"}}

    Fix:
    Add a transition for the missing values, or a last one without conditions and with a high priority number.
    """
    known, flow = reasoning(document), data_flow(document)
    for state in document.states:
        if document.kind_of(state) not in ("decide", "wait") or state not in document.reached:
            continue
        guards = [known.guard(arc.placed) for arc in known.decided(state)]
        found = [guard for guard in guards if guard is not None]
        if not guards or _is_open(document, state) or len(found) < len(guards) or all(guard.never for guard in found):
            continue
        names = read_names(found)
        answered = {key for key, _ in mapped(document.states[state])}
        cases = known.with_set(known.entries(state), (flow.must[state] | answered) & set(names))
        for guard in found:
            cases = known.both(cases, guard.fails)
        context = None if not cases else known.witness(cases, [], found)
        if context is not None:
            yield _finding(flow, state, context, found)


def _is_open(document: Document, state: str) -> bool:
    """True where nothing says what an answer may be."""
    waits = document.kind_of(state) == "wait"
    return waits and document.keys is None and "answer_schema" not in document.states[state].value


def _finding(flow: DataFlow, state: str, context: Context, guards: list[Guard]) -> Finding:
    document = flow.document
    names = read_names(guards)
    return decide_gap.finding(
        f"state {quoted(state)} has no transition when {described(context, names)}: the run ends there, stuck",
        pointer=f"{document.states[state].pointer}/transitions",
        hint="add a last transition without conditions, with a high priority number",
        level=_level(flow, context, names),
        path=document.path_to(state),
    )


def _level(flow: DataFlow, context: Context, names: list[str]) -> Level:
    """A gap is a note if the program can close it by setting its own key."""
    if any(name.split(".", 1)[0] in context for name in names):
        return "warning"
    keys = [flow.declared(name) for name in names if not is_system(name)]
    asked = any(key is not None and flow.document.source_of(key) == "model" for key in keys)
    return "warning" if asked else "info"


@lint_rule("C215", "error", blocks=False)
def stuck_decide(document: Document) -> Iterator[Finding]:
    """A deciding state has no transition that could ever be taken.

    Why it is bad:
    Every conversation that enters it ends there with the outcome `stuck`.

    Example:
        "context_schema": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}},
        "states": {"hello": {"purpose": "Ask for the age", "transitions": [{"target_state": "route"}]},
            "route": {"kind": "decide", "transitions": [
                {"target_state": "bye", "conditions": [{"logic": {"<": [{"var": "age"}, 0]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Give the state a transition that can hold; a last one without conditions always does.
    """
    known = reasoning(document)
    for name, state in document.states.items():
        arcs = known.decided(name)
        if document.kind_of(name) != "decide" or not arcs or any(map(known.may_hold, arcs)):
            continue
        yield stuck_decide.finding(
            f"none of the transitions of state {quoted(name)} can ever hold: every run that enters it is stuck",
            pointer=state.pointer + "/transitions",
            hint="add a transition without conditions",
            path=document.path_to(name),
        )
