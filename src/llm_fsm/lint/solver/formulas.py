"""Conditions as formulas over tests of single keys.

An operation beyond reasoning becomes a test with an unknown outcome, which is the same everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from llm_fsm._json import TextMap
from llm_fsm.conditions.compiler import CompiledRule, compile_rule, test
from llm_fsm.conditions.nodes import Node
from llm_fsm.conditions.operators import CLOCKS, COMPARISONS
from llm_fsm.lint.solver.cases import ANY, Cases, Conjunction, Domains, Effort, both, either
from llm_fsm.lint.solver.outcomes import (
    COMPARED,
    is_literal,
    operation,
    operators_in,
    placed,
    split,
)
from llm_fsm.lint.solver.value_sets import EVERYTHING, ValueSet, points

_ENCODER = json.JSONEncoder(sort_keys=True)
_FINITE = 64
"""Keys with at most this many values are tested value by value."""
_MIRRORED: TextMap = {">": "<", ">=": "<="}
_NEGATED: TextMap = {"!=": "==", "!==": "==="}
_TRUTHS = COMPARISONS | {
    "!",
    "!!",
    "in",
    "contains",
    "has_context",
    "all",
    "some",
    "none",
    "matches",
}
"""Operators whose value is true or false."""
_SAFE = (_TRUTHS - {"matches"}) | {
    "var",
    "and",
    "or",
    "if",
    "?:",
    "missing",
    "missing_some",
    "cat",
    "lower",
    "map",
    "filter",
    "merge",
}
"""Operators that return a value in every context."""


class Test(NamedTuple):
    """A test of one key, or an opaque one. `yes` and `no`: the values with which it may be true and
    false.

    `text`: the rule as text, if more than the values decide; `rule`: the test itself.
    """

    text: str | None
    name: str | None = None
    yes: ValueSet = EVERYTHING
    no: ValueSet = EVERYTHING
    breaks: bool = False

    def cases(self, _effort: Effort, *, holds: bool) -> Cases:
        values = self.yes if holds else self.no
        signs = {} if self.text is None else {self.text: holds}
        if self.name is None:
            return (Conjunction({}, signs),)
        if values.empty:
            return ()
        return (Conjunction({self.name: values}, signs),)


class Junction(NamedTuple):
    """All of its parts, or one of them if `every` is false."""

    every: bool
    parts: tuple[Formula, ...]

    @property
    def breaks(self) -> bool:
        return any(part.breaks for part in self.parts)

    def cases(self, effort: Effort, *, holds: bool) -> Cases | None:
        found: Cases | None = (ANY,) if self.every is holds else ()
        for part in self.parts:
            more = part.cases(effort, holds=holds)
            found = both(found, more, effort) if self.every is holds else either(found, more)
            if found is None and self.every is not holds:
                break
        return found


class Not(NamedTuple):
    """The opposite of a formula."""

    inner: Formula

    @property
    def breaks(self) -> bool:
        return self.inner.breaks

    def cases(self, effort: Effort, *, holds: bool) -> Cases | None:
        return self.inner.cases(effort, holds=not holds)


Formula = Test | Junction | Not
"""`breaks`: in some context its evaluation may fail, and then no condition is true."""


class Tests:
    """Tests that were made before for the same domains."""

    def __init__(self) -> None:
        self.by_text: dict[str, Formula] = {}
        """Rules as text, and the formulas that they became."""
        self.by_form: dict[tuple[str, bool, ValueSet], Test] = {}
        """(comparison as text without the key's name, true if that is dotted, domain of the key) to
        such a test.
        """


TRUE = Junction(True, ())
FALSE = Junction(False, ())


class Reader(NamedTuple):
    """Turns the parts of a rule that compiles into formulas."""

    domains: Domains
    tests: Tests
    steps: int

    def formula(self, rule: Any, node: Node | None = None) -> Formula:
        """Return the formula under which a rule is truthy; `node` is the compiled rule, if there is
        one.
        """
        found = operation(rule)
        if found is None:
            return self.test(rule, node)
        operator, arguments = found
        match operator, len(arguments):
            case (("and" | "or"), count) if count:
                return Junction(
                    operator == "and", tuple(map(self.formula, arguments, _parts(node, count)))
                )
            case (("!" | "!!"), count) if count:
                inner = self.formula(arguments[0], _parts(node, count)[0])
                return Not(inner) if operator == "!" else inner
            case (("if" | "?:"), 3):
                first, second, third = map(self.formula, arguments, _parts(node, 3))
                chosen = Junction(True, (first, second))
                return Junction(False, (chosen, Junction(True, (Not(first), third))))
            case (("<" | "<="), 3):
                low, middle, high = arguments
                pairs = ({operator: [low, middle]}, {operator: [middle, high]})
                return Junction(True, tuple(map(self.formula, pairs)))
            case "missing", count if count and is_literal(arguments):
                names = arguments
                if isinstance(arguments[0], list):
                    names = arguments[0]
                return Junction(False, tuple(self.test({"missing": [name]}) for name in names))
        if operator in _NEGATED:
            return Not(self.formula({_NEGATED[operator]: arguments[:2]}))
        if operator in _MIRRORED:
            return self.test({_MIRRORED[operator]: [arguments[1], arguments[0]]})
        if operator in ("==", "==="):
            return self.equality(operator, arguments[:2], node)
        return self.test(rule, node)

    def equality(self, operator: str, sides: list[Any], node: Node | None) -> Formula:
        """Reduce the comparison of a boolean with true or false to the boolean, or its opposite."""
        for one, other in (sides, sides[::-1]):
            found = operation(one)
            if isinstance(other, bool) and found is not None and found[0] in _TRUTHS:
                inner = self.formula(one)
                return inner if other else Not(inner)
        return self.test({operator: sides}, node)

    def test(self, rule: Any, node: Node | None = None) -> Formula:
        """Return the test of a rule without looking inside."""
        text = _ENCODER.encode(rule)
        found = self.tests.by_text.get(text)
        if found is None:
            found = self.of_form(rule, node, text)
            self.tests.by_text[text] = found
        return found

    def of_form(self, rule: Any, node: Node | None, text: str) -> Formula:
        """Return the test of a rule. Comparisons that differ only in the key's name are computed
        once.
        """
        form = _form(rule)
        if form is None:
            return self.new_test(rule, self.compiled(rule, node), text)
        name, written = form
        mark = (written, "." in name, self.domains(name))
        found = self.tests.by_form.get(mark)
        if found is not None:
            return Test(None if found.text is None else text, name, *found[2:])
        made = self.new_test(rule, self.compiled(rule, node), text)
        if isinstance(made, Test) and made.name is not None:
            self.tests.by_form[mark] = made
        return made

    def compiled(self, rule: Any, node: Node | None) -> CompiledRule:
        """Return the rule to be evaluated."""
        if node is None:
            return compile_rule(rule)
        return CompiledRule(node, self.steps)

    def new_test(self, rule: Any, compiled: CompiledRule, text: str) -> Formula:
        """Return the test that a rule makes."""
        operators = frozenset(operators_in(rule))
        if compiled.reads_unknown or operators & CLOCKS or len(compiled.reads) > 1:
            return Test(text, breaks=not operators <= _SAFE)
        if not compiled.reads:
            verdict = test(compiled, {})
            if verdict.error:
                return Test(text, breaks=True)
            return TRUE if verdict.holds else FALSE
        [name] = compiled.reads
        values = self.domains(name)
        finite = values.finite(_FINITE)
        if finite is not None:
            return _tried(compiled, name, finite)
        yes, no = split(rule, compiled, name, values)
        certain = (yes & no).empty
        return Test(None if certain else text, name, yes, no, breaks=not operators <= _SAFE)


def _form(rule: Any) -> tuple[str, str] | None:
    """Return (name, the rest as text) for the comparison of a key with a number, text or
    boolean.
    """
    found = operation(rule)
    if found is None or found[0] not in COMPARED or len(found[1]) != 2:
        return None
    for here, there in ((0, 1), (1, 0)):
        side = found[1][here]
        literal = found[1][there]
        if isinstance(side, dict) and (literal is None or isinstance(literal, str | int | float)):
            name = side.get("var")
            if isinstance(name, str) and name and len(side) == 1:
                return name, f"{found[0]} {here} {literal!r}"
    return None


def _parts(node: Node | None, count: int) -> Sequence[Node | None]:
    """Return the compiled arguments of an operation with `count` arguments."""
    if node is None:
        return [None] * count
    return node.arguments


def _tried(rule: CompiledRule, name: str, values: Sequence[Any]) -> Test:
    """Return the test of a key with few values, by trying each."""
    outcomes = [(value, test(rule, placed(name, value))) for value in values]
    yes = points(value for value, verdict in outcomes if verdict.holds)
    no = points(value for value, verdict in outcomes if not verdict.holds and verdict.error is None)
    return Test(
        None, name, yes, no, breaks=any(verdict.error is not None for _, verdict in outcomes)
    )
