"""What conditions say about the values of keys, worked out without running a conversation.

A condition becomes a formula over tests of single keys. Two questions are put to it: in which cases may
it hold, and in which may it fail? A case gives each key a set of values; the cases of an answer together
hold every context for which the answer is yes, and perhaps more. So "no case" is proof, while a context
that is drawn from a case is only shown after the condition was evaluated for it (`Guard.test`). What
cannot be reasoned about is a test that may go either way, but the same way wherever it stands. An answer
of more than 64 cases is None: it cannot be told. Limits of time and size that evaluation has are left
out of account.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from types import MappingProxyType
from typing import Any

from llm_fsm.coercion import Meter, number_of
from llm_fsm.conditions import Rule, compile_rule, look_up, test
from llm_fsm.lint.values import EVERYTHING, NOTHING, SET, UNSET, ValueSet, ordered, points

MAX_CASES = 64
_FINITE = 64
"""Keys of at most so many values are tested value by value."""

Domains = Callable[[str], ValueSet]
"""Every value that a key may have, null (which is: not set) among them."""

Accepts = Callable[[str, Any], bool]
"""Whether a key may hold a value; any may be null."""


@dataclass(frozen=True, slots=True)
class Case:
    """Contexts in which each key has one of its values and each opaque test (by its text) its outcome."""

    sets: Mapping[str, ValueSet]
    signs: Mapping[str, bool]

    def and_also(self, other: Case) -> Case | None:
        """The contexts of both; None when there are none."""
        if not other.sets and not other.signs:
            return self
        if not self.sets and not self.signs:
            return other
        sets = dict(self.sets)
        for name, values in other.sets.items():
            known = sets.get(name)
            sets[name] = values if known is None else known & values
            if known is not None and sets[name].empty:
                return None
        for text, sign in other.signs.items():
            if self.signs.get(text, sign) is not sign:
                return None
        return Case(sets, {**self.signs, **other.signs})

    def having(self, name: str, values: ValueSet, domains: Domains) -> Case | None:
        """The contexts in which the key also has one of these values."""
        left = (self.sets.get(name) or domains(name)) & values
        return None if left.empty else Case({**self.sets, name: left}, self.signs)


ANY = Case(MappingProxyType({}), MappingProxyType({}))
Cases = tuple[Case, ...]


def both(first: Cases | None, second: Cases | None) -> Cases | None:
    """The cases of which one of each holds; None when they are too many or not known."""
    if first is None or second is None or len(first) * len(second) > MAX_CASES * 8:
        return () if first == () or second == () else None
    found = [case for a in first for b in second if (case := a.and_also(b)) is not None]
    return _bounded(found)


def either(first: Cases | None, second: Cases | None) -> Cases | None:
    """The cases of both answers."""
    return None if first is None or second is None else _bounded([*first, *second])


def _bounded(cases: list[Case]) -> Cases | None:
    if any(not case.sets and not case.signs for case in cases):
        return (ANY,)
    return tuple(cases) if len(cases) <= MAX_CASES else None


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one key, or an opaque one. `yes` and `no`: the values with which it may hold and may fail.

    `text`: the rule as text, where it is not the values alone that decide; `rule` is the test itself.
    """

    text: str | None
    name: str | None = None
    yes: ValueSet = EVERYTHING
    no: ValueSet = EVERYTHING
    breaks: bool = False

    def cases(self, *, holds: bool) -> Cases:
        values = self.yes if holds else self.no
        signs = {} if self.text is None else {self.text: holds}
        if self.name is None:
            return (Case({}, signs),)
        return () if values.empty else (Case({self.name: values}, signs),)


