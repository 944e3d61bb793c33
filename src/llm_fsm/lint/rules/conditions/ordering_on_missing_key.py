"""Comparisons by order that are true without the key."""

from __future__ import annotations

from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import DataFlow, data_flow, is_system
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.transitions import taken
from llm_fsm.lint.graph import Arc
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.cases import Cases
from llm_fsm.lint.solver.comparisons import Comparison, comparisons
from llm_fsm.lint.solver.outcomes import operation, variable
from llm_fsm.lint.solver.value_sets import UNSET


@lint_rule("C209", "warning")
def ordering_on_missing_key(document: Document) -> Faults:
    """A key that may be missing is compared by less or greater, and the comparison is true without it.

    Why it is bad:
    In JsonLogic a missing key counts as 0 in `<`, `<=`, `>` and `>=`. So `{"<=": [{"var": "guests"}, 8]}` is true
    before the user has given a number of guests.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"<=": [{"var": "guests"}, 8]}}]}]},
            "bye": {"purpose": "Confirm the table"}}

    Fix:
    Demand the key too: add it to `requires_context_keys` of the condition.
    """
    flow = data_flow(document)
    risky: dict[str, list[Comparison]] = {}
    passed: dict[tuple[str, bool, str], bool] = {}
    for comparison in comparisons(document):
        if (
            comparison.ordering
            and _goes_through(comparison, passed)
            and not is_system(comparison.key)
        ):
            risky.setdefault(comparison.owner.pointer.rsplit("/conditions/", 1)[0], []).append(
                comparison
            )
    if not risky:
        return
    seen = set()
    for state, arc in taken(document, risky):
        for comparison in risky[arc.pointer]:
            mark = (arc.pointer, comparison.key)
            if mark not in seen and _may_miss(flow, state, arc, comparison.key):
                seen.add(mark)
                yield _finding(flow, state, comparison)


def _goes_through(comparison: Comparison, passed: dict[tuple[str, bool, str], bool]) -> bool:
    """Return true if the comparison is true without the key; `passed` caches the answers."""
    found = operation(comparison.rule)
    if comparison.positive is None or found is None or any(_has_default(side) for side in found[1]):
        return False
    literal = comparison.literal
    number = is_number(literal)
    mark = (
        comparison.operator,
        variable(found[1][0]) is not None,
        repr(_stand_in(literal) if number else literal),
    )
    if mark not in passed:
        passed[mark] = test(compile_rule(comparison.rule), {}).holds
    return passed[mark] is comparison.positive


def _stand_in(number: float) -> float:
    """Return a number that compares like this one with null, booleans and lists (0, 1 or no
    number).
    """
    if number in (0, 1):
        return number
    if number < 0:
        return -1
    return 2 if number > 1 else 0.5


def _has_default(side: object) -> bool:
    found = operation(side)
    return found is not None and len(found[1]) > 1


def _may_miss(flow: DataFlow, state: str, arc: Arc, key: str) -> bool:
    if key in flow.must[state]:
        return False
    known = flow.known
    guard = known.guard(arc)
    if guard is None or guard.holds is None:
        return False
    left: Cases | None = guard.holds
    for earlier in known.decided[state]:
        if left is None or earlier.pointer == arc.pointer:
            break
        before = known.guard(earlier)
        left = None if before is None else known.both(left, before.fails)
    cases = guard.holds if left is None else left
    return any(case.having(key, UNSET, known.keys.domain) is not None for case in cases)


def _finding(flow: DataFlow, state: str, comparison: Comparison) -> Fault:
    return Fault(
        f"{quoted(comparison.key)} may not be set here, and a missing key counts as 0: "
        f'this "{comparison.operator}" then {"holds" if comparison.positive else "fails"}',
        pointer=comparison.pointer,
        hint=f'add "requires_context_keys": [{quoted(comparison.key)}]',
        level="warning" if flow.document.has_schema else "info",
        path=flow.path_without(state, comparison.key),
    )
