"""Cases: contexts described by the sets of values that their keys have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from types import MappingProxyType
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict
from llm_fsm.lint.solver.value_sets import ValueSet

MAX_CASES = 64
_REFUSAL = 16
"""The cost of refusing a question that is too expensive."""

Domains = Callable[[str], ValueSet]
"""Every value that a key may have, with null for "not set"."""

Draw = Callable[[str, ValueSet], list[Any]]
"""A few of these values that a key may have, simple ones first; null means "not set"."""


class Effort:
    """A budget for reasoning. One unit is about the cost of joining two ranges of values."""

    def __init__(self, left: int, whole: Effort | None = None) -> None:
        self.left = left
        self.whole = whole

    def spend(self, units: int) -> bool:
        """Spend some units of this and the whole budget. Return false, for a small fee, if there
        are too few.
        """
        if units > self.left:
            self.left -= min(self.left, _REFUSAL)
            return False
        self.left -= units
        if self.whole is not None:
            self.whole.left = max(0, self.whole.left - units)
        return True

    def part(self, share: int, least: int) -> Effort:
        """Return the budget of one question: its share if there is enough, and at least the
        minimum.
        """
        return Effort(max(least, min(share, self.left)), self)


class Conjunction(NamedTuple):
    """Contexts in which each key has one of its values, and each opaque test (by its text) has its
    outcome.
    """

    sets: Mapping[str, ValueSet]
    signs: Mapping[str, bool]

    @property
    def weight(self) -> int:
        """The cost of joining it with another one."""
        ranges = 0
        for values in self.sets.values():
            ranges += len(values.texts) + len(values.numbers)
        return 2 + ranges + 2 * len(self.sets) + len(self.signs)

    def and_also(self, other: Conjunction) -> Conjunction | None:
        """Return the contexts of both; None if there are none."""
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
        return Conjunction(sets, {**self.signs, **other.signs})

    def having(self, name: str, values: ValueSet, domains: Domains) -> Conjunction | None:
        """Return the contexts in which the key also has one of these values."""
        left = (self.sets.get(name) or domains(name)) & values
        if left.empty:
            return None
        return Conjunction({**self.sets, name: left}, self.signs)


ANY = Conjunction(MappingProxyType({}), MappingProxyType({}))
Cases = tuple[Conjunction, ...]


def both(first: Cases | None, second: Cases | None, effort: Effort | None = None) -> Cases | None:
    """Return the cases that match one of each side; None if they are too many, unknown, or too
    expensive.
    """
    if first is None or second is None or len(first) * len(second) > MAX_CASES * 8:
        if first == () or second == ():
            return ()
        return None
    if _is_any(first) or _is_any(second):
        return second if _is_any(first) else first
    if effort is not None and (not effort.left or not effort.spend(_work(first, second))):
        return None
    found = []
    for one in first:
        for other in second:
            case = one.and_also(other)
            if case is not None:
                found.append(case)
    return _bounded(found)


def _work(first: Cases, second: Cases) -> int:
    heavy = sum([case.weight for case in first]) * len(second)
    return heavy + sum([case.weight for case in second]) * len(first)


def _is_any(cases: Cases) -> bool:
    return len(cases) == 1 and not cases[0].sets and not cases[0].signs


def either(first: Cases | None, second: Cases | None) -> Cases | None:
    """Return the cases of both answers."""
    if first is None or second is None:
        return None
    return _bounded([*first, *second])


def _bounded(cases: list[Conjunction]) -> Cases | None:
    for case in cases:
        if not case.sets and not case.signs:
            return (ANY,)
    if len(cases) <= MAX_CASES:
        return tuple(cases)
    return None


def contexts(case: Conjunction, draw: Draw, limit: int = 32) -> Iterator[JsonDict]:
    """Yield contexts drawn from a case, simple ones first, with dotted names as objects."""
    names = list(case.sets)
    choices = [draw(name, case.sets[name]) for name in names]
    for values in islice(product(*choices), limit):
        yield placed(zip(names, values, strict=True))


def placed(chosen: Iterable[tuple[str, Any]]) -> JsonDict:
    """Return a context of these names and values, with dotted names as members of objects."""
    context: JsonDict = {}
    for name, value in chosen:
        if value is not None:
            put(context, name.split("."), value)
    return context


def put(whole: JsonDict, path: Sequence[str], value: Any) -> None:
    """Set a member of nested objects; do nothing if another value is in the way.

    Objects on the path are copied, because many contexts share them.
    """
    *outer, last = path
    place = whole
    for part in outer:
        inner = place.get(part, {})
        if not isinstance(inner, dict):
            return
        place[part] = {**inner}
        place = place[part]
    place[last] = value
