"""Queues of many shards as events, without threads: `python -m benchmarks.simulation`.

Conversations are spread over databases, the shards, by their ids. A turn waits for its model, which
has no queue here, and then for its shard, which commits one turn after the other. The command
checks the arithmetic of `docs/scale.md`: the wait of a turn at a shard (Pollaczek and Khinchine),
the turns that wait while a shard is away, and the seconds until a shard that came back has worked
them off.
"""

from __future__ import annotations

import heapq
import random
import sys
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of shards.

    `turns`: turns a second of all shards. `commits`: turns a second that one shard can commit.
    `model`: mean seconds of a model, exponentially distributed. `fails`: shard 0 is away from this
        second on, for `away` seconds.
    """

    turns: float
    shards: int
    commits: float
    model: float = 1.0
    fails: float = 0.0
    away: float = 0.0

    @property
    def each(self) -> float:
        """Turns a second of one shard."""
        return self.turns / self.shards

    @property
    def load(self) -> float:
        """Share of its commits that a shard uses."""
        return self.each / self.commits

    @property
    def wait(self) -> float:
        """Mean seconds that a turn waits for its shard, by arithmetic: M/D/1."""
        return self.load / (2 * self.commits * (1 - self.load))

    @property
    def backlog(self) -> float:
        """Turns that wait when the shard that was away comes back."""
        return self.each * self.away

    @property
    def recovery(self) -> float:
        """Seconds from then until none of them waits."""
        return self.backlog / (self.commits - self.each)


@dataclass(slots=True)
class Shard:
    """A database: the moment until which it has work, and what was seen."""

    free: float = 0.0
    waits: list[float] = field(default_factory=list)
    late: int = 0
    """Turns that came while it was away."""
    recovered: float = 0.0
    """Moment at which a turn first found no queue after it came back."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The figures of a simulation: as in `Plan`, and the mean wait at the shards that did not fail."""

    turns: int
    wait: float
    backlog: int
    recovery: float
    committed: int


def simulate(plan: Plan, seconds: float, seed: int = 1) -> Simulated:
    """Play the turns of some seconds, event by event."""
    chance = random.Random(seed)
    shards = [Shard() for _ in range(plan.shards)]
    back = plan.fails + plan.away
    events: list[tuple[float, int]] = [(chance.expovariate(plan.turns), -1)]
    begun = committed = 0
    while events:
        now, place = heapq.heappop(events)
        if place < 0:  # a message arrives: its model answers later, and the next message comes
            begun += 1
            shard = chance.randrange(plan.shards)
            heapq.heappush(events, (now + chance.expovariate(1 / plan.model), shard))
            after = now + chance.expovariate(plan.turns)
            if after < seconds:
                heapq.heappush(events, (after, -1))
            continue
        _commit(plan, shards[place], now, back if place == 0 else 0.0)
        committed += 1
    well = shards[1:] if plan.away else shards
    waits = fmean([fmean(shard.waits) for shard in well if shard.waits])
    failed = shards[0]
    recovery = max(0.0, failed.recovered - back) if plan.away else 0.0
    return Simulated(begun, waits, failed.late, recovery, committed)


def _commit(plan: Plan, shard: Shard, now: float, back: float) -> None:
    """Let a turn whose model has answered wait for its shard, and commit it."""
    is_away = plan.fails <= now < back
    begins = max(now, shard.free, back if is_away else 0.0)
    shard.waits.append(begins - now)
    shard.late += is_away
    if now >= back > 0 and shard.recovered == 0.0 and begins == now:
        shard.recovered = now
    shard.free = begins + 1 / plan.commits


PLANS = {
    "a shard at half of its load": (Plan(turns=8_000, shards=8, commits=2_000), 20.0),
    "a shard at 80 % of its load": (Plan(turns=12_800, shards=8, commits=2_000), 20.0),
    "a shard away for 10 s, half load": (
        Plan(turns=8_000, shards=8, commits=2_000, fails=5.0, away=10.0),
        30.0,
    ),
}


def lines() -> list[str]:
    """Return the table: each figure by arithmetic and as simulated."""
    table = []
    for name, (plan, seconds) in PLANS.items():
        found = simulate(plan, seconds)
        table.append(
            f"{name:34}  wait {plan.wait * 1e3:5.2f} / {found.wait * 1e3:5.2f} ms  "
            f"backlog {plan.backlog:7,.0f} / {found.backlog:7,}  "
            f"recovery {plan.recovery:5.1f} / {found.recovery:5.1f} s  "
            f"lost {found.turns - found.committed}"
        )
    return table


def main() -> int:
    print("each figure: by arithmetic / simulated")
    print(*lines(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
