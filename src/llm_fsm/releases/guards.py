"""Guards: limits that the figures of a candidate must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llm_fsm._json import JsonDict
from llm_fsm.releases.figures import ArmFigures
from llm_fsm.releases.file import COUNT, OUTCOME, SHARES, Release, ReleaseGuard
from llm_fsm.releases.intervals import ShareInterval, difference, share

_BAD_ENDS = frozenset(
    {"cancelled", "expired", "exhausted", "given_up", "handover", "limited", "silent", "stuck"}
)
"""Outcomes of which more is worse. Of every other one, less is worse."""


class Compared(NamedTuple):
    """One figure of both arms. `worse`: how much worse the candidate is."""

    figure: str
    stable: ShareInterval
    candidate: ShareInterval
    worse: ShareInterval

    def to_dict(self) -> JsonDict:
        """Return it as JSON data."""
        parts = {"stable": self.stable, "candidate": self.candidate, "worse_by": self.worse}
        rounded = {
            name: {key: round(value, 4) for key, value in part._asdict().items()}
            for name, part in parts.items()
        }
        return {"figure": self.figure, **rounded}


def compared(figure: str, figures: Mapping[str, ArmFigures]) -> Compared:
    """Compare a share of both arms."""
    stable, candidate = (
        share(arm.hits[figure], arm.settled) for arm in (figures["stable"], figures["candidate"])
    )
    more_is_worse = figure in SHARES or figure.removeprefix(OUTCOME) in _BAD_ENDS
    pair = (candidate, stable) if more_is_worse else (stable, candidate)
    return Compared(figure, stable, candidate, difference(*pair))


def every_share(release: Release, figures: Mapping[str, ArmFigures]) -> Sequence[Compared]:
    """Compare every share that a conversation or a guard has."""
    names = {*SHARES, *(guard.figure for guard in release.guards)} - {COUNT}
    names.update(*(arm.hits for arm in figures.values()))
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
    if guard.figure == COUNT:
        is_broken = arm.conversations >= guard.after and arm.errors > (guard.above or 0)
        said = f"errors: {arm.errors} in {arm.conversations} conversations, above {guard.above:g}"
        return said if is_broken else ""
    if arm.settled < guard.after:
        return ""
    found = compared(guard.figure, figures)
    head = f"{guard.figure}: {found.candidate.value:.3f} of {arm.settled} conversations"
    if guard.worse_by is None:
        is_broken = found.candidate.value > (guard.above or 0)
        return f"{head}, above {guard.above:g}" if is_broken else ""
    is_broken = found.worse.low > 0 and found.worse.value >= guard.worse_by
    stable = figures["stable"]
    beside = f"{found.stable.value:.3f} of {stable.settled} on stable"
    return f"{head}, and {beside}: worse by {guard.worse_by:g} or more" if is_broken else ""
