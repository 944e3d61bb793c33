"""Running files of tests: in this process or in several, one after the other, with any model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from llm_fsm.cases.faults import Fault, SuiteError
from llm_fsm.cases.player import Host, Player
from llm_fsm.cases.reading import Loaded, Play, read_suite
from llm_fsm.cases.replies import Model, Plain, Scripted
from llm_fsm.cases.results import Result
from llm_fsm.llm.resolve import resolve

_LEAST = 20
"""Cases that a process of its own is worth."""

Chooser = Callable[[Play], Model]
Chooses = Callable[[Loaded], Chooser]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Some cases of one file. `names` None: all of them. `stop`: not further than the first that fails."""

    file: str
    names: tuple[str, ...] | None = None
    stop: bool = False
    keep_turns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """How the cases of a file went, or what keeps it from being used."""

    file: str
    results: tuple[Result, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def passed(self) -> bool:
        """True when nothing failed."""
        return not self.faults and all(result.passed for result in self.results)


def scripted(loaded: Loaded) -> Chooser:
    """The replies of the file, or the model that a case names."""
    own = Scripted(loaded.definition)

    def choose(play: Play) -> Model:
        name = play.setup["model"]
        return own if name is None else Plain(resolve(name, environ=os.environ))

    return choose


async def play_all(
    job: Job, loaded: Loaded, choose: Chooser, host: Host | None = None, *, clock: bool = True
) -> tuple[Result, ...]:
    """Play the cases of a job in order."""
    player = Player(loaded, choose, host, clock=clock)
    found: list[Result] = []
    try:
        for play in loaded.plays:
            if job.names is not None and play.name not in job.names:
                continue
            result = await player.play(play)
            found.append(result if job.keep_turns else replace(result, turns=()))
            if job.stop and not result.passed:
                break
    finally:
        await player.close()
    return tuple(found)


def run_job(job: Job, host: Host | None = None) -> FileResult:
    """Read the file and play the cases of a job with the replies of the file."""
    try:
        loaded = read_suite(job.file)
    except SuiteError as error:
        return FileResult(file=job.file, faults=error.faults)
    return FileResult(file=job.file, results=asyncio.run(play_all(job, loaded, scripted(loaded), host)))


def run_jobs(jobs: Sequence[Job], run: Callable[[Job], FileResult], processes: int) -> Iterator[FileResult]:
    """The results of jobs in order, in as many processes; with `stop`, none after the first that failed."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            found = run(job)
            yield found
            if job.stop and not found.passed:
                return
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("spawn")) as pool:
        waiting: list[Future[FileResult]] = [pool.submit(run, job) for job in jobs]
        for job, future in zip(jobs, waiting, strict=True):
            found = future.result()
            yield found
            if job.stop and not found.passed:
                pool.shutdown(wait=False, cancel_futures=True)
                return


def split(job: Job, names: Sequence[str], parts: int) -> list[Job]:
    """A job as several for as many processes, each of a worthwhile number of cases."""
    count = max(1, min(parts, len(names) // _LEAST))
    size = -(-len(names) // count)
    return [replace(job, names=tuple(names[start : start + size])) for start in range(0, len(names), size)]


def joined(results: Iterator[FileResult]) -> Iterator[FileResult]:
    """Neighbours of one file as one."""
    last: FileResult | None = None
    for found in results:
        if last is not None and last.file == found.file:
            last = replace(
                last, results=(*last.results, *found.results), faults=(*last.faults, *found.faults)
            )
            continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last
