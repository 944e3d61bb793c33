"""A condition reads a key that is not declared.

Why it is bad:
Where there is a `context_schema`, no reply can write the key, so for the condition it is never set.
Without one, a key that differs by a letter or two from one that is collected is mostly a slip.

Example:
    "context_schema": {"type": "object", "properties": {"email": {"type": "string"}}},
    "states": {"hello": {"purpose": "Ask for the e-mail", "required_context_keys": ["email"], "transitions": [
        {"target_state": "bye", "conditions": [{"requires_context_keys": ["e_mail"]}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the name, or declare the key (with `x-source` `host` if the program sets it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from llm_fsm._json import step
from llm_fsm._text import nearest
from llm_fsm.errors import Finding
from llm_fsm.lint.document import SYSTEM_NAMES, Placed, Subject
from llm_fsm.lint.facts.data_flow import Flow, flow, root_of
from llm_fsm.lint.facts.elements import reads
from llm_fsm.lint.facts.members import OPEN, member_fault, missing_member
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.comparisons import parts

_NEAR = 0.8
_READING = frozenset({"var", "missing", "has_context", "context_length"})


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every name that a condition reads."""
    ways = flow(subject)
    for _, transition in subject.transitions():
        for condition in transition.items("conditions"):
            for pointer, name in _names(subject, condition):
                if name.startswith("_"):
                    if root_of(name) not in SYSTEM_NAMES and root_of(name) != "_extra":
                        yield _system(name, pointer)
                elif subject.keys is None:
                    yield from _near_miss(ways, name, pointer)
                elif ways.declared(name) is None:
                    yield RULE.finding(
                        f'this condition reads {quoted(name)}, which "context_schema" does not declare',
                        pointer=pointer,
                        hint=_hint(ways, name),
                    )
                elif (fault := member_fault(ways, name)) is not None:
                    yield RULE.finding(fault[0], pointer=pointer, hint=fault[1])
    for read in reads(subject):
        path = f"{read.key}[]"
        fault = missing_member(ways, read.schema, path, root_of(read.name))
        if fault is not None and not any(word in read.schema for word in OPEN):
            hint = None if fault[1] is None else fault[1].replace(f"{path}.", "")
            yield RULE.finding(fault[0], pointer=read.pointer, hint=hint)


def _hint(ways: Flow, name: str) -> str | None:
    """The key that was meant; conditions see the context itself, not an object that holds it."""
    inner = name.partition(".")[2]
    if root_of(name) in ("context", "ctx", "data", "state") and ways.declared(inner) is not None:
        return f"write {quoted(inner)}: the names of conditions are those of keys"
    return ways.subject.speller.hint(root_of(name), ways.subject.keys or {}, "declared keys")


def _names(subject: Subject, condition: Placed) -> Iterator[tuple[str, str]]:
    """(pointer, name) of every name that a condition reads, each once."""
    seen: set[str] = set()
    for pointer, name in condition.texts("requires_context_keys"):
        if name not in seen:
            seen.add(name)
            yield pointer, name
    rule = subject.rules.get(condition.pointer + "/logic")
    if rule is None:
        return
    wanted = set(rule.reads) - seen - {""}
    if not wanted:
        return
    for pointer, part, operator, names, _ in parts(subject)[condition.pointer + "/logic"]:
        if operator not in _READING:
            continue
        listed = isinstance(part[operator], list)
        for index, name in enumerate(names):
            if isinstance(name, str) and name in wanted:
                wanted.discard(name)
                yield pointer + step(operator) + (f"/{index}" if listed else ""), name
    for name in sorted(wanted):
        yield condition.pointer + "/logic", name


def _system(name: str, pointer: str) -> Finding:
    meant = nearest(name, sorted(SYSTEM_NAMES))
    return RULE.finding(
        f"{quoted(name)} is none of the system's names",
        pointer=pointer,
        hint=f"did you mean {quoted(meant)}?" if meant else f"they are {', '.join(sorted(SYSTEM_NAMES))}",
    )


def _near_miss(ways: Flow, name: str, pointer: str) -> Iterator[Finding]:
    """Without a schema: a key that nobody collects, but for a letter or two."""
    known = [*ways.collected, *ways.outputs]
    if root_of(name) in known or name in known:
        return
    meant = _close(name, known)
    if meant is not None:
        yield RULE.finding(
            f"no state collects {quoted(name)}, but {quoted(meant)} is collected",
            pointer=pointer,
            hint=f"did you mean {quoted(meant)}?",
            level="info",
        )


def _close(name: str, known: Iterable[str]) -> str | None:
    meant = nearest(name, known)
    if meant is None or SequenceMatcher(None, name, meant).ratio() < _NEAR:
        return None
    digits = [character for character in name if character.isdigit()]
    return meant if digits == [character for character in meant if character.isdigit()] else None


RULE = Rule(name="unknown-condition-key", code="C213", level="warning", check=check)
