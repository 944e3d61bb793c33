"""Count judged turns, and compare two ways of playing the same ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from llm_fsm._json import JsonDict
from llm_fsm.testing.evaluation.dialogue import Dialogue
from llm_fsm.testing.evaluation.judge import JudgedTurn

_NORMAL_95 = 1.959964
"""The quantile of the normal distribution for an interval of 95 percent."""
_RESAMPLES = 2000
_SEED = 20_000
"""The same turns always give the same interval."""


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
        right: Turns with right state and new values, nothing invented and nothing harmed.
        moved: Turns with the right state.
        kept: Turns with the right new values.
        worded: Turns with the right words.
        invented: Values that the model made up.
        harmed: Values that were right before a turn and not after it.
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
    harmed: int = 0
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
    return Figures(
        turns=len(counted),
        right=sum(turn.right for turn in counted),
        moved=sum(turn.moved for turn in counted),
        kept=sum(turn.kept for turn in counted),
        worded=sum(turn.worded for turn in counted),
        invented=sum(len(turn.invented) for turn in counted),
        harmed=sum(len(turn.harmed) for turn in counted),
        refused=sum(turn.refused for turn in counted),
        rejected=sum(turn.rejected for turn in counted),
        calls=sum(turn.calls for turn in counted),
        second_calls=sum(turn.calls > 1 for turn in counted),
        errors=sum(bool(turn.error) for turn in counted),
        input_tokens=sum(turn.input_tokens for turn in counted),
        cached_tokens=sum(turn.cached_tokens for turn in counted),
        output_tokens=sum(turn.output_tokens for turn in counted),
        tokens_before_words=sum(turn.tokens_before_words for turn in counted) / len(counted),
        seconds=sum(turn.seconds for turn in counted),
        cost=sum(turn.cost for turn in counted),
    )


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
    pairs: list[tuple[bool, bool]] = []
    for ours, theirs in zip(first, second, strict=False):
        if (ours.file, ours.name) != (theirs.file, theirs.name):
            continue
        for mine, other in zip(ours.turns, theirs.turns, strict=False):
            if mine.judged:
                pairs.append((mine.right, other.right))
    return pairs
