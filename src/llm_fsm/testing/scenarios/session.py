"""Running files of tests: in this process or in several, with the replies of the file, a recording or a live model."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Literal

from llm_fsm.definition.subflows import document_of
from llm_fsm.documents.files import FilePath
from llm_fsm.engine.machine import TIMEOUT
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM, let_go
from llm_fsm.llm.registry import resolve
from llm_fsm.testing.coverage.collect import KINDS, Coverage, coverage_of, ways
from llm_fsm.testing.scenarios.cassette import Cassette, place_of, read_cassette, write_cassette
from llm_fsm.testing.scenarios.checks import tasks_of, warnings
from llm_fsm.testing.scenarios.loader import Loaded, Play, read_suite
from llm_fsm.testing.scenarios.player import Host, Player
from llm_fsm.testing.scenarios.problems import Fault, SuiteError, in_order, plural
from llm_fsm.testing.scenarios.results import Result
from llm_fsm.testing.scenarios.scripted_model import Model, Plain, Scripted
from llm_fsm.testing.scenarios.tape import Match, Recorder, Replayed

_LEAST = 20
"""Cases that a process of its own is worth."""

Mode = Literal["scripted", "replay", "record", "live"]
Chooser = Callable[[Play], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Some cases of one file, and who answers in them.

    `names` None: all of them. `stop`: not further than the first that fails. `cover`: say what was touched. `mode`:
    scripted (a case without replies plays its recording, if there is one), replay, record or live; the last two ask
    `model` at `base_url`. `match`: how recordings are compared. `times`: how often a case is played live;
    `threshold`: what part of these must pass.
    """

    file: str
    names: tuple[str, ...] | None = None
    stop: bool = False
    cover: bool = False
    mode: Mode = "scripted"
    model: str | None = None
    base_url: str | None = None
    match: Match = "exact"
    times: int = 1
    threshold: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What the cases of a file touched of its definition. `file`: that of the definition, or of the tests."""

    file: str
    name: str
    sha256: str
    coverage: Coverage
    ways: Mapping[str, tuple[str, ...]]
    """What was missed, to the states of a shortest way there; for called definitions there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """How the cases of a file went, or what keeps it from being used."""

    file: str
    results: tuple[Result, ...] = ()
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    """What is worth knowing, and fails nothing."""
    covered: Covered | None = None
    interrupted: bool = False
    recorded: str = ""
    """How much was recorded, as a sentence."""

    @property
    def passed(self) -> bool:
        """True when nothing failed."""
        return not self.faults and all(result.passed for result in self.results)


def run_job(job: Job, host: Host | None = None) -> FileResult:
    """Read the file and play the cases of a job. Raises ConfigurationError where no model can be asked."""
    found: list[FileResult] = []

    async def play(loaded: Loaded) -> None:  # what it returned asyncio.run would write as text, all of it
        found.append(await _played(job, loaded, host))

    try:
        asyncio.run(play(read_suite(job.file)))
        return found[0]
    except SuiteError as error:
        return FileResult(file=job.file, faults=error.faults)


async def _played(job: Job, loaded: Loaded, host: Host | None) -> FileResult:
    """Play the cases of a job in order. Raises SuiteError for a cassette that cannot be used."""
    if job.mode in ("live", "record"):
        llm = resolve(job.model, base_url=job.base_url, environ=os.environ)
        try:
            if job.mode == "record":
                return await _recorded(job, loaded, llm, host)
            return await play_all(job, loaded, lambda _: Plain(llm), host)
        finally:
            await let_go(llm)
    return await play_all(job, loaded, _from_files(job, loaded), host)


def _from_files(job: Job, loaded: Loaded) -> Chooser:
    """The replies of the file, its recording, or the model that a case names."""
    path = place_of(loaded.file)
    cassette = (
        read_cassette(path, loaded.definition) if job.mode == "replay" or _lacks_replies(loaded) else None
    )
    if cassette is None and job.mode == "replay":
        said = "there is no recording of this file"
        raise SuiteError([Fault(message=said, hint="record one with --record", file=path)])
    own, named = Scripted(tasks_of(loaded.flows)), _models(loaded)
    tape = None if cassette is None else Replayed(cassette, _sha256(loaded), job.match)
    recorded = set() if cassette is None else {entry.case for entry in cassette.entries}

    def choose(play: Play) -> Model:
        name = play.setup["model"]
        plays_tape = not _scripted(play) and (name is None or play.name in recorded)
        if tape is not None and (job.mode == "replay" or plays_tape):
            return tape
        return own if name is None else named[name]

    return choose


def _models(loaded: Loaded) -> dict[str, Model]:
    """The models that the cases of a file name. Raises SuiteError for those that there are not."""
    found: dict[str, Model] = {}
    faults = []
    for play in loaded.plays:
        name = play.setup["model"]
        try:
            if name is not None and name not in found:
                found[name] = Plain(resolve(name, environ=os.environ))
        except ConfigurationError as error:
            inner = f"{play.pointer}/model" if "model" in play.case.model_fields_set else "/model"
            faults.append(loaded.text.fault(str(error), inner))
    if faults:
        raise SuiteError(in_order(faults))
    return found


