"""Cases that play nothing, which are faults, and cases that expect nothing, which are worth a warning."""

from __future__ import annotations

from collections.abc import Iterable

from llm_fsm.testing.scenarios.expected import Expect, WordsExpected
from llm_fsm.testing.scenarios.models import Case
from llm_fsm.testing.scenarios.problems import Fault, Text, in_order

_NULL_SAYS = frozenset({"paused", "output"})
_EMPTY_SAYS_NOT = frozenset({"context", "absent", "events"})


def plays_nothing(case: Case) -> bool:
    """True for a case without a step, without a start and without anything expected, unless it is skipped."""
    return not case.steps and case.start is None and expects_nothing(case)


def expects_nothing(case: Case) -> bool:
    """True for a case that passes whatever is said and done."""
    every = (case.expect, *(step.expect for step in (case.start, *case.steps) if step is not None))
    return case.skip is None and not any(map(_says, every))


def _says(expect: Expect | None) -> bool:
    if expect is None:
        return False
    return any(_claims(name, getattr(expect, name)) for name in expect.model_fields_set)


def _claims(name: str, value: object) -> bool:
    if isinstance(value, Expect):
        return _says(value)
    if isinstance(value, WordsExpected):
        return value.equals is not None or any((*value.contains, *value.matches))
    if name == "any_of" and isinstance(value, list):  # an alternative that says nothing always holds
        return all(map(_says, value))
    return name in _NULL_SAYS if value is None else bool(value) or name not in _EMPTY_SAYS_NOT


def warnings(text: Text, cases: Iterable[tuple[str, Case]]) -> tuple[Fault, ...]:
    """A warning for each case, given with its pointer, that expects nothing; one for all rows of a table."""
    said = "this case expects nothing, so it passes wherever the conversation goes"
    hint = 'give a step an "expect"'
    found = (
        text.fault(said, pointer, hint=hint, level="warning") for pointer, case in cases if expects_nothing(case)
    )
    return tuple(in_order(found))
