"""The values of keys with which conditions hold and fail, without running a conversation.

A condition becomes a formula over tests of single keys. In which cases may it hold, and in which may it fail? A case
gives each key a set of values. The cases of an answer cover every context for which it is yes, and perhaps more. So "no
case" is proof. A context drawn from a case is shown only after the condition was evaluated for it (`Guard.test`). An
opaque test may go either way, but the same way in every place. An answer of more than 64 cases is None: unknown. Limits
of time and size during evaluation are not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from llm_fsm.conditions.compiler import Rule, compile_rule, look_up, test
from llm_fsm.lint.solver.cases import ANY, Cases, Domains, Effort
from llm_fsm.lint.solver.formulas import Formula, Junction, Reader, Test, Tests
from llm_fsm.lint.solver.value_sets import SET, UNSET

SHARE = 20_000
"""The effort that one guard is worth."""


class Guard(NamedTuple):
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
        """True if it holds for a context, by evaluation."""
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
    effort: Effort | None = None,
) -> Guard:
    """The guard of a transition that requires these keys and these rules. Raises ConditionError.

    `compiled` are the rules, if that was done before; `known` keeps tests from one guard to the next of
    the same domains; `effort` is what may be spent on its cases, the usual share of one guard if not given.
    """
    granted = Effort(SHARE) if effort is None else effort
    names, written = tuple(keys), list(logics)
    rules = tuple(map(compile_rule, written)) if compiled is None else tuple(compiled)
    tests = Tests() if known is None else known
    parts: list[Formula] = [_is_set(name, domains) for name in names]
    parts += [
        Reader(domains, tests, rule.steps).formula(logic, rule.node) for logic, rule in zip(written, rules, strict=True)
    ]
    formula = parts[0] if len(parts) == 1 else Junction(True, tuple(parts))
    return Guard(
        keys=names,
        rules=rules,
        holds=formula.cases(granted, holds=True),
        fails=(ANY,) if formula.breaks else formula.cases(granted, holds=False),
    )


def _is_set(name: str, domains: Domains) -> Test:
    values = domains(name)
    return Test(None, name, values & SET, values & UNSET)
