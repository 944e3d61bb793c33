"""Count judged turns, and compare two ways of playing the same ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import comb

from llm_fsm._json import JsonDict
from llm_fsm.testing.evaluation.dialogue import Dialogue
from llm_fsm.testing.evaluation.judge import SPENT, JudgedTurn

_NORMAL_95 = 1.959964
"""The quantile of the normal distribution for an interval of 95 percent."""
_RESAMPLES = 2000
_SEED = 20_000
"""The same turns always give the same interval."""
_SUMS = ("right", "moved", "kept", "worded", "refused", "rejected", "calls", *SPENT)
"""Figures that are sums over the turns."""
_LISTS = ("invented", "lost", "harmful")
"""Figures that count what the turns list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A share, or a difference of shares, with the bounds between which it lies in 95 of 100
    measurements.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of judged turns. Tokens, seconds and dollars are sums over all turns.

    Attributes:
        turns: Judged turns.
        right: Turns with right state, new values and acts, nothing invented, lost or harmed.
        moved: Turns with the right state.
        kept: Turns with the right new values.
        worded: Turns with the right words.
        invented: Values that the model made up.
        lost: Values that were right before a turn and not after it.
        harmful: Acts that no label has, and values that nobody said.
        refused: Values and moves that the machine refused.
        rejected: Replies that could not be read.
        calls: Calls of the model.
        second_calls: Turns with more than one call.
        errors: Turns that ended with an error.
        tokens_before_words: The mean over turns.
    """

    turns: int = 0
    right: int = 0
    moved: int = 0
    kept: int = 0
    worded: int = 0
    invented: int = 0
    lost: int = 0
    harmful: int = 0
    refused: int = 0
    rejected: int = 0
    calls: int = 0
    second_calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    tokens_before_words: float = 0.0
    seconds: float = 0.0
    cost: float = 0.0

    @property
    def fresh_tokens(self) -> int:
        """Tokens of prompts that no cache served."""
        return self.input_tokens - self.cached_tokens

    @property
    def share(self) -> Interval:
        """The share of turns that are right."""
        return share(self.right, self.turns)

    def to_dict(self) -> JsonDict:
        """Return the figures as JSON data."""
        return {**asdict(self), "fresh_tokens": self.fresh_tokens, "share": asdict(self.share)}


def figures(turns: Iterable[JudgedTurn]) -> Figures:
    """Count judged turns."""
    counted = [turn for turn in turns if turn.judged]
    if not counted:
        return Figures()
    sums = {name: sum(getattr(turn, name) for turn in counted) for name in _SUMS}
    sums |= {name: sum(len(getattr(turn, name)) for turn in counted) for name in _LISTS}
    return Figures(
        turns=len(counted),
        second_calls=sum(turn.calls > 1 for turn in counted),
        errors=sum(bool(turn.error) for turn in counted),
        tokens_before_words=sum(turn.tokens_before_words for turn in counted) / len(counted),
        **sums,
    )


def passes(dialogues: Sequence[Dialogue], times: int) -> tuple[float, ...]:
    """Return pass^1, pass^2 and so on: the chance that a case is right in each of k runs.

    Args:
        dialogues: The dialogues; the runs of a case stand behind each other.
        times: The runs of each case.

    Returns:
        The shares up to pass^times, as τ-bench (arXiv 2406.12045) counts them; 0 without dialogues.
    """
    cases = len(dialogues) // times
    right = [0] * cases
    for number, dialogue in enumerate(dialogues):
        right[number // times] += dialogue.right
    every = range(1, times + 1)
    return tuple(sum(comb(one, k) for one in right) / max(1, comb(times, k) * cases) for k in every)


def share(passed: int, total: int) -> Interval:
    """Return a share with Wilson's interval (1927), which holds for few turns, and for none or all
    right.

    Example:
        >>> found = share(7, 8)
        >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
        (0.875, 0.53, 0.98)
    """
    if total == 0:
        return Interval(value=0.0, low=0.0, high=1.0)
    value = passed / total
    square = _NORMAL_95**2
    middle = value + square / (2 * total)
    spread = _NORMAL_95 * math.sqrt(value * (1 - value) / total + square / (4 * total**2))
    scale = 1 + square / total
    low = max(0.0, (middle - spread) / scale)
    high = min(1.0, (middle + spread) / scale)
    return Interval(value=value, low=low, high=high)


def difference(first: Sequence[Dialogue], second: Sequence[Dialogue]) -> Interval | None:
    """Return how much greater the share of right turns is in the second way than in the first.

    The same turns are compared. The interval is found by drawing them again at random (bootstrap).

    Returns:
        The difference; None if the two have no turn in common.
    """
    pairs = _pairs(first, second)
    if not pairs:
        return None
    gains = [int(theirs) - int(ours) for ours, theirs in pairs]
    value = sum(gains) / len(gains)
    drawn = random.Random(_SEED)
    means = sorted(sum(drawn.choices(gains, k=len(gains))) / len(gains) for _ in range(_RESAMPLES))
    edge = round(0.025 * _RESAMPLES)
    return Interval(value=value, low=means[edge], high=means[-edge - 1])


def _pairs(first: Sequence[Dialogue], second: Sequence[Dialogue]) -> list[tuple[bool, bool]]:
    """Pair the judged turns of two ways by case, run and place."""
    pairs = []
    for ours, theirs in zip(first, second, strict=False):
        if (ours.file, ours.name) != (theirs.file, theirs.name):
            continue
        for mine, other in zip(ours.turns, theirs.turns, strict=False):
            if mine.judged:
                pairs.append((mine.right, other.right))
    return pairs