@dataclass(frozen=True, slots=True)
class Junction:
    """All of its parts, or (`every` false) one of them."""

    every: bool
    parts: tuple[Formula, ...]

    @property
    def breaks(self) -> bool:
        return any(part.breaks for part in self.parts)

    def cases(self, *, holds: bool) -> Cases | None:
        if self.every is holds:
            found: Cases | None = (ANY,)
            for part in self.parts:
                found = both(found, part.cases(holds=holds))
            return found
        found = ()
        for part in self.parts:
            found = either(found, part.cases(holds=holds))
        return found


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a formula."""

    inner: Formula

    @property
    def breaks(self) -> bool:
        return self.inner.breaks

    def cases(self, *, holds: bool) -> Cases | None:
        return self.inner.cases(holds=not holds)


Formula = Test | Junction | Not
"""`breaks`: some context may make its evaluation fail, which lets no condition hold."""

Tests = dict[str, Formula]
"""Rules as text, and the formulas that they became."""

TRUE = Junction(True, ())
FALSE = Junction(False, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """All conditions of one transition. `holds` and `fails` are the cases of either outcome.

    `judged`: words alone say when to take it, so by conditions it always holds. `needs` are the keys
    that are set whenever it holds.
    """

    keys: tuple[str, ...]
    rules: tuple[Rule, ...]
    holds: Cases | None
    fails: Cases | None

    @property
    def judged(self) -> bool:
        return not self.keys and not self.rules

    @property
    def needs(self) -> frozenset[str]:
        """Keys that are set whenever it holds."""
        return frozenset(self.keys) | _always_set(self.holds or ())

    @property
    def never(self) -> bool:
        """True when it is proven that it cannot hold."""
        return self.holds == ()

    @property
    def always(self) -> bool:
        """True when it is proven that it holds in every context."""
        return self.fails == ()

    def test(self, context: Mapping[str, Any]) -> bool:
        """Whether it holds for a context, by evaluation."""
        return all(look_up(context, key) is not None for key in self.keys) and all(
            test(rule, context).holds for rule in self.rules
        )


def _always_set(cases: Cases) -> frozenset[str]:
    sets = [{name for name, values in case.sets.items() if not values.has_null} for case in cases]
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def guard_of(
    keys: Iterable[str],
    logics: Iterable[Any],
    domains: Domains,
    *,
    compiled: Iterable[Rule] | None = None,
    known: Tests | None = None,
) -> Guard:
    """The guard of a transition that requires these keys and these rules. Raises ConditionError.

    `compiled` are the rules, if that was done before; `known` keeps tests from one guard to the next of
    the same domains.
    """
    names, written = tuple(keys), list(logics)
    rules = tuple(map(compile_rule, written)) if compiled is None else tuple(compiled)
    tests = {} if known is None else known
    parts: list[Formula] = [_is_set(name, domains) for name in names]
    parts += [
        _Reader(domains, tests, logic, rule).formula(logic)
        for logic, rule in zip(written, rules, strict=True)
    ]
    formula = parts[0] if len(parts) == 1 else Junction(True, tuple(parts))
    return Guard(
        keys=names,
        rules=rules,
        holds=formula.cases(holds=True),
        fails=(ANY,) if formula.breaks else formula.cases(holds=False),
    )


def _is_set(name: str, domains: Domains) -> Test:
    values = domains(name)
    return Test(None, name, values & SET, values & UNSET)


def placed(name: str, value: object) -> dict[str, Any]:
    """A context in which the name has the value; null is a key that is not set."""
    return {} if value is None else {name: value}


def contexts(case: Case, accepts: Accepts, limit: int = 32) -> Iterator[dict[str, Any]]:
    """Contexts drawn from a case, plain ones first, of values that `accepts`; dotted names as objects."""
    names = list(case.sets)
    choices = [[value for value in case.sets[name].samples() if accepts(name, value)] for name in names]
    for values in islice(product(*choices), limit):
        context: dict[str, Any] = {}
        for name, value in zip(names, values, strict=True):
            if value is not None:
                *outer, last = name.split(".")
                place = context
                for step in outer:
                    inner = place.setdefault(step, {})
                    place = inner if isinstance(inner, dict) else {}
                place[last] = value
        yield context


_COMPARED = frozenset({"==", "===", "<", "<="})
_MIRRORED: Mapping[str, str] = {">": "<", ">=": "<="}
_NEGATED: Mapping[str, str] = {"!=": "==", "!==": "==="}
_SAFE = frozenset(
    {
        *("var", "==", "!=", "===", "!==", "<", "<=", ">", ">=", "!", "!!", "and", "or", "if", "?:", "in"),
        *("contains", "missing", "missing_some", "has_context", "cat", "lower", "map", "filter", "all"),
        *("some", "none", "merge"),
    }
)
"""Operators that give a value for every context."""
_TRUTHS = frozenset(
    {
        *("==", "!=", "===", "!==", "<", "<=", ">", ">=", "!", "!!", "in", "contains", "has_context"),
        *("all", "some", "none", "matches"),
    }
)
"""Operators whose value is true or false."""


def operation(rule: object) -> tuple[str, list[Any]] | None:
    """Operator and arguments of a rule; None for what is a literal."""
    if not isinstance(rule, dict) or len(rule) != 1:
        return None
    [(operator, written)] = rule.items()
    return operator, written if isinstance(written, list) else [written]


def operators_in(rule: object) -> Iterator[str]:
    """Every operator of a rule."""
    if isinstance(rule, list):
        for item in rule:
            yield from operators_in(item)
    elif (found := operation(rule)) is not None:
        yield found[0]
        yield from operators_in(found[1])


def is_literal(rule: object) -> bool:
    """True when no operator is in it."""
    return next(operators_in(rule), None) is None


def variable(rule: object) -> str | None:
    """The name that a `var` with a literal name reads."""
    found = operation(rule)
    if found is None or found[0] != "var" or not found[1] or not is_literal(found[1]):
        return None
    name = found[1][0]
    return name if isinstance(name, str) and name else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns the parts of a rule that compiles into formulas."""

    domains: Domains
    tests: Tests
    whole: Any
    compiled: Rule

    def formula(self, rule: Any) -> Formula:
        """What it takes for a rule to be truthy."""
        found = operation(rule)
        if found is None:
            return self.test(rule)
        operator, arguments = found
        match operator, len(arguments):
            case (("and" | "or"), count) if count:
                return Junction(operator == "and", tuple(map(self.formula, arguments)))
            case (("!" | "!!"), count) if count:
                inner = self.formula(arguments[0])
                return Not(inner) if operator == "!" else inner
            case (("if" | "?:"), 3):
                first, second, third = map(self.formula, arguments)
                chosen = Junction(True, (first, second))
                return Junction(False, (chosen, Junction(True, (Not(first), third))))
            case (("<" | "<="), 3):
                low, middle, high = arguments
                pairs = ({operator: [low, middle]}, {operator: [middle, high]})
                return Junction(True, tuple(map(self.formula, pairs)))
            case "missing", count if count and is_literal(arguments):
                names = arguments[0] if isinstance(arguments[0], list) else arguments
                return Junction(False, tuple(self.test({"missing": [name]}) for name in names))
        if operator in _NEGATED:
            return Not(self.formula({_NEGATED[operator]: arguments[:2]}))
        if operator in _MIRRORED:
            return self.test({_MIRRORED[operator]: [arguments[1], arguments[0]]})
        if operator in ("==", "==="):
            return self.equality(operator, arguments[:2])
        return self.test(rule)

    def equality(self, operator: str, sides: list[Any]) -> Formula:
        """A truth value that is compared with true or false is the truth value, or its opposite."""
        for one, other in (sides, sides[::-1]):
            found = operation(one)
            if isinstance(other, bool) and found is not None and found[0] in _TRUTHS:
                inner = self.formula(one)
                return inner if other else Not(inner)
        return self.test({operator: sides})

    def test(self, rule: Any) -> Formula:
        """A rule that is not looked into further."""
        text = json.dumps(rule, sort_keys=True)
        found = self.tests.get(text)
        if found is None:
            compiled = self.compiled if rule is self.whole else compile_rule(rule)
            found = self.tests[text] = self.new_test(rule, compiled, text)
        return found

    def new_test(self, rule: Any, compiled: Rule, text: str) -> Formula:
        """The test that a rule makes."""
        operators = frozenset(operators_in(rule))
        if compiled.reads_unknown or "now" in operators or len(compiled.reads) > 1:
            return Test(text, breaks=not operators <= _SAFE)
        if not compiled.reads:
            verdict = test(compiled, {})
            return Test(text, breaks=True) if verdict.error else TRUE if verdict.holds else FALSE
        [name] = compiled.reads
        values = self.domains(name)
        finite = values.finite(_FINITE)
        if finite is not None:
            return _tried(compiled, name, finite)
        yes, no = _split(rule, compiled, name)
        yes, no = values & yes, values & no
        certain = (yes & no).empty
        return Test(None if certain else text, name, yes, no, breaks=not operators <= _SAFE)


