"""Models of cases that record, and that play recordings back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from msgspec import structs

from llm_fsm._json import TextMap
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM, form_of
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm, TakenForm
from llm_fsm.testing.scenarios.cassette import (
    Cassette,
    CassetteEntry,
    Prompt,
    digest,
    prompt_of,
    restored,
    without,
)
from llm_fsm.testing.scenarios.loader import Play
from llm_fsm.testing.scenarios.models import CaseReply
from llm_fsm.testing.scenarios.scripted_model import Model

Match = Literal["exact", "words"]
_KEYS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_KEY = 8


def said_in(play: Play) -> list[str]:
    """Return the user's message of each step; empty for the start, at 0, and for steps of other
    kinds.
    """
    return ["", *(step.say or "" for step in play.case.steps)]


def keys_of(environ: TextMap) -> set[str]:
    """Return the values of environment variables that are keys."""
    return {
        value
        for name, value in environ.items()
        if name.upper().endswith(_KEYS) and len(value) >= _SHORTEST_KEY
    }


class _OfCase(Model):
    """Knows the case and the step that are played."""

    _play: Play
    _step = 0

    def begin(self, play: Play) -> None:
        """A case begins."""
        self._play = play

    def step(self, number: int, _replies: Sequence[CaseReply]) -> None:
        """A step begins."""
        self._step = number

    def said(self) -> str:
        """Return the sum of the user's message of the step."""
        return digest(said_in(self._play)[self._step])


class Recorder(_OfCase):
    """Asks a live model, and records its replies. `whole`: the cases that were recorded from
    beginning to end.

    `sha256`: of the definition. If the model failed in a case or the case was interrupted, its old
    recording stays.
    """

    reads_view = True

    def __init__(self, llm: LLM, old: Cassette, sha256: str) -> None:
        super().__init__(self)
        self.whole: set[str] = set()
        self._sha256 = sha256
        self._broken = False
        self._llm = llm
        self._old = old
        self._taken: dict[str, list[CassetteEntry]] = {}

    def begin(self, play: Play) -> None:
        """A case begins."""
        super().begin(play)
        self._broken = False
        self._taken[play.name] = []

    def done(self, secrets: Collection[str]) -> str | None:
        """Remove secrets from the recording."""
        hidden = {*secrets, *keys_of(os.environ)}
        said = said_in(self._play)
        kept = self._taken[self._play.name]
        kept[:] = [without(hidden, said, entry) for entry in kept]
        if self._step == len(self._play.case.steps) and not self._broken:
            self.whole.add(self._play.name)
        return None

    def reply_form(self, model: str | None) -> TakenForm:
        """Return the form of the model's replies."""
        return form_of(self._llm, model)

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Ask the model and record its reply.

        Raises:
            ModelError: The model failed.
        """
        asked = request
        if not getattr(self._llm, "reads_view", False):
            asked = structs.replace(request, view=None)
        try:
            reply = await self._llm.complete(asked)
        except BaseException:  # an interrupted call also leaves the old recording of its case
            self._broken = True
            raise
        entry = CassetteEntry(
            case=self._play.name,
            step=self._step,
            state=request.state,
            said=self.said(),
            prompt=prompt_of(request),
            reply=reply,
            form="object" if request.schema is None else request.schema.form,
        )
        self._taken[self._play.name].append(entry)
        return reply

    def cassette(self) -> Cassette:
        """Return the recording, together with the old recordings of other cases."""
        before = ""
        if self._old.sha256 != self._sha256:
            before = self._old.sha256
        old = [
            structs.replace(entry, sha256=entry.sha256 or before)
            for entry in self._old.entries
            if entry.case not in self.whole
        ]
        new = []
        for name, kept in self._taken.items():
            if name in self.whole:
                new += kept
        return replace(self._old, sha256=self._sha256, entries=(*old, *new))


class CassettePlayer(_OfCase):
    """Plays a cassette back, by the prompt, or by state and message, which survives changes of
    prompts.
    """

    def __init__(self, cassette: Cassette, sha256: str, match: Match) -> None:
        super().__init__(self)
        self._cassette = cassette
        self._sha256 = sha256
        self._match = match
        self._entries: list[CassetteEntry] = []
        self._fault: str | None = None

    def begin(self, play: Play) -> None:
        """A case begins."""
        super().begin(play)
        self._entries = self._cassette.of(play.name)

    def step(self, number: int, replies: Sequence[CaseReply]) -> None:
        """A step begins."""
        super().step(number, replies)
        self._fault = None

    def done(self, _secrets: Collection[str]) -> str | None:
        """Return the reason why the recording does not fit, or the part of it that was not used."""
        left = [entry for entry in self._entries if entry.step <= self._step]
        self._entries = [entry for entry in self._entries if entry.step > self._step]
        if self._fault is not None:
            return self._fault
        if left:
            count = (
                "a recorded reply was" if len(left) == 1 else f"{len(left)} recorded replies were"
            )
            return f"{count} never asked for{self._since()}"
        return None

    def reply_form(self, _model: str | None) -> ReplyForm:
        """Return the recorded form."""
        if any(entry.form == "list" for entry in self._entries):
            return "list"
        return "object"

    async def complete(self, request: LLMRequest) -> ModelReply:
        """Return the recorded reply.

        Raises:
            ModelError: The recording does not fit.
        """
        here = [entry for entry in self._entries if entry.step == self._step]
        fault = self._unfit(request, here)
        if fault is not None:
            self._fault = f"{fault}; record again with --record"
            raise ModelError(self._fault)
        self._entries.remove(here[0])
        return restored(here[0].reply, said_in(self._play))

    def _unfit(self, request: LLMRequest, here: Sequence[CassetteEntry]) -> str | None:
        if not here:
            if not self._cassette.of(self._play.name):
                return f"{self._cassette.file} has no recording of this case"
            asked = f"the model is asked in state {request.state!r}"
            return f"{asked}, and the recording has no further reply for this step{self._since()}"
        entry = here[0]
        if entry.said != self.said():
            return "the user's message is another one than when it was recorded"
        if entry.state != request.state:
            was = f"the reply was recorded in state {entry.state!r}"
            return f"{was}, and now the turn is in {request.state!r}{self._since()}"
        changed = list(_changed(entry.prompt, prompt_of(request)))
        if self._match == "exact" and changed:
            parts = ", ".join(changed)
            told = f"the prompt differs from the recorded one in {parts}{self._since()}"
            return f"{told}: --match words would let it pass"
        return None

    def _since(self) -> str:
        own = next((entry.sha256 for entry in self._cassette.of(self._play.name)), "")
        old = (own or self._cassette.sha256)[:8]
        new = self._sha256[:8]
        if old == new:
            return ""
        return f" (the definition has changed since: {old}, now {new})"


def _changed(old: Prompt, new: Prompt) -> Iterator[str]:
    """Yield the sections of a prompt that differ."""
    for role in dict.fromkeys((*old, *new)):
        before = old.get(role, {})
        now = new.get(role, {})
        for name in dict.fromkeys((*before, *now)):
            if before.get(name) != now.get(name):
                yield f"<{name}>" if name else f"the {role} message"
