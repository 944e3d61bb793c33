"""Keys that are needed, but that nothing sets or no state asks for."""

from __future__ import annotations

from collections.abc import Mapping

from llm_fsm._json import as_list, filled
from llm_fsm._text import listed
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document, Pairs, once, texts_of_states
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.transitions import taken
from llm_fsm.lint.graph import Arc, global_arcs, kind_of, own_arcs, path_to, reached_states
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.outcomes import variable

_OTHERS = ("host", "tool", "answer")


@lint_rule("K303", "warning")
def unwritable_key(document: Document) -> Faults:
    """A state collects a key that the model cannot write, because of its `x-source`.

    Why it is bad:
    The model asks for it, the user answers, and nothing is stored.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "x-source": "host"}}},
        "states": {"hello": {"purpose": "Ask", "required_context_keys": ["tier"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Take the key out of `required_context_keys`, or let the model write it.
    """
    keys = document.keys
    for _, pointer, name in texts_of_states(document, "required_context_keys"):
        source = document.source_of(name if name in keys else root_of(name))
        if source in _OTHERS:
            yield Fault(
                f'{quoted(name)} cannot be collected from the user: its "x-source" is "{source}"',
                pointer=pointer,
                hint="take it out, or let the model write it",
            )


_PRODUCERS = {"tool": "tool's output", "answer": "wait state's output"}


@lint_rule("K310", "error", blocks=False)
def unobtainable_key(document: Document) -> Faults:
    """A transition demands a key that only a tool or a person's answer may set, and none does.

    Why it is bad:
    The transition can never be taken, and nobody in the conversation can change that.

    Example:
        "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
        "states": {"hello": {"purpose": "Take the order", "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["approved"]}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Set the key by the `output` of a `wait` state or a tool on the way there. Or correct its `x-source`.
    """
    flow = data_flow(document)
    seen = set()
    produced = {
        arc.pointer: list(_produced(flow, arc))
        for arc in (*own_arcs(document), *global_arcs(document))
    }
    needed = filled(produced)
    for state, arc in taken(document, needed):
        place = arc.pointer
        for key, source in needed[place]:
            found = None if (place, key) in seen else _finding(flow, state, arc, key, source)
            if found is not None:
                seen.add((place, key))
                yield found


def _produced(flow: DataFlow, arc: Arc) -> Pairs:
    """Yield (key, source) for keys that a transition needs and that nobody in the conversation can
    give.
    """
    for name in sorted(flow.demands(arc)):
        key = flow.declared(name)
        source = None if key is None else flow.document.source_of(key)
        if key is not None and source in _PRODUCERS:
            yield key, source


def _finding(flow: DataFlow, state: str, arc: Arc, key: str, source: str) -> Fault | None:
    producers = flow.outputs.get(key, frozenset())
    if producers.isdisjoint(reached_states(flow.document)):
        return Fault(
            f"this transition needs {quoted(key)}, which no {_PRODUCERS[source]} sets: it can"
            " never be taken",
            pointer=arc.pointer,
            hint=f'its "x-source" is "{source}"; set it by an "output" on the way here',
            path=path_to(flow.document, state),
        )
    if arc.is_global or state in producers or flow.may_be_set(key, state):
        return None
    return Fault(
        f"state {quoted(state)}: this transition needs {quoted(key)}, which is set only in states "
        f"that come later or elsewhere: {', '.join(map(quoted, sorted(producers)[:4]))}",
        pointer=arc.pointer,
        level="warning",
        path=path_to(flow.document, state),
    )


