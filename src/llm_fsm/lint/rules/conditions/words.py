"""Conditions without a test, and words that no model judges."""

from __future__ import annotations

from llm_fsm.lint.document import Document
from llm_fsm.lint.graph import kind_of
from llm_fsm.lint.logics import conditions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.solver import reasoning


@lint_rule("C218", "warning")
def empty_condition(document: Document) -> Faults:
    """A condition is empty: it has neither keys nor logic, and no words by which a model could judge.

    Why it is bad:
    It is always true. Mostly its content was forgotten.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye", "conditions": [{}]}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the condition, or take it out.
    """
    for condition in conditions_of(document):
        said = condition.text("description").strip()
        if (
            not said
            and not condition.get("requires_context_keys")
            and condition.get("logic") is None
        ):
            yield Fault(
                "this condition says nothing, so it always holds",
                pointer=condition.pointer,
                hint='write "requires_context_keys" or "logic", or take it out',
            )


@lint_rule("C219", "warning")
def unjudged_words(document: Document) -> Faults:
    """A condition in words is in a state that decides, or on an automatic transition, which no model judges.

    Why it is bad:
    There, only keys and logic count. A condition in words is always true, so the transition is taken after any message.

    Example:
        "states": {"hello": {"purpose": "Ask whether to go on", "transitions": [{"target_state": "sort"}]},
                   "sort": {"kind": "decide", "transitions": [
                        {"target_state": "on", "conditions": [{"description": "The user wants to go on"}]},
                        {"target_state": "bye"}]},
                   "on": {"purpose": "Go on"}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Give the condition `logic` over a key that is collected before, or let a `converse` state choose.
    """
    known = reasoning(document)
    for state in known.deciding:
        decides = kind_of(document, state) != "converse"
        arcs = [arc for arc in known.decided[state] if not arc.is_global]
        for index, arc in enumerate(arcs):
            guard = known.guard(arc)
            worded = next(
                (item for item in arc.conditions if item.text("description").strip()), None
            )
            if (
                guard is None
                or not guard.judged
                or worded is None
                or (decides and index == len(arcs) - 1)
            ):
                continue
            who = "an automatic transition"
            if decides:
                who = f'a state of kind "{kind_of(document, state)}"'
            yield Fault(
                f"nobody judges these words: {who} asks no model, so the condition always holds",
                pointer=worded.pointer,
                hint='give it "logic" over a key, or let a state that talks choose',
            )
