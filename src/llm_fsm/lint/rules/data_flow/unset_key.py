"""Keys that are used where they may not be set, or may be out of date."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.data_flow import DataFlow, Use, data_flow, inputs, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import kind_of, path_to, reached_states, states_of_kind
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.rules.data_flow.unobtainable_key import asked_late


@lint_rule("K314", "info")
def reply_key_may_be_missing(document: Document) -> Faults:
    """A fixed reply shows a key that some path to it does not demand.

    Why it is bad:
    A user on that path reads a text with a hole in place of the value.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"],
                             "transitions": [{"target_state": "bye", "description": "The user is done"}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "Off to {{ city }}!"}}

    Fix:
    Demand the key in the transitions that lead there. Or write `{% if city %}…{% endif %}` or `{{ city|default("…")
    }}`.
    """
    flow = data_flow(document)
    for state, mentioned in flow.replies.items():
        if state not in reached_states(document):
            continue
        for name in dict.fromkeys(
            mention.name for mention in mentioned if mention.shown and not mention.guarded
        ):
            key = flow.declared(name)
            if key is None or flow.is_secret(key):
                continue
            # A tool may be refused or fail; the host sets its keys before anything is shown.
            if document.source_of(key) not in ("model", "tool"):
                continue
            path = flow.path_without(state, key) if flow.may_be_set(key, state) else ()
            if path and not {name, key} & flow.must[state]:
                yield Fault(
                    f"the reply of state {quoted(state)} shows {quoted(name)}, which may not be"
                    " set on this way",
                    pointer=document.states[state].pointer + "/reply",
                    hint="demand it in the transitions that lead here, or test for it in the reply",
                    path=path,
                )


@lint_rule("K305", "warning")
def used_before_set(document: Document) -> Faults:
    """A fixed reply, a mapping or a decision uses a key that nothing on any path to it sets.

    Why it is bad:
    A key that is not set renders as nothing, is not passed on, or closes the transitions that test it.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}, "seat": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "{{ city }} it is, in {{ seat }}."}}

    Fix:
    Collect the key in an earlier state, or test for it with `{% if … %}`. Or declare its writer by `x-source`.
    """
    flow = data_flow(document)
    for use in _uses(flow):
        key = flow.declared(use.key)
        state = use.state
        if (
            key is None
            or state is None
            or state not in reached_states(document)
            or document.source_of(key) != "model"
        ):
            continue
        if (use.pointer.removesuffix("/conditions"), use.key) in asked_late(document):
            continue
        if use.key in flow.must[state] or key in flow.must[state] or flow.may_be_set(key, state):
            continue
        yield Fault(
            f"state {quoted(state)} uses {quoted(use.key)}, which no state on the way there"
            " collects or sets",
            pointer=use.pointer,
            hint=_hint(document, key),
            path=path_to(document, state),
            # a model may set any declared key in any state, so a flag that nobody asks for can
            # still decide
            level="info" if kind_of(document, state) == "decide" else None,
        )


def _hint(document: Document, key: str) -> str:
    hint = f'add {quoted(key)} to the "required_context_keys" of a state before'
    if "default" in document.keys[key]:
        return f'{hint}; its "default" is not filled in'
    return hint


def _uses(flow: DataFlow) -> Iterator[Use]:
    states = flow.document.states
    for name, mentioned in flow.replies.items():
        for key in dict.fromkeys(
            mention.name for mention in mentioned if mention.shown and not mention.guarded
        ):
            yield Use(name, key, states[name].pointer + "/reply")
    for use in inputs(flow.document):
        state = states.get(use.state or "")
        # Else the state asks for it, unless it is known.
        if state is None or use.key not in dict(mapped(state)):
            yield use
    for name, state in states_of_kind(flow.document, "decide"):
        yield from _deciding(flow, name, state)


def _deciding(flow: DataFlow, name: str, state: Placed) -> Iterator[Use]:
    seen = set()
    for transition in state.items("transitions"):
        for key in flow.condition_names(transition):
            if key not in seen:
                seen.add(key)
                yield Use(name, key, transition.pointer + "/conditions")


@lint_rule("K313", "info")
def scope_hides_required(document: Document) -> Faults:
    """A `context_scope` hides a key that the same state collects or decides by.

    Why it is bad:
    The model does not see the value that it should collect or correct, and may ask for it again.

    Example:
        "states": {"hello": {"purpose": "Ask for the city", "required_context_keys": ["city"],
                "context_scope": {"read": ["name"]}, "transitions": [
                    {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
            "bye": {"purpose": "Say goodbye to {{name}}"}}

    Fix:
    Add the key to `context_scope.read`.
    """
    flow = data_flow(document)
    for name, state in document.states.items():
        scope = state.at("context_scope")
        if not isinstance(scope.get("read"), list):
            continue
        shown = {root_of(key) for key in scope.names("read")}
        wanted = state.names("required_context_keys")
        for transition in state.items("transitions"):
            if transition.get("auto") is not True:
                wanted.extend(flow.condition_names(transition))
        hidden = [
            key
            for key in dict.fromkeys(wanted)
            if root_of(key) not in shown and not key.startswith("_") and not flow.is_secret(key)
        ]
        if hidden:
            yield Fault(
                f"state {quoted(name)} collects or decides by"
                f" {', '.join(map(quoted, hidden[:6]))}, "
                "but its scope does not show it to the model",
                pointer=state.pointer + "/context_scope/read",
                hint="add it to the list",
            )


@lint_rule("K321", "warning")
def stale_reply(document: Document) -> Faults:
    """A fixed reply shows a key of the program beside keys that the user can correct there.

    Why it is bad:
    The program may compute it from them, such as a price. After a correction, the reply then shows the old value.

    Example:
        "context_schema": {"type": "object", "properties": {
            "room": {"enum": ["single", "double"]}, "price": {"type": "integer", "x-source": "host"}}},
        "states": {"hello": {"purpose": "Which room?", "required_context_keys": ["room"], "transitions": [
                {"target_state": "confirm", "conditions": [{"requires_context_keys": ["room"]}]}]},
            "confirm": {"reply": "A {{ room }} room for {{ price }} euros. Shall I book it?", "transitions": [
                {"target_state": "bye", "description": "Yes"}, {"target_state": "hello", "description": "No"}]},
            "bye": {"kind": "final", "reply": "Goodbye."}}

    Fix:
    Declare the keys that it is computed from. `"x-from": ["room"]` clears it when the room changes, and it is computed
    again. If it depends on no other key, write `"x-from": []`.
    """
    keys = document.keys
    flow = data_flow(document)
    for state, mentioned in flow.replies.items():
        if state not in reached_states(document) or kind_of(document, state) != "converse":
            continue
        shown = dict.fromkeys(flow.declared(mention.name) for mention in mentioned if mention.shown)
        names = [key for key in shown if key is not None and not flow.is_secret(key)]
        said = [key for key in names if document.source_of(key) == "model"]
        for key in names if said else ():
            if document.source_of(key) == "host" and "x-from" not in keys[key]:
                yield Fault(
                    f"the reply of state {quoted(state)} shows {quoted(key)} of the program"
                    f" beside {quoted(said[0])}, "
                    "which can be corrected there",
                    pointer=document.states[state].pointer + "/reply",
                    hint=f'write "x-from" at {quoted(key)}: the keys that it is made of, or []',
                )
