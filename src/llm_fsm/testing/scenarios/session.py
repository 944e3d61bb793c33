"""Play the cases of one file, answered by its own replies, by a recording or by a live model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Literal, Self

from llm_fsm._json import JsonDict, JsonMap, only
from llm_fsm._text import sha256_of
from llm_fsm.definition.subflows import document_of
from llm_fsm.documents.files import FilePath
from llm_fsm.engine.host_files import HostTools
from llm_fsm.engine.settings import TIMEOUT
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.base import LLM, let_go
from llm_fsm.llm.registry import resolve
from llm_fsm.session.events import Event
from llm_fsm.session.turn_record import events_of
from llm_fsm.testing.coverage import Coverage, coverage_of, ways
from llm_fsm.testing.scenarios.authors import Author, model_fault
from llm_fsm.testing.scenarios.cassette import Cassette, place_of, read_cassette, write_cassette
from llm_fsm.testing.scenarios.checks import tasks_of
from llm_fsm.testing.scenarios.loader import LoadedCases, Play, read_suite
from llm_fsm.testing.scenarios.models import script
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.problems import FileFault, SuiteError, in_order, plural
from llm_fsm.testing.scenarios.recording import CassettePlayer, Match, Recorder
from llm_fsm.testing.scenarios.results import Result
from llm_fsm.testing.scenarios.scripted_model import Model, Scripted

Mode = Literal["scripted", "replay", "record", "live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOptions:
    """Choose the source of replies, and the measurements.

    Args:
        mode: `scripted` uses the replies of the file, or the recording of a case without replies.
            `replay` uses recordings only. `record` and `live` call the model.
        model: The live model, as `llm_fsm.llm.registry.resolve` takes it.
        base_url: The URL of an OpenAI-compatible server.
        timeout: Seconds for a turn with a live model; None: no limit.
        match: `exact` compares a recording by its prompts, `words` by state and message.
        times: The number of runs of each case with a live model.
        threshold: The share of these runs that must pass, from 0 to 1.
        cover: True measures coverage.
        author: The author of the file, who may not be trusted to name models; see `authors`.
        models: The names of models that a stranger may use all the same.
    """

    mode: Mode = "scripted"
    model: str | None = None
    base_url: str | None = None
    timeout: float | None = TIMEOUT
    match: Match = "exact"
    times: int = 1
    threshold: float = 1.0
    cover: bool = False
    author: Author = "operator"
    models: Collection[str] = ()

    @property
    def asks(self) -> bool:
        """True if a live model answers."""
        return self.mode in ("live", "record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The coverage of a definition by the cases of a file.

    Args:
        file: The file of the definition, or the file of tests that holds it.
        ways: For each element that was missed, the states of a shortest path there. Elements of
            called definitions have none.
    """

    file: str
    name: str
    sha256: str
    coverage: Coverage
    ways: Mapping[str, tuple[str, ...]]

    def plus(self, other: Self) -> Self:
        """Add what other cases touched of the same definition."""
        coverage = self.coverage.plus(other.coverage)
        left = set(coverage.untouched())
        return replace(self, coverage=coverage, ways=only(self.ways, left))

    def to_dict(self) -> JsonDict:
        """Return the JSON form, in which a worker process sends it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: JsonMap) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**{**document, "coverage": Coverage(**document["coverage"])})


class CaseSession:
    """Plays cases of one file, one after the other, in one event loop. Close it at the end.

    Raises:
        SuiteError: The recording of the file cannot be used, or a case names a model that does not
            exist.
        ConfigurationError: The live model cannot be used.
    """

    def __init__(
        self, loaded: LoadedCases, options: PlayOptions | None = None, host: HostTools | None = None
    ) -> None:
        self.loaded = loaded
        self.recorded = ""
        """The number of recorded replies, as a sentence; empty before `close`."""
        self._options = options or PlayOptions()
        self._live: LLM | None = None
        self._recorder: Recorder | None = None
        self._events: list[list[Event]] = []
        self._played = 0
        choose = self._live_model() if self._options.asks else _from_files(loaded, self._options)
        self._player = Player(
            loaded, choose, host, timeout=self._options.timeout if self._options.asks else None
        )

    def _live_model(self) -> Callable[[Play], Model]:
        llm = resolve(self._options.model, base_url=self._options.base_url, environ=os.environ)
        self._live = llm
        if self._options.mode == "live":
            return lambda _: Model(llm)
        self._recorder = recorder = Recorder(llm, _old_cassette(self.loaded), _sha256(self.loaded))
        return lambda _: recorder

    async def play(self, play: Play) -> Result:
        """Play a case, several times if the options say so."""
        times = 1
        if self._options.mode == "live":
            times = self._options.times
        runs = [await self._player.play(play) for _ in range(times)]
        self._played += runs[0].skipped is None
        if self._options.cover:
            for one in runs:
                self._events.append(list(events_of(one.turns)))
        if len(runs) == 1:
            return runs[0]
        return _counted(runs, self._options.threshold)

    def covered(self) -> Covered:
        """Return the coverage of the cases played so far."""
        program = self._player.machine.program
        definition = self.loaded.definition
        coverage = coverage_of(program, self._events)
        return Covered(
            file=self.loaded.definition_file or self.loaded.file,
            name=definition.name,
            sha256=definition.sha256,
            coverage=coverage,
            ways=ways(program, coverage.untouched()),
        )

    async def close(self) -> None:
        """Free the machines and the model, and write the recording.

        Raises:
            OSError: The recording cannot be written.
        """
        await self._player.close()
        if self._live is not None:
            await let_go(self._live)
        if self._recorder is not None:
            self._write(self._recorder)

    def _write(self, recorder: Recorder) -> None:
        path = place_of(self.loaded.file)
        whole = len(recorder.whole)
        if whole:
            write_cassette(path, recorder.cassette())
        if self._played:
            kept = "" if whole == self._played else "; where the model failed, nothing was changed"
            self.recorded = f"recorded {whole} of {plural(self._played, 'case')} in {path}{kept}"


def _from_files(loaded: LoadedCases, options: PlayOptions) -> Callable[[Play], Model]:
    """Choose the replies of the file, its recording, or the model that a case names."""
    path = place_of(loaded.file)
    replays = options.mode == "replay"
    lacks = not all(map(_is_scripted, loaded.plays))
    cassette = None
    if replays or lacks:
        cassette = read_cassette(path, loaded.definition)
    if cassette is None and replays:
        said = "there is no recording of this file"
        raise SuiteError([FileFault(message=said, hint="record one with --record", file=path)])
    own = Scripted(tasks_of(loaded.flows))
    named = _models(loaded, options)
    recording = None
    if cassette is not None:
        recording = CassettePlayer(cassette, _sha256(loaded), options.match)
    recorded = set() if cassette is None else {entry.case for entry in cassette.entries}

    def choose(play: Play) -> Model:
        name = play.setup["model"]
        plays_recording = not _is_scripted(play) and (name is None or play.name in recorded)
        if recording is not None and (replays or plays_recording):
            return recording
        return own if name is None else named[name]

    return choose


def _models(loaded: LoadedCases, options: PlayOptions) -> dict[str, Model]:
    """Make the models that the cases of a file name.

    Raises:
        SuiteError: A model does not exist, or the author may name none. In that case none is
            resolved.
    """
    found = {}
    refused = []
    for play, name in _naming(loaded):
        reason = model_fault(options.author, name, options.models)
        if reason is not None:
            refused.append(_model_fault(loaded, play, reason))
    if refused:
        raise SuiteError(in_order(refused))
    faults = []
    for play, name in _naming(loaded):
        try:
            if name not in found:
                found[name] = Model(resolve(name, environ=os.environ))
        except ConfigurationError as error:
            faults.append(_model_fault(loaded, play, str(error)))
    if faults:
        raise SuiteError(in_order(faults))
    return found


def _naming(loaded: LoadedCases) -> Sequence[tuple[Play, str]]:
    """Return the cases that name a model, each with the name."""
    return [(play, play.setup["model"]) for play in loaded.plays if play.setup["model"] is not None]


def _model_fault(loaded: LoadedCases, play: Play, reason: str) -> FileFault:
    """Return the fault of the model that a case, or the file for it, names."""
    inner = f"{play.pointer}/model" if "model" in play.case.model_fields_set else "/model"
    return loaded.text.fault(reason, inner)


def _is_scripted(play: Play) -> bool:
    steps = (*(() if play.case.start is None else (play.case.start,)), *play.case.steps)
    return any(script(step) for step in steps)


def _old_cassette(loaded: LoadedCases) -> Cassette:
    """Read the recording to which a new one is added. A recording that cannot be used is
    replaced.
    """
    path = place_of(loaded.file)
    empty = Cassette(definition=loaded.definition.name, sha256=_sha256(loaded), file=path)
    try:
        return read_cassette(path, loaded.definition) or empty
    except SuiteError:
        return empty


def _sha256(loaded: LoadedCases) -> str:
    """Return the checksum of the definition and all that it calls."""
    return sha256_of(document_of(loaded.flows))


def _counted(runs: Sequence[Result], threshold: float) -> Result:
    """Join several runs of one case. The failures and messages are those of the last run that
    failed.
    """
    failed = [run for run in runs if run.failures]
    shown = failed[-1] if failed else runs[-1]
    return replace(
        shown,
        seconds=sum(run.seconds for run in runs),
        turns=tuple(chain.from_iterable(run.turns for run in runs)),
        runs=len(runs),
        passes=len(runs) - len(failed),
        threshold=threshold,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """The results of a whole file. `covered` is None unless the options ask for it."""

    results: tuple[Result, ...]
    covered: Covered | None
    recorded: str

    @property
    def passed(self) -> bool:
        """True if no case failed."""
        return all(result.passed for result in self.results)


def play_file(
    path: FilePath, options: PlayOptions | None = None, *, names: Collection[str] | None = None
) -> FileResult:
    """Play the cases of a file, all of them or those with these names.

    Raises:
        SuiteError: The file cannot be used. The error says everything that is wrong.
        ConfigurationError: The live model cannot be used.
    """
    return play_loaded(read_suite(path), options, names=names)


def play_loaded(
    loaded: LoadedCases,
    options: PlayOptions | None = None,
    *,
    names: Collection[str] | None = None,
    host: HostTools | None = None,
) -> FileResult:
    """Play the cases of a file that is loaded. Raises the errors of `play_file`."""
    chosen = options or PlayOptions()
    session = CaseSession(loaded, chosen, host)

    async def played() -> FileResult:
        try:
            results = tuple(
                [
                    await session.play(play)
                    for play in loaded.plays
                    if names is None or play.name in names
                ]
            )
            covered = session.covered() if chosen.cover else None
        finally:
            await session.close()
        return FileResult(results=results, covered=covered, recorded=session.recorded)

    return asyncio.run(played())


def play_suite(path: FilePath) -> tuple[Result, ...]:
    """Play a file of conversation tests with its own replies or its recording.

    Args:
        path: The file.

    Returns:
        One result for each case, in the order of the file.

    Raises:
        SuiteError: The file cannot be used. The error says everything that is wrong.

    Example:
        >>> [result.name for result in play_suite("order.test.json") if not result.passed]  #
        doctest: +SKIP []
    """
    return play_file(path).results
