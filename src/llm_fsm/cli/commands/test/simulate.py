"""`llm-fsm test --simulate`: users whom a model plays, as a table of rates."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from llm_fsm.cli.terminal import escape as printing
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import let_go
from llm_fsm.llm.offline.model import OfflineLLM
from llm_fsm.llm.registry import resolve
from llm_fsm.testing.scenarios.loader import read_suite
from llm_fsm.testing.scenarios.player import Host
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.simulation import Rate, simulate

_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who talks to whom, how often, and with whose tools. `human` plays the users and judges; None: the same model."""

    files: Sequence[str]
    fits: Callable[[str], bool]
    bot: str | None
    human: str | None
    base_url: str | None
    times: int
    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRates:
    """The users of one file, or what keeps it from being used."""

    file: str
    rates: tuple[Rate, ...] = ()
    faults: tuple[str, ...] = ()


def played(wish: Wish) -> list[FileRates]:
    """Let every user talk. Raises ConfigurationError where a model cannot be asked."""
    return [found for file in wish.files if (found := asyncio.run(_file(wish, file))).rates or found.faults]


async def _file(wish: Wish, file: str) -> FileRates:
    try:
        loaded = read_suite(file)
    except SuiteError as error:
        return FileRates(file=file, faults=tuple(str(fault) for fault in error.faults))
    users = [user for user in loaded.users if wish.fits(f"{file}::{user.name}")]
    if not users:
        return FileRates(file=file)
    bot = resolve(wish.bot, base_url=wish.base_url, environ=os.environ)
    human = bot if wish.human is None else resolve(wish.human, base_url=wish.base_url, environ=os.environ)
    if isinstance(human, OfflineLLM):
        raise ConfigurationError("the model `offline` plays no users: name another one with --user-model or --model")
    try:
        return FileRates(file=file, rates=await simulate(loaded, bot, human, wish.times, users=users, host=wish.host))
    finally:
        for llm in {id(item): item for item in (bot, human)}.values():
            await let_go(llm)


def table(found: Iterable[FileRates]) -> str:
    """A line a user, and below it why the goal was not reached."""
    return "\n".join(line for one in found for line in _lines(one))


def _lines(found: FileRates) -> Iterator[str]:
    yield printing.one_line(found.file)
    yield from (f"  {printing.one_line(fault)}" for fault in found.faults)
    if found.rates:
        yield f"  {'user':24} {'reached':>9} {'rate':>6} {'turns':>6}"
    for rate in found.rates:
        count = f"{rate.reached} of {len(rate.encounters)}"
        yield f"  {printing.shortened(rate.user, 24):24} {count:>9} {rate.share:>6.0%} {rate.turns:>6.1f}"
        for one in rate.encounters:
            if not one.reached:
                place = f"in {one.state}, " if one.state else ""
                reason = printing.shortened(one.reason, _SHOWN)
                yield f"    not reached: {place}after {printing.plural(one.turns, 'turn')}: {reason}"


def document(found: Iterable[FileRates]) -> dict[str, Any]:
    """Everything, as one object."""
    return {
        "files": [
            {
                "file": one.file,
                "errors": list(one.faults),
                "users": [
                    {
                        "user": rate.user,
                        "runs": len(rate.encounters),
                        "reached": rate.reached,
                        "rate": round(rate.share, 4),
                        "turns": round(rate.turns, 2),
                        "encounters": [asdict(met) for met in rate.encounters],
                    }
                    for rate in one.rates
                ],
            }
            for one in found
        ]
    }
