"""Properties that are unclear, or that are violated."""

from __future__ import annotations

from llm_fsm._json import step
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, inputs
from llm_fsm.lint.facts.properties import LIMITS, FormError, Statement, paths, read, statements
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("P602", "error", blocks=False)
def property_malformed(document: Document) -> Faults:
    """A property has no clear meaning.

    Why it is bad:
    It is not checked, and the author thinks that it is true.

    Example:
        "properties": [{"always": "bye"}],
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write `{"never": S}`, `{"never": S, "before": S}`, `{"always": S, "after": S}` or `{"eventually": S}`, where S is a
    state id, a list of them, or `{"key": "name"}`. `never … before T` means that T comes first. `eventually` means that
    every path reaches S before it ends. `always … after T` means that a path that reaches T reaches S, there or later.
    """
    for placed in document.root.items("properties"):
        try:
            read(placed.value)
        except FormError as error:
            place = ""
            if error.key:
                place = step(error.key)
            yield Fault(str(error), pointer=placed.pointer + place, hint=error.hint or None)


@lint_rule("P603", "error", blocks=False)
def property_unknown_name(document: Document) -> Faults:
    """A property names a state or a key that the machine does not have.

    Why it is bad:
    A statement about something that does not exist is true or false for no reason.

    Example:
        "properties": [{"eventually": "by"}],
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the name. A key is written as `{"key": "name"}`.
    """
    for pointer, statement in statements(document):
        yield from unknown_names(document, pointer, statement)


def unknown_names(document: Document, pointer: str, statement: Statement) -> Faults:
    """Find the unknown names in one property."""
    limit = next((word for word, verb in LIMITS.items() if verb == statement.verb), "")
    keys = _keys(data_flow(document))
    for word, places in ((statement.verb, statement.what), (limit, statement.limit)):
        for state in places.states if places is not None else ():
            if state not in document.ids:
                hint = document.speller.hint(state, document.ids, "states")
                if state in keys:
                    hint = f'write {{"key": {quoted(state)}}} for the key of this name'
                yield _finding(
                    f"a property is about the unknown state {quoted(state)}", pointer, word, hint
                )
        for key in places.keys if places is not None else ():
            if key not in keys and root_of(key) not in keys:
                hint = document.speller.hint(key, frozenset(keys), "keys")
                yield _finding(
                    f"a property is about the unknown key {quoted(key)}", pointer, word, hint
                )


def _finding(message: str, pointer: str, word: str, hint: str | None) -> Fault:
    return Fault(message, pointer=pointer + step(word), hint=hint)


def _keys(flow: DataFlow) -> set[str]:
    """Return the keys that the machine declares or, without a schema, uses outside of texts."""
    document = flow.document
    if document.has_schema:
        return set(document.keys)
    found = {*flow.collected, *flow.outputs, *(use.key for use in inputs(flow.document))}
    for _, transition in transitions_of(document):
        found.update(flow.condition_names(transition))
    for names in flow.replies.values():
        found.update(mention.name for mention in names)
    return found


@lint_rule("P601", "error", blocks=False)
def property_violated(document: Document) -> Faults:
    """A property is violated: there is a path that breaks it.

    Why it is bad:
    The property must be true of every conversation, and the machine allows one that breaks it.

    Example:
        "properties": [{"never": "pay", "before": {"key": "consent"}}],
        "states": {"hello": {"purpose": "Ask for consent", "required_context_keys": ["consent"], "transitions": [
                {"target_state": "pay", "description": "The user agrees"}]},
            "pay": {"purpose": "Take the payment"}}

    Fix:
    Close the path that the finding shows, by a condition or by another target, or correct the property.
    """
    for pointer, statement in statements(document):
        if any(True for _ in unknown_names(document, pointer, statement)):
            continue
        violation = paths(document).broken(statement)
        if violation is not None:
            yield Fault(
                f"{_said(statement)} does not hold: {violation.shows} on the way"
                f" {route(violation.path)}",
                pointer=pointer,
                path=violation.path,
            )


def _said(statement: Statement) -> str:
    word = {"never": "before", "always": "after"}.get(statement.verb)
    limit = ""
    if statement.limit is not None:
        limit = f" {word} {statement.limit}"
    return f'"{statement.verb} {statement.what}{limit}"'
