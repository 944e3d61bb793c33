"""Values of keys for which no transition is open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_fsm.definition.names import root_of
from llm_fsm.errors import Level
from llm_fsm.languages import ends_in_question
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, is_system, mapped
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.graph import (
    Arc,
    fallback_targets,
    global_arcs,
    kind_of,
    own_arcs_from,
    path_to,
    reached_states,
)
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.guards import GuardCases
from llm_fsm.lint.solver.solver import Context, Reasoning, described, read_names, reasoning
from llm_fsm.lint.solver.value_sets import SET


@lint_rule("C208", "warning")
def decide_gap(document: Document) -> Faults:
    """A deciding state has no transition for values that are possible when it is entered.

    Why it is bad:
    A `decide` state asks nobody. If no transition is open, the run ends there with the outcome `stuck`. The same
    happens in a `wait` state whose answer opens no transition.

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
    known = reasoning(document)
    flow = data_flow(document)
    for state in document.states:
        if kind_of(document, state) not in ("decide", "wait") or state not in reached_states(
            document
        ):
            continue
        guards = [known.guard(arc) for arc in known.decided[state]]
        found = [guard for guard in guards if guard is not None]
        if (
            not guards
            or _is_open(document, state)
            or len(found) < len(guards)
            or all(guard.never for guard in found)
        ):
            continue
        names = read_names(found)
        answered = {key for key, _ in mapped(document.states[state])}
        cases = known.with_set(known.entries[state], (flow.must[state] | answered) & set(names))
        for guard in found:
            cases = known.both(cases, guard.fails)
        context = None if not cases else known.witness(cases, [], found)
        if context is not None:
            yield _finding(flow, state, context, found)


def _is_open(document: Document, state: str) -> bool:
    """Return true if nothing limits the answer."""
    waits = kind_of(document, state) == "wait"
    return waits and not document.has_schema and "answer_schema" not in document.states[state].value


def _finding(flow: DataFlow, state: str, context: Context, guards: list[GuardCases]) -> Fault:
    document = flow.document
    names = read_names(guards)
    return Fault(
        f"state {quoted(state)} has no transition when {described(context, names)}: the run ends"
        " there, stuck",
        pointer=f"{document.states[state].pointer}/transitions",
        hint="add a last transition without conditions, with a high priority number",
        level=_level(flow, context, names),
        path=path_to(document, state),
    )


def _level(flow: DataFlow, context: Context, names: list[str]) -> Level:
    """Return the level of a gap: a note if the program can close it by setting its own key."""
    if any(root_of(name) in context for name in names):
        return "warning"
    keys = [flow.declared(name) for name in names if not is_system(name)]
    asked = any(key is not None and flow.document.source_of(key) == "model" for key in keys)
    return "warning" if asked else "info"


@lint_rule("C215", "error", blocks=False)
def stuck_decide(document: Document) -> Faults:
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
    Give the state a transition that can be open. A last one without conditions always is.
    """
    known = reasoning(document)
    for name, state in document.states.items():
        arcs = known.decided[name]
        if kind_of(document, name) != "decide" or not arcs or any(map(known.may_hold, arcs)):
            continue
        yield Fault(
            f"none of the transitions of state {quoted(name)} can ever hold: every run that"
            " enters it is stuck",
            pointer=state.pointer + "/transitions",
            hint="add a transition without conditions",
            path=path_to(document, name),
        )


@lint_rule("C222", "warning")
def one_way_confirmation(document: Document) -> Faults:
    """A state asks the user to agree, and has no transition for users who do not.

    Why it is bad:
    A user who says no stays in the state and is asked again. The only way out is to agree.

    Example:
        "context_schema": {"type": "object", "properties": {"agreed": {"type": "boolean"}}},
        "states": {"confirm": {"purpose": "Ask whether to book", "required_context_keys": ["agreed"], "transitions": [
                {"target_state": "booked", "conditions": [{"logic": {"==": [{"var": "agreed"}, true]}}]}]},
            "booked": {"kind": "final", "reply": "It is booked."}}

    Fix:
    Add a transition for the other answer, to a state that changes or cancels. A global transition or the pattern
    `cancel` also works.
    """
    if "cancel" in document.root.names("patterns"):
        return
    known = reasoning(document)
    shared = [arc for arc in global_arcs(document) if arc.placed.get("return") is not True]
    for name, state in document.states.items():
        ways = [arc for arc in own_arcs_from(document)[name] if arc.target != name]
        if (
            kind_of(document, name) != "converse"
            or not ways
            or any(True for _ in fallback_targets(document, name))
        ):
            continue
        found = next(_shut(known, name, ways), None)
        worded = (
            found is None and len({arc.target for arc in ways}) == 1 and _reads_back(document, name)
        )
        if found is None and not worded:
            continue
        others = [arc for arc in shared if arc.target != name]
        if any(found is None or _opens(known, arc, *found) for arc in others):
            continue
        yield Fault(
            f"the reply of state {quoted(name)} reads back what was said and asks, but one way"
            " alone leads on"
            if found is None
            else f"state {quoted(name)} asks for {quoted(found[0])}, and no transition leads on"
            " when it is "
            f"{as_json(found[1])}",
            pointer=state.pointer + "/transitions",
            hint="add a transition for the other answer, or a global one with which users can"
            " leave",
        )


def _shut(known: Reasoning, state: str, ways: list[Arc]) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) for each key with two values that a state asks for, if one value opens no
    transition.
    """
    flow = data_flow(known.document)
    asked = {
        flow.declared(key) or key
        for _, key in known.document.states[state].texts("required_context_keys")
    }
    if not asked:
        tested: set[str] = set()
        for arc in ways:
            tested.update(flow.condition_names(arc.placed))
        asked = {
            key
            for key in tested
            if flow.setters(key) <= {state} and known.document.source_of(key) == "model"
        }
    for key in sorted(asked):
        values = (known.keys.domain(key) & SET).finite(2) or []
        shut = [
            value for value in values if not any(_opens(known, arc, key, value) for arc in ways)
        ]
        if len(values) == 2 and len(shut) == 1:
            yield key, shut[0]


def _opens(known: Reasoning, arc: Arc, key: str, value: Any) -> bool:
    guard = known.guard(arc)
    if guard is None or guard.holds is None:
        return True
    return any(key not in case.sets or case.sets[key].has(value) for case in guard.holds)


def _reads_back(document: Document, name: str) -> bool:
    """Return true for a state that collects nothing, asks by a fixed reply, and has only
    transitions in words.
    """
    state = document.states[name]
    shown = any(mention.shown for mention in data_flow(document).replies.get(name, ()))
    worded = not any(arc.auto or arc.conditions for arc in own_arcs_from(document)[name])
    return (
        shown
        and worded
        and ends_in_question(state.text("reply"))
        and not state.get("required_context_keys")
    )
