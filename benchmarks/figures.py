"""A figure beside its bar, and the table that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in milliseconds; `bar` is the most that is allowed, where there is one."""

    name: str
    milliseconds: float
    bar: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the figure keeps within its bar."""
        if self.bar is None:
            return ""
        return "pass" if self.milliseconds <= self.bar else "OVER"


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often each thing is measured.

    Attributes:
        starts: Starts of each program.
        rounds: Rounds of turns; the middle or the best of them counts.
        talks: Conversations of a round.
        at_once: Conversations at the same time.
        streams: Streams whose first byte is timed.
    """

    starts: int = 15
    rounds: int = 5
    talks: int = 40
    at_once: int = 256
    streams: int = 20


WHOLE = Repeats()
QUICK = Repeats(starts=3, rounds=1)
ONCE = Repeats(starts=1, rounds=1, talks=1, at_once=2, streams=1)
"""To see that everything measures. Its figures mean nothing."""


def table(figures: Sequence[Figure]) -> str:
    """One line a figure."""
    width = max(len(figure.name) for figure in figures)
    lines = [f"{'':{width}}  {'ms':>9}  {'at most':>8}", "-" * (width + 28)]
    for figure in figures:
        bar = "" if figure.bar is None else f"{figure.bar:g}"
        lines.append(
            f"{figure.name:{width}}  {figure.milliseconds:9.3f}  {bar:>8}  {figure.verdict}".rstrip()
        )
    return "\n".join(lines)
