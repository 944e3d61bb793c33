"""`python tests/crash --store sqlite --kills 1000`: the long run; `postgresql` and `redis` start a
server of their own.

Exit code 1 when anything was lost, done twice or out of order.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "support"))

from harness import Killing
from llm_fsm.stores.registry import resolve
from probes import POINTS, SQLITE_POINTS, Probe, Probed, ProbedSQLite
from services import own_server


def opener(url: str) -> Any:
    """What opens the store of a URL in a worker."""

    def opens(probe: Probe) -> Any:
        if url.startswith("sqlite:///"):
            store = ProbedSQLite(url.removeprefix("sqlite:///"))
            store.probe = probe
            return Probed(store, probe)
        return Probed(resolve(url), probe)

    return opens


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--store", default="sqlite", help="sqlite, postgresql, redis, or the URL of an empty store"
    )
    parser.add_argument("--kills", type=int, default=1000, help="kills at random moments")
    parser.add_argument("--each", type=int, default=5, help="kills at every named point")
    parser.add_argument(
        "--latest", type=int, default=12, help="the pass of a point at which to kill at the latest"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = False
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = given.store
        if url == "sqlite":
            url = f"sqlite:///{place}/bots.db"
        elif url == "postgresql":
            url = stack.enter_context(own_server("postgresql")).url
        elif url == "redis":
            # with a short lease: whoever comes after a kill waits until it is over
            url = stack.enter_context(own_server("redis")).url + "?lease=1"
        # A worker on Redis lives long enough to outlast the lease of the one before, which still
        # holds its locks.
        longest = 2.5 if url.startswith("redis") else 0.25
        points = (*POINTS, *(SQLITE_POINTS if url.startswith("sqlite") else ()))
        killing = Killing(opener(url), place / "ledger", seed=given.seed)
        for what, report in (
            ("at named points", lambda: killing.at_points(points, given.each, given.latest)),
            ("at random", lambda: killing.at_random(given.kills, longest)),
        ):
            found = report()
            failed = failed or bool(found.faults)
            print(f"{url.partition(':')[0]}, {what}: {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