@lint_rule("K315", "info")
def never_asked_for(document: Document) -> Faults:
    """A transition demands a key that no earlier state collects.

    Why it is bad:
    A prompt lists missing keys by `required_context_keys`. The model asks for other keys only by chance, so the
    transition stays closed.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}, "seat": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["city", "seat"]}]}]},
            "bye": {"kind": "final", "purpose": "Say goodbye"}}

    Fix:
    Add the key to `required_context_keys` of this state or of one before.
    """
    flow = data_flow(document)
    late = asked_late(document)
    for arc in own_arcs(document):
        if arc.auto or kind_of(document, arc.source) != "converse":
            continue
        for name in sorted(flow.demands(arc)):
            key = flow.declared(name)
            if (
                key is None
                or document.source_of(key) != "model"
                or arc.source not in reached_states(document)
            ):
                continue
            if (arc.pointer, name) in late:
                continue
            asked = flow.asked_for(key, arc.source)
            path = flow.path_unasked(arc.source, key) if asked else path_to(document, arc.source)
            where = "on this way here" if asked else "on the way here"
            if path or not asked:
                yield Fault(
                    f"this transition demands {quoted(name)}, which no state {where} collects",
                    pointer=arc.pointer,
                    hint=f'add it to the "required_context_keys" of state {quoted(arc.source)}',
                    path=path,
                )


@lint_rule("K319", "warning")
def asked_for_later(document: Document) -> Faults:
    """A condition tests a key that only later states ask for.

    Why it is bad:
    When the condition is checked, nobody has asked for the key yet. So the transition stays closed, or the wrong one is
    taken.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}, "seat": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
                {"target_state": "place", "conditions": [{"requires_context_keys": ["city", "seat"]}]}]},
            "place": {"purpose": "Which seat?", "required_context_keys": ["seat"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["seat"]}]}]},
            "bye": {"kind": "final", "purpose": "Say goodbye"}}

    Fix:
    Ask for the key in this state or in an earlier one. Or move the condition behind the state that asks.
    """
    for (pointer, name), (state, asking) in asked_late(document).items():
        yield Fault(
            f"this transition of state {quoted(state)} tests {quoted(name)}, which only later"
            " states ask for: "
            f"{listed(map(quoted, sorted(asking)), 4)}",
            pointer=pointer,
            hint=f'add it to the "required_context_keys" of state {quoted(state)}, or test it'
            " after it was asked for",
            path=path_to(document, state),
        )


Late = Mapping[tuple[str, str], tuple[str, frozenset[str]]]
"""Maps (pointer of a transition, name that it tests) to its state and the states that ask for the
name.
"""


@once
def asked_late(document: Document) -> Late:
    """Return the names that transitions test before any state has asked for them."""
    flow = data_flow(document)
    found = {}
    for arc in own_arcs(document):
        state = arc.source
        pointer = arc.pointer
        for name in (
            dict.fromkeys(flow.condition_names(arc.placed))
            if state in reached_states(document)
            else ()
        ):
            key = flow.declared(name) if document.has_schema else root_of(name)
            if (
                key is None
                or document.source_of(key) != "model"
                or not flow.is_asked_after(key, state)
            ):
                continue
            compared = _compares(arc, name)
            if not compared and name not in flow.demands(arc):
                continue
            # A test of presence may be a short cut, if another path goes round.
            # So may any test in a state that is entered again.
            if flow.leads_round(state, key, pointer) and (
                not compared or flow.asked_for(key, state)
            ):
                continue
            found[pointer, name] = (state, flow.setters(key))
    return found


def _compares(arc: Arc, name: str) -> bool:
    """Return true if a transition tests more of a key than its presence."""
    return any(_compared(condition.get("logic"), name) for condition in arc.conditions)


_PRESENCE = frozenset({"!", "!!", "and", "or", "if", "missing", "missing_some", "has_context"})


def _compared(rule: object, name: str) -> bool:
    if isinstance(rule, list):
        return any(_compared(item, name) for item in rule)
    if not isinstance(rule, dict):
        return False
    for operator, given in rule.items():
        arguments = as_list(given)
        if operator not in _PRESENCE and None not in arguments and name in map(variable, arguments):
            return True
        if _compared(given, name):
            return True
    return False
