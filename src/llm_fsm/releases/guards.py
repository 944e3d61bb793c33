"""Guards: limits that the figures of a candidate must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_fsm.releases.arms import ARMS
from llm_fsm.releases.figures import ArmFigures
from llm_fsm.releases.file import COUNT, OUTCOME, SHARES, Release, ReleaseGuard
from llm_fsm.releases.intervals import ShareInterval, difference, share

_BAD_ENDS = frozenset(
    {"cancelled", "expired", "exhausted", "given_up", "handover", "limited", "silent", "stuck"}
)
"""Outcomes of which more is worse. Of every other one, less is worse."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One share of both arms. `worse_by`: how much worse the candidate is."""

    figure: str
    stable: ShareInterval
    candidate: ShareInterval
    worse_by: ShareInterval


def compared(figure: str, figures: Mapping[str, ArmFigures]) -> Compared:
    """Compare a share of both arms."""
    stable, candidate = (
        share(figures[arm].hits.get(figure, 0), figures[arm].settled) for arm in ARMS
    )
    more_is_worse = figure in SHARES or figure.removeprefix(OUTCOME) in _BAD_ENDS
    pair = (candidate, stable) if more_is_worse else (stable, candidate)
    return Compared(figure, stable, candidate, difference(*pair))


def every_share(figures: Mapping[str, ArmFigures]) -> Sequence[Compared]:
    """Compare every share that a conversation has."""
    names = {*SHARES, *figures["stable"].hits, *figures["candidate"].hits}
    return [compared(name, figures) for name in sorted(names)]


def broken(release: Release, figures: Mapping[str, ArmFigures]) -> str:
    """Say which guard is broken.

    A guard with `worse_by` is broken if the candidate is worse by at least that much, and the whole
    interval of the difference says that it is worse.

    Returns:
        A sentence; "" if no guard is broken.
    """
    return next(filter(None, (_fault(guard, figures) for guard in release.guards)), "")


def _fault(guard: ReleaseGuard, figures: Mapping[str, ArmFigures]) -> str:
    arm = figures["candidate"]
    counts = guard.figure == COUNT
    seen = arm.conversations if counts else arm.settled
    if seen < guard.after:
        return ""
    if guard.worse_by is not None:
        worse = compared(guard.figure, figures).worse_by
        if worse.low <= 0 or worse.value < guard.worse_by:
            return ""
        return f"{guard.figure} is worse by {worse.value:.3f}, after {seen} conversations"
    value = arm.errors if counts else arm.hits.get(guard.figure, 0) / seen
    if value <= (guard.above or 0):
        return ""
    return f"{guard.figure} is {value:.3g}, after {seen} conversations"
