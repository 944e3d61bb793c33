"""Intervals for shares, and for the difference of two shares.

The interval of a share is Wilson's (1927). That of a difference is Newcombe's hybrid score interval
(1998, Statistics in Medicine 17, 873-890, method 10). Both are good with few conversations, and
with shares near 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

Z = 3.0
"""Standard deviations on each side.

A guard looks again and again, and each look is a chance for a false alarm. Of one look, 3 lets pass
1 in 700, and of looks at 16 times as many conversations together about 1 in 50.
"""


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """A value, and the lowest and highest one that the counts allow."""

    value: float
    low: float
    high: float


def share(hits: int, of: int) -> ShareInterval:
    """Return the share of `hits` in `of` conversations, with its interval."""
    if of == 0:
        return ShareInterval(0.0, 0.0, 1.0)
    value, spread = hits / of, Z * Z / of
    middle = (value + spread / 2) / (1 + spread)
    half = sqrt(spread * value * (1 - value) + spread * spread / 4) / (1 + spread)
    return ShareInterval(value, max(0.0, middle - half), min(1.0, middle + half))


def difference(one: ShareInterval, other: ShareInterval) -> ShareInterval:
    """Return the difference of two shares, with its interval."""
    value = one.value - other.value
    below = hypot(one.value - one.low, other.high - other.value)
    above = hypot(one.high - one.value, other.value - other.low)
    return ShareInterval(value, value - below, value + above)
