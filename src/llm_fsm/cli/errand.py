"""One run from the command line: begun or gone on with, answered, parked, and how it goes on."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import pick as choice
from llm_fsm.cli import run_report as report
from llm_fsm.cli.options import unknown
from llm_fsm.cli.terminal import escape as printing
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import (
    ConversationConflict,
    ConversationNotFound,
    DefinitionError,
    LLMFSMError,
    ModelError,
    StoreError,
)
from llm_fsm.session.messages import Paused

NOTHING = object()
"""No answer was given; null is one."""

_FORGETS = "memory"
"""The store that is gone with the command: nothing can be gone on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for. `answer`: NOTHING where none is given."""

    file: str
    input: Any
    model: str | None
    base_url: str | None
    db: str | None
    context: Mapping[str, Any] | None
    background: Mapping[str, Any] | None
    id: str | None
    resume: str | None
    answer: Any
    tools: tuple[str, ...]
    mcp: str | None
    summaries: bool
    json: bool
    verbose: bool


@dataclass(slots=True, kw_only=True)
class Errand:
    """One run from the command line. `answering`: what is being answered now."""

    wanted: Wanted
    path: Path
    runner: asyncio.Runner
    machine: AsyncMachine
    view: report.View
    id: str
    answering: Any = NOTHING

    def play(self) -> int:
        """Play it as far as it goes, with the answers of whoever sits there; gives the exit code."""
        try:
            turn = self._begun()
            while turn.paused is not None:
                try:
                    value = self.view.ask(turn.paused)
                except EOFError:
                    break
                turn = self._answered(turn.paused, value) or turn
        except (KeyboardInterrupt, LLMFSMError) as error:
            return self._broken(error)
        self.view.ended(turn)
        if self.wanted.db == _FORGETS:
            return report.CODES[turn.outcome]
        if turn.paused is not None:
            printing.note(f"to go on: {self.again()} --answer JSON")
        elif not turn.outcome:
            printing.note(f"it waits for a user: {self.again('chat')}")
        return report.CODES[turn.outcome]

    def _begun(self) -> Turn:
        wanted, machine = self.wanted, self.machine
        if wanted.resume is None:
            if self.runner.run(machine.store.load(self.id)) is not None:
                again = f"--resume {shlex.quote(self.id)}"
                raise exits.Failure(f"there is a conversation {self.id!r} already; {again} goes on with it")
            return self._watched(machine.run(wanted.input, wanted.context, self.id, wanted.background))
        self._known()
        if wanted.answer is NOTHING:
            return self._watched(machine.run(conversation_id=self.id))
        with suppress(LLMFSMError):  # what fails stays due, and is said when it is its turn
            self.runner.run(machine.run_due())
        self.answering = wanted.answer
        turn = self._watched(machine.answer(self.id, wanted.answer))
        self.answering = NOTHING
        return turn

    def _known(self) -> None:
        """Raise Failure where the conversation to go on with is none, or waits for a user."""
        try:
            found = self.runner.run(self.machine.resume(self.id))
        except ConversationNotFound as error:
            raise unknown(self.id) from error
        talks = found.kind == "converse"
        if talks and not found.ended and found.paused is None:
            raise exits.Failure(f"{self.id!r} waits for a user: {self.again('chat')}")

    def _answered(self, pause: Paused, value: Any) -> Turn | None:
        """The turn that an answer led to; None, and said why, where it was not taken."""
        self.answering = value
        try:
            turn = self._watched(self.machine.answer(self.id, value, pause=pause.id))
        except exits.Failure as error:
            printing.error(error.format_message())
            return None
        except ConversationConflict as error:
            printing.error(str(error))
            turn = self._watched(self.machine.run(conversation_id=self.id))
        self.answering = NOTHING
        return turn

    def _watched(self, work: Coroutine[Any, Any, Turn]) -> Turn:
        try:
            return self.view.during(lambda: self.runner.run(work))
        except DefinitionError as error:
            raise choice.placed(error, self.path) from error
        except ValueError as error:
            raise exits.Failure(str(error)) from error

    def _broken(self, error: BaseException) -> int:
        """Say what stopped it, and how to go on where something is on record."""
        code = exits.end(error, verbose=self.wanted.verbose)
        if self.wanted.db == _FORGETS or not isinstance(error, KeyboardInterrupt | ModelError | StoreError):
            return code
        with suppress(LLMFSMError, KeyboardInterrupt):
            if self.runner.run(self.machine.store.load(self.id)) is not None:
                again = self.again()
                if self.answering is not NOTHING:
                    again += f" --answer {shlex.quote(printing.as_json(self.answering, None))}"
                self.view.parked(self.id, again)
                printing.note(f"the run is parked; to go on: {again}")
        return code

    def again(self, command: str = "run") -> str:
        """The command that goes on with this run. An address with a password is left out."""
        wanted = self.wanted
        base_url = None if wanted.base_url and "@" in wanted.base_url else wanted.base_url
        options = [("--db", wanted.db), ("--model", wanted.model), ("--base-url", base_url)]
        options += [*(("--tools", name) for name in wanted.tools), ("--mcp", wanted.mcp)]
        parts = [printing.program(), command, wanted.file, "--resume", self.id]
        if command == "run" and not wanted.summaries:
            parts.append("--no-summaries")
        parts += [word for name, value in options if value is not None for word in (name, value)]
        return printing.one_line(shlex.join(parts))
