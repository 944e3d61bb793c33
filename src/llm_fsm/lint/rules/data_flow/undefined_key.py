"""Keys that are collected, read or mapped, and declared nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from llm_fsm._json import object_at, value_at
from llm_fsm._text import nearest
from llm_fsm.definition.names import KEY_PATTERN, root_of
from llm_fsm.definition.naming import Naming, named_in
from llm_fsm.lint.document import SYSTEM_NAMES, Document, Pairs, Placed, texts_of_states
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, inputs, mapped
from llm_fsm.lint.facts.members import OPEN, member_fault, missing_member, reads
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.logics import assignments_of, clearings_of, compiled_rules, conditions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_NEAR = 0.8
_OWN_NAMES = frozenset(SYSTEM_NAMES) | {"_extra"}


@lint_rule("C213", "warning")
def unknown_condition_key(document: Document) -> Faults:
    """A condition, or a rule under `set`, reads a key that is not declared.

    Why it is bad:
    With a `context_schema`, no reply can write the key, so for the condition it is never set. Without one, a key that
    differs from a collected key by a letter or two is mostly a typo.

    Example:
        "context_schema": {"type": "object", "properties": {"email": {"type": "string"}}},
        "states": {"hello": {"purpose": "Ask for the e-mail", "required_context_keys": ["email"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["e_mail"]}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the name, or declare the key (with `x-source` `host` if the program sets it).
    """
    flow = data_flow(document)
    for condition in conditions_of(document):
        for pointer, name in _names(document, condition):
            yield from _undeclared(flow, name, pointer, "condition")
    for given in assignments_of(document):
        rule = compiled_rules(document).get(given.pointer)
        for name in sorted(rule.reads) if rule is not None else ():
            yield from _undeclared(flow, name, given.pointer, "rule")
    for read in reads(document):
        path = f"{read.key}[]"
        fault = missing_member(flow, read.schema, path, root_of(read.name))
        if fault is not None and not any(word in read.schema for word in OPEN):
            hint = None if fault[1] is None else fault[1].replace(f"{path}.", "")
            yield Fault(fault[0], pointer=read.pointer, hint=hint)


def _undeclared(flow: DataFlow, name: str, pointer: str, what: str) -> Faults:
    """Find the fault of a name that a condition, or a rule under `set`, reads."""
    yield from _unknown(flow, name, f"this {what}", pointer)
    yield from _refused(flow, name, pointer)


def _unknown(flow: DataFlow, name: str, reader: str, pointer: str) -> Faults:
    """Find the fault of a name that something reads; none if it may find something."""
    root = root_of(name)
    if root.startswith("_"):
        if root not in _OWN_NAMES:
            message = f"{reader} reads {quoted(root)}, which is none of the system's names"
            hint = flow.document.speller.hint(root, sorted(SYSTEM_NAMES), "system's names")
            yield Fault(message, pointer, hint)
    elif not flow.document.has_schema:
        yield from _near_miss(flow, name, reader, pointer)
    elif flow.declared(name) is None:
        message = f'{reader} reads {quoted(name)}, which "context_schema" does not declare'
        yield Fault(message, pointer, _hint(flow, name))
    elif (found := member_fault(flow, name)) is not None:
        yield Fault(found[0], pointer, found[1])


def _hint(flow: DataFlow, name: str) -> str | None:
    """Return the key that was meant. Conditions read the context itself, not an object that holds
    it.
    """
    inner = name.partition(".")[2]
    if root_of(name) in ("context", "ctx", "data", "state") and flow.declared(inner) is not None:
        return f"write {quoted(inner)}: the names of conditions are those of keys"
    return flow.document.speller.hint(root_of(name), flow.document.keys, "declared keys")


def _names(document: Document, condition: Placed) -> Pairs:
    """Yield (pointer, name) for every name that a condition reads, each once."""
    places: dict[str, str] = {}
    for pointer, name in condition.texts("requires_context_keys"):
        places.setdefault(name, pointer)
    pointer = condition.pointer + "/logic"
    rule = compiled_rules(document).get(pointer)
    if rule is not None:
        for place in named_in(condition.value["logic"], pointer, Naming.RULE):
            name = value_at(document.root.value, place.pointer)
            if place.naming is Naming.KEY and name in rule.reads - {""}:
                places.setdefault(name, place.pointer)
        for name in sorted(rule.reads - {""}):
            places.setdefault(name, pointer)
    for name, at in places.items():
        yield at, name


def _refused(flow: DataFlow, name: str, pointer: str) -> Faults:
    """Find a key in `_refusals` that no reply can write, so that nothing is ever refused."""
    root, _, key = name.partition(".")
    keys = flow.document.keys
    if root == "_refusals" and key and flow.document.has_schema and key not in keys:
        message = (
            f'nothing is ever refused for {quoted(key)}, which "context_schema" does not declare'
        )
        hint = flow.document.speller.hint(key, keys, "declared keys")
        yield Fault(message, pointer=pointer, hint=hint)


def _near_miss(flow: DataFlow, name: str, reader: str, pointer: str) -> Faults:
    """Without a schema, find a key that differs from a collected key by a letter or two."""
    known = [*flow.collected, *flow.outputs]
    if root_of(name) in {root_of(key) for key in known} or name in known:
        return
    meant = _close(name, known)
    if meant is not None:
        message = f"{reader} reads {quoted(name)}, which no state collects"
        yield Fault(message, pointer, f"did you mean {quoted(meant)}?", "info")


def _close(name: str, known: Iterable[str]) -> str | None:
    meant = nearest(name, known)
    if meant is None or SequenceMatcher(None, name, meant).ratio() < _NEAR:
        return None
    digits = [character for character in name if character.isdigit()]
    if digits == [character for character in meant if character.isdigit()]:
        return meant
    return None


@lint_rule("K302", "warning")
def undeclared_key(document: Document) -> Faults:
    """A state collects a key that `context_schema` does not declare.

    Why it is bad:
    With a `context_schema`, only its keys can be written. The user's answer is not stored under this key, and a
    transition that needs it never opens.

    Example:
        "context_schema": {"type": "object", "properties": {"email": {"type": "string"}}},
        "states": {"hello": {"purpose": "Ask", "required_context_keys": ["e_mail"],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Declare the key, or correct its name.
    """
    if not document.has_schema:
        return
    flow = data_flow(document)
    for _, pointer, name in texts_of_states(document, "required_context_keys"):
        if re.fullmatch(KEY_PATTERN, name) is not None:
            yield from _unknown(flow, name, "this state", pointer)


@lint_rule("K308", "warning")
def unknown_key_in_reply(document: Document) -> Faults:
    """A fixed reply names a key that `context_schema` does not declare.

    Why it is bad:
    No reply of the model sets the key, so the text has a hole in place of its value.

    Example:
        "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["city"]}]}]},
            "bye": {"kind": "final", "purpose": "Confirm", "reply": "Off to {{ citty }}!"}}

    Fix:
    Correct the name, or declare the key.
    """
    flow = data_flow(document)
    for state, mentioned in flow.replies.items():
        pointer = document.states[state].pointer + "/reply"
        for name in dict.fromkeys(mention.name for mention in mentioned):
            if "._" in name:
                message = f"the reply reads {quoted(name)}"
                yield Fault(f"{message}: names that begin with _ are not open to replies", pointer)
            else:
                yield from _unknown(flow, name, "the reply", pointer)


_FOREIGN = re.compile(r"[\[\]*]|\.\.|^/")
"""Characters of JSONPath and of JSON pointers."""


@lint_rule("K309", "warning")
def unknown_key_in_mapping(document: Document) -> Faults:
    """A mapping, a `context_scope`, `set` or `clear` names an undeclared key, or a path that finds nothing.

    Why it is bad:
    Nothing is passed on, or the result is stored under a name that nothing else uses.

    Example:
        "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
        "states": {"hello": {"kind": "wait", "wait_for": "manager", "output": {"aproved": "$.ok"}, "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["approved"]}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the name, or declare the key. A path into a result or an answer consists of names and positions, separated
    by points, such as `$.items.0.name`.
    """
    yield from _paths(document)
    yield from _answers(document)
    if not document.has_schema:
        return
    flow = data_flow(document)
    for pointer, name in _mapped_names(flow):
        if not name.startswith("_"):
            yield from _unknown(flow, name, "this", pointer)


def _paths(document: Document) -> Faults:
    """Find paths in other notations, which never find anything."""
    waits = (state for _, state in states_of_kind(document, "wait"))
    for placed in (*document.root.members("tools"), *waits):
        for pointer, _, path in placed.mapping("output"):
            if _FOREIGN.search(path):
                names = [name for name in re.split(r"[.\[\]/'\"$*]+", path) if name]
                yield Fault(
                    f"nothing is found at {quoted(path)}: a path is names and positions divided"
                    " by points",
                    pointer=pointer,
                    hint=f"write {quoted('.'.join(['$', *names]))}" if "*" not in path else None,
                )


def _answers(document: Document) -> Faults:
    """Find members of an answer that its schema does not have."""
    for state in document.states.values():
        members = object_at(state.at("answer_schema").value, "properties")
        for pointer, _, path in state.mapping("output") if members else ():
            plain = path.removeprefix("$").removeprefix(".")
            if (
                plain
                and not _FOREIGN.search(plain)
                and plain not in members
                and root_of(plain) not in members
            ):
                yield Fault(
                    f"the answer has no member {quoted(plain.split('.', 1)[0])}: its schema does"
                    " not name it",
                    pointer=pointer,
                    hint=document.speller.hint(plain, members, "members"),
                )


def _mapped_names(flow: DataFlow) -> Pairs:
    for placed in (*flow.document.states.values(), *flow.document.root.members("tools")):
        for key, pointer in mapped(placed):
            yield pointer, key
    for use in inputs(flow.document):
        yield use.pointer, use.key
    for given in assignments_of(flow.document):
        yield given.pointer, given.key
    yield from clearings_of(flow.document)
    for state in flow.document.states.values():
        yield from state.at("context_scope").texts("read")