def _scripted(play: Play) -> bool:
    """True when replies stand in the case."""
    steps = (*(() if play.case.start is None else (play.case.start,)), *play.case.steps)
    return any(step.script for step in steps)


def _lacks_replies(loaded: Loaded) -> bool:
    return not all(_scripted(play) for play in loaded.plays)


async def _recorded(job: Job, loaded: Loaded, llm: LLM, host: Host | None) -> FileResult:
    """Play live once, and write the cassette; also when it was interrupted."""
    path, definition, sha256 = place_of(loaded.file), loaded.definition, _sha256(loaded)
    empty = Cassette(definition=definition.name, sha256=sha256, file=path)
    try:
        old = read_cassette(path, definition) or empty
    except SuiteError:  # what cannot be replayed is replaced
        old = empty
    recorder = Recorder(llm, old, sha256)
    try:
        done = await play_all(replace(job, times=1), loaded, lambda _: recorder, host)
    finally:
        if recorder.whole:
            write_cassette(path, recorder.cassette())
    played = [result for result in done.results if result.skipped is None]
    kept = "" if len(recorder.whole) == len(played) else "; where the model failed, nothing was changed"
    told = f"recorded {len(recorder.whole)} of {plural(len(played), 'case')} in {path}{kept}"
    return replace(done, recorded=told if played else "")


def _sha256(loaded: Loaded) -> str:
    """The checksum of the definition with all that it calls."""
    return hashlib.sha256(document_of(loaded.flows).encode()).hexdigest()


async def play_all(job: Job, loaded: Loaded, choose: Chooser, host: Host | None) -> FileResult:
    """Play the cases of a job in order, as often as it says."""
    live = job.mode in ("live", "record")
    player = Player(loaded, choose, host, timeout=TIMEOUT if live else None)
    found: list[Result] = []
    interrupted = False
    try:
        for play in loaded.plays:
            await asyncio.sleep(0)  # where an interrupt is heard: scripted cases never wait
            if job.names is not None and play.name not in job.names:
                continue
            runs = [await player.play(play) for _ in range(job.times if live else 1)]
            result = runs[0] if len(runs) == 1 else counted(runs, job.threshold)
            found.append(result if job.cover else replace(result, turns=()))
            if job.stop and not result.passed:
                break
    except asyncio.CancelledError:  # what was played so far is worth a report
        interrupted = True
    finally:
        await player.close()
    covered = _covered(loaded, player, found) if job.cover else None
    results = tuple(replace(result, turns=()) for result in found)
    pointers = {result.pointer for result in results}
    noticed = warnings(loaded.text, ((play.pointer, play.case) for play in loaded.plays if play.pointer in pointers))
    return FileResult(
        file=loaded.file, results=results, warnings=noticed, covered=covered, interrupted=interrupted
    )


def _covered(loaded: Loaded, player: Player, results: Iterable[Result]) -> Covered:
    program = player.machine(handlers=False).program
    coverage = coverage_of(
        program, ((event for turn in result.turns for event in turn.events) for result in results)
    )
    definition = loaded.definition
    return Covered(
        file=loaded.definition_file or loaded.file,
        name=definition.name,
        sha256=definition.sha256,
        coverage=coverage,
        ways=ways(program, (name for kind in KINDS for name in coverage.missing(kind))),
    )


def play_suite(path: FilePath) -> tuple[Result, ...]:
    """Play a file of conversation tests with its own replies or recording: how each case went.

    Raises SuiteError with everything that is wrong with the file.
    """
    found = run_job(Job(file=os.fspath(path)))
    if found.faults:
        raise SuiteError(found.faults)
    return found.results


def player_of(loaded: Loaded) -> Player:
    """A player of the cases of a file with its own replies or recording. Raises SuiteError for a bad recording."""
    return Player(loaded, _from_files(Job(file=loaded.file), loaded))


def counted(runs: Sequence[Result], threshold: float) -> Result:
    """Several runs of one case as one result: the misses and words of the last that failed."""
    failed = [run for run in runs if run.failures]
    shown = failed[-1] if failed else runs[-1]
    return replace(
        shown,
        seconds=sum(run.seconds for run in runs),
        turns=tuple(turn for run in runs for turn in run.turns),
        runs=len(runs),
        passes=len(runs) - len(failed),
        threshold=threshold,
    )


def run_jobs(jobs: Sequence[Job], run: Callable[[Job], FileResult], processes: int) -> Iterator[FileResult]:
    """The results of jobs in order, in as many processes; with `stop`, none after the first that failed."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            found = run(job)
            yield found
            if found.interrupted or (job.stop and not found.passed):
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
                last,
                results=(*last.results, *found.results),
                faults=last.faults or found.faults,
                warnings=tuple(dict.fromkeys((*last.warnings, *found.warnings))),
                covered=together(last.covered, found.covered),
            )
            continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last


def together(one: Covered | None, other: Covered | None) -> Covered | None:
    """What both touched of one definition."""
    if one is None or other is None:
        return one or other
    coverage = one.coverage.plus(other.coverage)
    left = {name for kind in KINDS for name in coverage.missing(kind)}
    return replace(one, coverage=coverage, ways={name: way for name, way in one.ways.items() if name in left})