def _tried(rule: Rule, name: str, values: Sequence[Any]) -> Test:
    """The test of a key of few values, each of them tried."""
    outcomes = [(value, test(rule, placed(name, value))) for value in values]
    yes = points(value for value, verdict in outcomes if verdict.holds)
    no = points(value for value, verdict in outcomes if not verdict.holds and verdict.error is None)
    return Test(None, name, yes, no, breaks=any(verdict.error is not None for _, verdict in outcomes))


_TRIED: Mapping[str, Any] = {"null": None, "true": True, "false": False, "empty": []}


def _split(rule: Any, compiled: Rule, name: str) -> tuple[ValueSet, ValueSet]:
    """The values with which a test of one key may hold, and may fail."""
    numbers, texts, whole = _shape(rule, name)
    yes = {kind for kind, value in _TRIED.items() if test(compiled, placed(name, value)).holds}
    no = set(_TRIED) - yes
    if "." in name:  # the object it stands in may hold null, for which a default does not stand in
        yes, no = yes | {"null"}, no | {"null"}
    wide = frozenset({"list", "object"})
    yes_kinds = frozenset(yes) | (wide if whole is not False else frozenset())
    no_kinds = frozenset(no) | (wide if whole is not True else frozenset())
    every = EVERYTHING
    may = ValueSet(
        kinds=yes_kinds,
        numbers=every.numbers if numbers is None else numbers.numbers,
        texts=every.texts if texts is None else texts.texts,
    )
    may_not = ValueSet(
        kinds=no_kinds,
        numbers=every.numbers if numbers is None else (~numbers).numbers,
        texts=every.texts if texts is None else (~texts).texts,
    )
    return may, may_not


