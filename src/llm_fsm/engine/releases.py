"""A release at work on one machine: it chooses the definition of each new conversation, and its
guards look.

The file decides, and is read again when it or one of its definitions changes. Without a file the
store decides, and is asked by each new conversation. A release that is at fault changes nothing: what is wrong
is logged, and the last good one counts.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from llm_fsm._json import JsonDict, plain, without_none
from llm_fsm._text import sha256_of, suggestion, visible
from llm_fsm.definition import json_source as source
from llm_fsm.definition.models import Definition
from llm_fsm.documents.files import FilePath, beside, read, write
from llm_fsm.documents.loader import load
from llm_fsm.documents.patch import set_value
from llm_fsm.documents.watched_file import WatchedFile
from llm_fsm.engine.advice import LOGGER, advise
from llm_fsm.engine.observers import publish
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.engine.outbox.sinks import Sink
from llm_fsm.errors import ConfigurationError, ConversationConflict, LLMFSMError, told
from llm_fsm.releases.arms import arm_of
from llm_fsm.releases.figures import ArmFigures, Tally
from llm_fsm.releases.file import Release, release_of
from llm_fsm.releases.guards import broken, every_share
from llm_fsm.session.events import ReleaseStopped
from llm_fsm.stores.base import RESERVED, Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.migration import check_change, read_change
from llm_fsm.turn.pipeline import Opening

EVERY = 10.0
"""Seconds between two looks of the guards."""

_NO_ROW = ("{}",)

Compile = Callable[[Definition, str], CompiledMachine]
"""Compiles a definition of the file at a path."""


class LiveRelease:
    """A release, with both definitions compiled: the file at `path`, else the row of the store for
    the definition `own`. `candidate` is None if there is none, or none that can be used, as `fault`
    says. `store` has the conversations; `now` gives the time in seconds since the epoch.

    Raises:
        ConfigurationError: The file is no release, or cannot be read.
        DefinitionError: The stable definition cannot be used.
    """

    def __init__(
        self,
        path: FilePath,
        own: CompiledMachine,
        compile: Compile,
        store: Store,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = os.fspath(path)
        self.store = store
        self.stable = own
        self.candidate: CompiledMachine | None = None
        self.fault: LLMFSMError | None = None
        # Each change in the store is a step of this journal. Without a step 0 it is in no listing,
        # nobody takes it up, and no step is written twice.
        self._row = f"{RESERVED}release/{sha256_of(own.definition.name)}"
        self._texts: Sequence[str] = _NO_ROW
        self._compile = compile
        self._now = now
        self._looked = -math.inf
        self._untold: list[tuple[Sink, Delivery]] = []
        self._files = [WatchedFile(self.path)]
        _is_new(self._files[0])
        self._tally = Tally()
        # Until the store has a release, nobody begins on a candidate.
        self.release = Release.model_construct(release=own.definition.name, stable="")
        if not self.is_stored:
            self._read()

    @property
    def is_stored(self) -> bool:
        """True if the store decides, because there is no file."""
        return not os.path.exists(self.path)

    @property
    def place(self) -> str:
        """The name of the release in messages."""
        stored = f"the release {self.release.release!r} in the store"
        return stored if self.is_stored else self.path

    @property
    def version(self) -> int:
        """A number that each change in the store makes greater; a file has none."""
        return len(self._texts)

    @property
    def _text(self) -> str:
        return self._texts[-1] if self.is_stored else read(self.path)

    def _read(self) -> None:
        release = release_of(self._text, self.place)
        names = [release.stable, *filter(None, [release.candidate])]
        self._files = [WatchedFile(self.path), *(WatchedFile(self._beside(name)) for name in names)]
        for file in self._files:
            _is_new(file)
        self.stable = self._compiled(release.stable)
        self.candidate, self.fault = None, None
        try:
            self.candidate = self.candidate_of(release)
        except LLMFSMError as error:
            self.fault = error
        self.release = release
        self._tally = Tally()

    async def refresh(self) -> None:
        """Read the release again if it or one of its definitions has changed."""
        before = self._texts
        if self.is_stored:
            self._texts = (*_NO_ROW, *await self.store.journalled(self._row))
        if self._texts == before and not any(_is_new(file) for file in self._files):
            return
        try:
            self._read()
        except LLMFSMError as error:
            self._tell("the release stays as it was", error)
        else:
            self.refuse(self.fault)

    def refuse(self, fault: LLMFSMError | None) -> None:
        """Log why no conversation begins on the candidate, if there is a reason."""
        if fault is not None:
            self._tell("no conversation begins on the candidate", fault)

    def _tell(self, said: str, error: Exception) -> None:
        advise(self.release.release, f"{said}: {told(error)}")

    def _beside(self, name: str) -> str:
        return beside(self.path, name)

    def _compiled(self, name: str) -> CompiledMachine:
        place = self._beside(name)
        return self._compile(load(place), place)

    def candidate_of(self, release: Release) -> CompiledMachine | None:
        """Compile the candidate of a release; None if it has none.

        Raises:
            DefinitionError: A definition cannot be used.
            ConfigurationError: The two definitions are no pair, or the release names what they do
                not have.
        """
        if release.candidate is None:
            return None
        stable, candidate = self._compiled(release.stable), self._compiled(release.candidate)
        names = stable.definition.name, candidate.definition.name
        if names[0] != names[1]:
            raise ConfigurationError(
                f"{self.place}: {release.stable} has the name {names[0]!r} and {release.candidate} "
                f"has {names[1]!r}: give both one name, by which conversations find their machine"
            )
        root, _, key = (release.by or "").partition(".")
        known = stable.definition.key_schemas
        if root == "context" and key.partition(".")[0] not in known:
            raise ConfigurationError(
                f"{self.place}: by: {release.stable} has no key {key!r}; {suggestion(key, known)}"
            )
        check_change(read_change(release.map), candidate)
        check_change(read_change(release.back_map()), stable)
        return candidate

    async def change(self, **changes: Any) -> None:
        """Change members of the release; None removes one. All else stays as it is written.

        Raises:
            ConfigurationError: It would be no release.
            ConversationConflict: The row of the store has changed since it was read.
            DefinitionError: A definition cannot be used that conversations would begin on.
            OSError: The file cannot be written.
        """
        text = self._text
        written = {**source.parse(text), **changes}
        text = set_value(text, "", without_none(written))
        release = release_of(text, self.place)
        if release.runs:
            self.candidate_of(release)
        self._compiled(release.stable)
        if self.is_stored:
            await self._append(text)
        else:
            write(self.path, text.encode())
        self._read()

    async def _append(self, text: str) -> None:
        before = self._texts
        try:
            await self.store.journal(self._row, len(before), text)
        except ConversationConflict as error:
            raise ConversationConflict(
                f"{self.place} has changed: read it and try again"
            ) from error
        self._texts = (*before, text)

    # -- conversations

    def begun(self, opening: Opening) -> tuple[CompiledMachine, Opening] | None:
        """Choose the arm of a new conversation.

        Returns:
            Its definition, and the opening with the labels by which it is found; None if it takes
            no part.
        """
        if self.candidate is None:
            return None
        arm = arm_of(self.release, opening.conversation_id, opening.metadata, opening.context)
        if arm is None:
            return None
        labels = {"release": self.release.release, "arm": arm}
        release = {**labels, "salt": self.release.salt}
        metadata = {**opening.metadata, **labels}
        program = self.stable if arm == "stable" else self.candidate
        return program, replace(opening, release=release, metadata=metadata)

    # -- figures

    async def figures(self) -> Mapping[str, ArmFigures]:
        """Count the conversations of both arms."""
        programs = {"stable": self.stable, "candidate": self.candidate}
        shas = {arm: program.identity for arm, program in programs.items() if program is not None}
        return await self._tally.count(self.store, self.release, shas, self._now())

    async def status(self) -> JsonDict:
        """Return the release as it is now, with its figures, as JSON data."""
        await self.refresh()
        figures = await self.figures()
        return {
            **self.release.model_dump(exclude_none=True, mode="json"),
            "source": "store" if self.is_stored else "file",
            "version": self.version,
            "arms": {name: asdict(arm) for name, arm in figures.items()},
            "figures": [asdict(one) for one in every_share(figures)],
        }

    @property
    def is_due(self) -> bool:
        """True if it is time to look at the guards, or a sink is still to be told."""
        return self._now() - self._looked >= EVERY or bool(self._untold)

    async def watch(self, sinks: Sequence[Sink]) -> None:
        """Look at the guards, if it is time. A broken one sets the share to 0 and tells the sinks.

        A sink that fails is told again by the next call.
        """
        if self.is_due:
            self._looked = self._now()
            await self.refresh()
            reason = broken(self.release, await self.figures()) if self.release.runs else ""
            if reason:
                await self._stop(reason, sinks)
        while self._untold:
            sink, delivery = self._untold[-1]
            await sink.take(delivery)
            self._untold.pop()

    async def _stop(self, reason: str, sinks: Sequence[Sink]) -> None:
        name = self.release.release
        # First here, so that a file or store that cannot be written stops nobody from stopping.
        self.release = self.release.model_copy(update={"share": 0.0, "stopped": reason})
        event = ReleaseStopped(release=name, reason=reason)
        delivery = Delivery(
            key=f"release/{name}/{self.release.salt}",
            conversation_id="",
            record=0,
            index=0,
            definition=self.stable.definition.name,
            kind="release",
            state="",
            event=plain(event),
        )
        wanting = [sink for sink in sinks if sink.wants(event, "")]
        self._untold += [(sink, delivery) for sink in wanting]
        publish(name, event)
        logging.getLogger(LOGGER).error(
            "the release %s is stopped: %s", visible(name), visible(reason)
        )
        try:
            await self.change(share=0, stopped=reason)
        except (OSError, LLMFSMError) as error:
            self._tell(f"{self.place} still has its share", error)


def _is_new(file: WatchedFile) -> bool:
    try:
        return file.news() is not None
    except OSError:  # it has gone, or has come to be unreadable
        return True
