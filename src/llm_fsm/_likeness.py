"""Which of several names a word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_LONGEST_WORD = 200
_CUTOFF = 0.6


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None when none is close.

    Letter case does not count, except between candidates that are otherwise equally close; of those
    that are still equal the first one wins. Words over 200 characters have no near neighbour.
    """
    if len(word) > _LONGEST_WORD:
        return None
    folded = word.casefold()
    loose = SequenceMatcher(b=folded, autojunk=False)
    exact = SequenceMatcher(b=word, autojunk=False)
    best: str | None = None
    best_score = (_CUTOFF, 0.0)
    for candidate in candidates:
        bare = candidate.casefold()
        length = len(bare) + len(folded)
        if length and 2.0 * min(len(bare), len(folded)) / length < best_score[0]:
            continue  # at most so much of them can be alike
        loose.set_seq1(bare)
        if loose.quick_ratio() < best_score[0]:
            continue
        exact.set_seq1(candidate)
        score = (loose.ratio(), exact.ratio())
        if score > best_score:
            best, best_score = candidate, score
    return best