_Shape = tuple[ValueSet | None, ValueSet | None, bool | None]
"""Numbers and texts with which a test holds, and whether lists with elements and objects let it hold.

None where it cannot be told.
"""
_UNKNOWN: _Shape = (None, None, None)
_ZERO = points([0])
_NO_TEXT = points([""])


def _shape(rule: Any, name: str) -> _Shape:
    found = operation(rule)
    if found is None:
        return _UNKNOWN
    operator, arguments = found
    if operator == "var":
        return (~_ZERO, ~_NO_TEXT, True) if variable(rule) == name else _UNKNOWN
    if operator == "has_context":
        return EVERYTHING, EVERYTHING, True
    if operator == "missing":
        return NOTHING, _NO_TEXT, False
    if len(arguments) < 2:
        return _UNKNOWN
    first, second = arguments[:2]
    if operator in _COMPARED:
        if variable(first) == name and is_literal(second):
            return _compared(operator, second, on_left=True)
        if variable(second) == name and is_literal(first):
            return _compared(operator, first, on_left=False)
        return _UNKNOWN
    if operator == "contains":
        first, second = second, first
    if operator in ("in", "contains"):
        if variable(first) == name and isinstance(second, list) and is_literal(second):
            listed = points(second)
            return listed, listed, None if listed.kinds & {"list", "object"} else False
        if variable(second) == name and is_literal(first):
            return NOTHING, None, None
    return _UNKNOWN


def _compared(operator: str, literal: Any, *, on_left: bool) -> _Shape:
    """A key beside a literal; `on_left`: the key stands on the left."""
    simple = literal is None or isinstance(literal, str | int | float)
    if operator == "===":
        exact = points([literal]) if simple else NOTHING
        return exact, exact, False if simple else None
    if operator == "==" and literal is None:
        return NOTHING, NOTHING, False
    number = number_of(Meter(None), literal)
    text = literal if isinstance(literal, str) else None
    if operator == "==":
        exact = NOTHING if math.isnan(number) else points([number])
        return exact, None if text is None else points([text]), None
    closed = 0 if operator == "<=" else 1
    numbers = NOTHING if math.isnan(number) else ValueSet(numbers=_side(number, closed, below=on_left))
    texts = None if text is None else ValueSet(texts=_side(text, closed, below=on_left, least=("", 0)))
    return numbers, texts, None


def _side(value: Any, shut: int, *, below: bool, least: tuple[Any, int] | None = None) -> Any:
    return ordered(least, (value, -shut)) if below else ordered((value, shut), None)
