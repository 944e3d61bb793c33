"""Logic of conditions, and checks of key results, that cannot be evaluated."""

from __future__ import annotations

from typing import Any

from llm_fsm._text import nearest
from llm_fsm.conditions.compiler import collect_faults, compile_rule
from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.logics import compiled_rules, logics_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_LOOKS = ("invalid perl operator", "invalid escape sequence")
_NOT_IN_RE2 = "RE2 has no look-around such as (?=…) or (?!…) and no back-references such as \\1"


@lint_rule("C201", "error")
def bad_condition(document: Document) -> Faults:
    """The logic of a condition is not JsonLogic that this program knows.

    Why it is bad:
    The condition can never be evaluated, so the machine cannot be started.

    Example:
        "states": {"hello": {"purpose": "Ask for the age", "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"===>": [{"var": "age"}, 18]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Use an operator of jsonlogic.com or one of the extensions: `has_context`, `context_length`,
    `contains`, `matches`, `len`, `count`, `lower`. For times there are `now`, `date`, `today`,
    `weekday` and `days`.
    """
    for pointer, logic in logics_of(document):
        if pointer in compiled_rules(document):
            continue
        for fault in collect_faults(logic):
            hint = _NOT_IN_RE2 if fault.reason.endswith(_LOOKS) else fault.hint
            yield Fault(fault.reason, pointer=pointer + fault.pointer, hint=hint)


_NAMES = ("output", "context", "input")
_SEEN = 'a check sees {"var": "output"}, {"var": "context"} and {"var": "input"}'


@lint_rule("C202", "error")
def bad_check(document: Document) -> Faults:
    """The `check` of a key result is not JsonLogic, a judge's criterion or a function's name, or it reads nothing.

    Why it is bad:
    The task could never prove that it is done.

    Example:
        "states": {"write": {"kind": "task", "key_results": [{"name": "long", "check": {"judge": ""}}]}}

    Fix:
    Write JsonLogic over `output`, `context` and `input`, or `{"judge": "criterion"}`, or
    `{"registered": "name"}`.
    """
    for state in document.states.values():
        for result in state.items("key_results"):
            test = result.get("check")
            pointer = result.pointer + "/check"
            if isinstance(test, dict) and test.keys() & {"judge", "registered"}:
                value = next(iter(test.values()))
                if len(test) != 1 or not isinstance(value, str) or not value.strip():
                    yield Fault(
                        "a check is JsonLogic, or one judge's criterion, or the name of one"
                        " registered function",
                        pointer=pointer,
                        hint='write {"judge": "criterion"} or {"registered": "name"}',
                    )
            elif test is not None:
                faults = collect_faults(test)
                for fault in faults:
                    yield Fault(fault.reason, pointer=pointer + fault.pointer, hint=fault.hint)
                if not faults:
                    yield from _reads(document, test, pointer)


def _reads(document: Document, test: Any, pointer: str) -> Faults:
    """Find faults in the names that a sound check reads. A check that reads nothing has the same
    outcome each time.
    """
    rule = compile_rule(test)
    if not rule.reads and not rule.reads_unknown:
        yield Fault(
            "this check reads nothing of the output", pointer=pointer, level="warning", hint=_SEEN
        )
    for name in sorted(rule.reads):
        root = root_of(name)
        if root and root not in _NAMES:
            meant = nearest(root, _NAMES)
            yield Fault(
                f"this check reads {quoted(name)}, which is never set there",
                pointer=pointer,
                level="warning",
                hint=_SEEN
                if meant is None
                else f"did you mean {quoted(meant + name[len(root) :])}?",
            )
        elif root == "context" and name != root:
            yield from _key(document, name.partition(".")[2], pointer)


def _key(document: Document, name: str, pointer: str) -> Faults:
    """Find faults in a context key that a check reads."""
    from llm_fsm.lint.facts.data_flow import data_flow, is_system  # noqa: PLC0415
    from llm_fsm.lint.facts.members import member_fault  # noqa: PLC0415

    flow = data_flow(document)
    if not document.has_schema or is_system(name):
        return
    fault = member_fault(flow, name)
    if flow.declared(name) is None:
        hint = document.speller.hint(root_of(name), document.keys, "declared keys")
        fault = (f'{quoted(name)} is not declared by "context_schema"', hint)
    if fault is not None:
        message = f"this check reads a key that is never set: {fault[0]}"
        yield Fault(message, pointer=pointer, level="warning", hint=fault[1])
