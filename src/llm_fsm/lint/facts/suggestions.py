"""Names in messages, and guesses at what an unknown one was meant to be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from llm_fsm._text import nearest

_HINTED = 200
_COMPARED_ONE_BY_ONE = 8
_COMPARED = 30_000
_SHOWN_NAMES = 8
_SHOWN_CHARS = 80
_SHOWN_STEPS = 20


def quoted(name: str) -> str:
    """A name in double quotes, cut at 80 characters."""
    return json.dumps(name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "…", ensure_ascii=False)


def as_json(value: object, most: int = 60) -> str:
    """A value as JSON, cut after so many characters."""
    return json.dumps(value, ensure_ascii=False)[:most]


def route(path: Iterable[str]) -> str:
    """A way through the machine: `a → b → c`; the middle of a long one is left out."""
    names = list(path)
    if len(names) > _SHOWN_STEPS:
        half = _SHOWN_STEPS // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return " → ".join(names)


class Speller:
    """Guesses for as many names of one file as are worth the time."""

    def __init__(self) -> None:
        self.left = _HINTED
        self.comparisons = _COMPARED

    def hint(self, name: str, candidates: Iterable[str], what: str) -> str | None:
        """`did you mean "greet"?`, or which `what` there are; None once a hopeless file had its share."""
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
        """The one of these names that an unknown one was probably meant to be; None once the file had its share."""
        if self.spent:
            return None
        self.left -= 1
        self.comparisons -= len(names)
        return nearest(name, names)

    @property
    def spent(self) -> bool:
        """True once the file had its share."""
        return self.left <= 0 or self.comparisons <= 0


class Slips:
    """Known names, to be found by what is one slip of the fingers away (Garbe 2012, symmetric deletion).

    The first few questions are answered by comparing; an index is made when there are more.
    """

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
        """The first of the known names that differs from this one by a slip; None when none does."""
        if name not in self.told:
            few = len(self.told) < _COMPARED_ONE_BY_ONE
            found = [one for one in (self._alike(name) if few else self._near(name)) if slip(name, one)]
            self.told[name] = min(found, key=self._places.__getitem__, default=None)
        return self.told[name]

    def _near(self, name: str) -> set[str]:
        return {one for gap in _gaps(name) for one in self._by_gap.get(gap, ())}

    def _alike(self, name: str) -> Iterator[str]:
        """The names of about the same length that begin or end in the same way: a slip concerns two characters."""
        least, most, half = len(name) - 1, len(name) + 1, max(0, (len(name) - 3) // 2)
        begin, end = name[:half], name[len(name) - half :]
        for one in self.known:
            if least <= len(one) <= most and (one.startswith(begin) or one.endswith(end)):
                yield one


def _gaps(name: str) -> list[str]:
    """A name, and all that is left of it when one character is taken out; digits stay, for no slip concerns them."""
    places = range(min(len(name), _SHOWN_CHARS))
    return [name, *[name[:at] + name[at + 1 :] for at in places if not name[at].isdigit()]]


def slip(name: str, known: str) -> bool:
    """True when two names differ by one slip of the fingers: a letter too many, missing, wrong, or two swapped.

    Plurals and other numbers are no slips.
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
