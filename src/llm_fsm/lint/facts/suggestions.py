"""Names in messages, and suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from llm_fsm._json import json_text
from llm_fsm._text import nearest

_HINTED = 200
_COMPARED = 30_000
_SHOWN_NAMES = 8
_SHOWN_CHARS = 80
_SHOWN_STEPS = 20


def quoted(name: str) -> str:
    """Return a name in double quotes, cut at 80 characters."""
    return json_text(name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "…")


def as_json(value: object, most: int = 60) -> str:
    """Return a value as JSON, cut after `most` characters."""
    return json_text(value)[:most]


def route(path: Iterable[str]) -> str:
    """Return a path as `a → b → c`, without the middle of a long one."""
    names = list(path)
    if len(names) > _SHOWN_STEPS:
        half = _SHOWN_STEPS // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return " → ".join(names)


def near_hint(name: str, known: Iterable[str]) -> str | None:
    """Return `did you mean "greet"?` for the most similar known name; None if none is close."""
    meant = nearest(name, known)
    return None if meant is None else f"did you mean {quoted(meant)}?"


class Speller:
    """Suggestions for unknown names of one file, within a time budget."""

    def __init__(self) -> None:
        self.left = _HINTED
        self.comparisons = _COMPARED

    def hint(self, name: str, candidates: Iterable[str], what: str) -> str | None:
        """Return `did you mean "greet"?`, or a list of the known names of kind `what`; None after
        the budget.
        """
        if self.spent:
            return None
        names = sorted(candidates) if isinstance(candidates, frozenset) else list(candidates)
        meant = self.meant(name, names)
        if meant is not None:
            return f"did you mean {quoted(meant)}?"
        if not names:
            return f"there are no {what}"
        more = ", …" if len(names) > _SHOWN_NAMES else ""
        return f"the {what} are {', '.join(names[:_SHOWN_NAMES])}{more}"

    def meant(self, name: str, names: Sequence[str]) -> str | None:
        """Return the most similar of these names; None if there is none, or after the budget."""
        if self.spent:
            return None
        self.left -= 1
        self.comparisons -= len(names)
        return nearest(name, names)

    @property
    def spent(self) -> bool:
        """True if the budget of the file is used up."""
        return self.left <= 0 or self.comparisons <= 0


class Slips:
    """Known names, which can be found by a name with one typo (Garbe 2012, symmetric deletion)."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = tuple(known)
        self.told: dict[str, str | None] = {}

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.known)}

    @cached_property
    def _by_gap(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name in self.known:
            alone = (name,)
            for gap in _gaps(name):
                found[gap] = found[gap] + alone if gap in found else alone
        return found

    def meant(self, name: str) -> str | None:
        """Return the first known name that differs from this one by a typo; None if there is
        none.
        """
        if name not in self.told:
            found = [one for one in self._near(name) if slip(name, one)]
            self.told[name] = min(found, key=self._places.__getitem__, default=None)
        return self.told[name]

    def _near(self, name: str) -> set[str]:
        near: set[str] = set()
        for gap in _gaps(name):
            near.update(self._by_gap.get(gap, ()))
        return near


def _gaps(name: str) -> list[str]:
    """Return a name, and the name without each one of its characters. Digits stay, because they are
    no typos.
    """
    places = range(min(len(name), _SHOWN_CHARS))
    return [name, *[name[:at] + name[at + 1 :] for at in places if not name[at].isdigit()]]


def slip(name: str, known: str) -> bool:
    """Return true if two names differ by one typo: a letter too many, missing or wrong, or two
    swapped.

    Plurals and other numbers are no typos.
    """
    longer, shorter = (name, known) if len(name) >= len(known) else (known, name)
    plural = longer == shorter + "s" and not shorter.endswith("s")
    if name == known or len(longer) - len(shorter) > 1 or plural:
        return False
    first = next((at for at, char in enumerate(shorter) if char != longer[at]), len(shorter))
    if len(longer) > len(shorter):
        return not longer[first].isdigit() and longer[first + 1 :] == shorter[first:]
    if longer[first].isdigit() or shorter[first].isdigit():
        return False
    if longer[first + 1 :] == shorter[first + 1 :]:
        return True
    swapped = shorter[first : first + 2][::-1]
    return longer[first : first + 2] == swapped and longer[first + 2 :] == shorter[first + 2 :]
