"""An `input` or `output` mapping, or a `context_scope`, names a key that `context_schema` does not declare, or a path
that leads nowhere.

Why it is bad:
Nothing is passed on, or what comes back is stored under a name that nothing else knows.

Example:
    "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
    "states": {"hello": {"kind": "wait", "wait_for": "manager", "output": {"aproved": "$.ok"}, "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["approved"]}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the name, or declare the key. A path into a result or an answer is made of names and positions divided by
points, such as `$.items.0.name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.data_flow import Flow, flow, mapped
from llm_fsm.lint.facts.members import member_fault
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_FOREIGN = re.compile(r"[\[\]*]|\.\.|^/")
"""What belongs to JSONPath or to JSON pointers."""


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every context key in mappings and scopes."""
    yield from _paths(subject)
    yield from _answers(subject)
    if subject.keys is None:
        return
    ways = flow(subject)
    for pointer, name in _names(ways):
        fault = member_fault(ways, name)
        if fault is not None:
            yield RULE.finding(fault[0], pointer=pointer, hint=fault[1])
        elif not name.startswith("_") and ways.declared(name) is None:
            yield RULE.finding(
                f'{quoted(name)} is not declared by "context_schema"',
                pointer=pointer,
                hint=subject.speller.hint(name, subject.keys, "declared keys"),
            )


def _paths(subject: Subject) -> Iterator[Finding]:
    """Paths of other notations, in which nothing is ever found."""
    waits = (state for name, state in subject.states.items() if subject.kind_of(name) == "wait")
    for placed in (*subject.root.members("tools"), *waits):
        mapping = placed.value.get("output")
        for key, path in mapping.items() if isinstance(mapping, dict) else ():
            if isinstance(path, str) and _FOREIGN.search(path):
                names = [name for name in re.split(r"[.\[\]/'\"$*]+", path) if name]
                yield RULE.finding(
                    f"nothing is found at {quoted(path)}: a path is names and positions divided by points",
                    pointer=f"{placed.pointer}/output{step(key)}",
                    hint=f"write {quoted('.'.join(['$', *names]))}" if "*" not in path else None,
                )


def _answers(subject: Subject) -> Iterator[Finding]:
    """Members of an answer that its schema does not have."""
    for state in subject.states.values():
        schema, mapping = state.value.get("answer_schema"), state.value.get("output")
        members = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(mapping, dict) or not isinstance(members, dict) or not members:
            continue
        for key, path in mapping.items():
            plain = path.removeprefix("$").removeprefix(".") if isinstance(path, str) else ""
            if plain and not _FOREIGN.search(plain) and plain not in members and plain.split(".", 1)[0] not in members:
                yield RULE.finding(
                    f"the answer has no member {quoted(plain.split('.', 1)[0])}: its schema does not name it",
                    pointer=f"{state.pointer}/output{step(key)}",
                    hint=subject.speller.hint(plain, members, "members"),
                )


def _names(ways: Flow) -> Iterator[tuple[str, str]]:
    for placed in (*ways.subject.states.values(), *ways.subject.root.members("tools")):
        for key, pointer in mapped(placed):
            yield pointer, key
    for use in ways.inputs:
        yield use.pointer, use.key
    for state in ways.subject.states.values():
        scope = state.value.get("context_scope")
        if isinstance(scope, dict):
            yield from Placed(state.pointer + "/context_scope", scope).texts("read")


RULE = Rule(name="unknown-key-in-mapping", code="K309", level="warning", check=check)
