"""The values of keys with which conditions are true and false, without running a conversation.

A condition becomes a formula over tests of single keys. In which cases may it be true, and in which
false? A case gives each key a set of values. The cases of an answer cover every matching context,
and perhaps more. So "no case" is proof. A context drawn from a case is shown only after the
condition was evaluated for it (`Guard.test`). An opaque test has an unknown outcome, which is the
same everywhere. An answer of more than 64 cases is None: unknown. Limits of time and size during
evaluation are not considered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap
from llm_fsm.conditions.compiler import CompiledRule, compile_rule, look_up, test
from llm_fsm.lint.solver.cases import ANY, Cases, Domains, Effort
from llm_fsm.lint.solver.formulas import Formula, Junction, Reader, Test, Tests
from llm_fsm.lint.solver.value_sets import SET, UNSET

SHARE = 20_000
"""The budget of one guard."""


class GuardCases(NamedTuple):
    """All conditions of one transition. `holds` and `fails` are the cases of either outcome.

    `judged`: only words say when to take it, so by conditions it is always true. `needs` are the
    keys that are set whenever it is true.
    """

    keys: tuple[str, ...]
    rules: tuple[CompiledRule, ...]
    holds: Cases | None
    fails: Cases | None

    @property
    def judged(self) -> bool:
        return not self.keys and not self.rules

    @property
    def needs(self) -> frozenset[str]:
        """Keys that are set whenever it is true."""
        return frozenset(self.keys) | _always_set(self.holds or ())

    @property
    def never(self) -> bool:
        """True if it is proven that it cannot be true."""
        return self.holds == ()

    @property
    def always(self) -> bool:
        """True if it is proven that it is true in every context."""
        return self.fails == ()

    def test(self, context: JsonMap) -> bool:
        """Evaluate it for a context."""
        return all(look_up(context, key) is not None for key in self.keys) and all(
            test(rule, context).holds for rule in self.rules
        )


def _always_set(cases: Cases) -> frozenset[str]:
    sets = [{name for name, values in case.sets.items() if not values.has_null} for case in cases]
    if sets:
        return frozenset(set.intersection(*sets))
    return frozenset()


def guard_of(
    keys: Iterable[str],
    logics: Iterable[Any],
    domains: Domains,
    *,
    compiled: Iterable[CompiledRule] | None = None,
    known: Tests | None = None,
    effort: Effort | None = None,
) -> GuardCases:
    """Return the guard of a transition that requires these keys and these rules. Raises
    ConditionError.

    `compiled` are the compiled rules, if there are some. `known` keeps tests for later guards of
    the same domains. `effort` is the budget for its cases; None: the usual share of one guard.
    """
    granted = Effort(SHARE) if effort is None else effort
    names = tuple(keys)
    written = list(logics)
    rules = tuple(map(compile_rule, written)) if compiled is None else tuple(compiled)
    tests = Tests() if known is None else known
    parts: list[Formula] = [_is_set(name, domains) for name in names]
    parts += [
        Reader(domains, tests, rule.steps).formula(logic, rule.node)
        for logic, rule in zip(written, rules, strict=True)
    ]
    formula = parts[0] if len(parts) == 1 else Junction(True, tuple(parts))
    return GuardCases(
        keys=names,
        rules=rules,
        holds=formula.cases(granted, holds=True),
        fails=(ANY,) if formula.breaks else formula.cases(granted, holds=False),
    )


def _is_set(name: str, domains: Domains) -> Test:
    values = domains(name)
    return Test(None, name, values & SET, values & UNSET)
