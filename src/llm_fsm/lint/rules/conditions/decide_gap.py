"""Deciding states in which a run can be stuck."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding, Level
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import Flow, flow, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.solver.guards import Guard
from llm_fsm.lint.solver.solver import Context, described, read_names, reasoning


@lint_rule("C208", "warning")
def decide_gap(subject: Subject) -> Iterator[Finding]:
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
    known, ways = reasoning(subject), flow(subject)
    for state in subject.states:
        if subject.kind_of(state) not in ("decide", "wait") or state not in subject.reached:
            continue
        guards = [known.guard(arc.placed) for arc in known.decided(state)]
        found = [guard for guard in guards if guard is not None]
        if not guards or _is_open(subject, state) or len(found) < len(guards) or all(guard.never for guard in found):
            continue
        names = read_names(found)
        answered = {key for key, _ in mapped(subject.states[state])}
        cases = known.with_set(known.entries(state), (ways.must[state] | answered) & set(names))
        for guard in found:
            cases = known.both(cases, guard.fails)
        context = None if not cases else known.witness(cases, [], found)
        if context is not None:
            yield _finding(ways, state, context, found)


def _is_open(subject: Subject, state: str) -> bool:
    """True where nothing says what an answer may be."""
    waits = subject.kind_of(state) == "wait"
    return waits and subject.keys is None and "answer_schema" not in subject.states[state].value


def _finding(ways: Flow, state: str, context: Context, guards: list[Guard]) -> Finding:
    subject = ways.subject
    names = read_names(guards)
    return decide_gap.finding(
        f"state {quoted(state)} has no transition when {described(context, names)}: the run ends there, stuck",
        pointer=f"{subject.states[state].pointer}/transitions",
        hint="add a last transition without conditions, with a high priority number",
        level=_level(ways, context, names),
        path=subject.path_to(state),
    )


def _level(ways: Flow, context: Context, names: list[str]) -> Level:
    """A gap that is there only while a key of the program is not set may be closed by the program."""
    if any(name.split(".", 1)[0] in context for name in names):
        return "warning"
    keys = [ways.declared(name) for name in names if not ways.is_system(name)]
    asked = any(key is not None and ways.subject.source_of(key) == "model" for key in keys)
    return "warning" if asked else "info"


@lint_rule("C215", "error", blocks=False)
def stuck_decide(subject: Subject) -> Iterator[Finding]:
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
    known = reasoning(subject)
    for name, state in subject.states.items():
        arcs = known.decided(name)
        if subject.kind_of(name) != "decide" or not arcs or any(map(known.may_hold, arcs)):
            continue
        yield stuck_decide.finding(
            f"none of the transitions of state {quoted(name)} can ever hold: every run that enters it is stuck",
            pointer=state.pointer + "/transitions",
            hint="add a transition without conditions",
            path=subject.path_to(name),
        )
