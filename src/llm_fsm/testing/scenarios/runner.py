"""One running case: its steps, and the differences from its expectations. A failed step does not
stop the later ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from llm_fsm.engine.conversation import AsyncConversation, Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import LLMFSMError
from llm_fsm.session.turn_record import events_of
from llm_fsm.testing.scenarios.assertions import Miss, Seen, misses
from llm_fsm.testing.scenarios.fixtures import Stage
from llm_fsm.testing.scenarios.loader import Play
from llm_fsm.testing.scenarios.models import CaseStep, Expect, script
from llm_fsm.testing.scenarios.redaction import secret_samples
from llm_fsm.testing.scenarios.results import StepReport
from llm_fsm.testing.scenarios.scripted_model import Model


class _At(NamedTuple):
    """A step: its name in reports, its place, the user's message, and its expectations."""

    name: str
    pointer: str
    heard: str | None
    expect: Expect | None


class CaseRunner:
    """One running case, with `model` and the host of `stage`."""

    def __init__(self, machine: AsyncMachine, play: Play, model: Model, stage: Stage) -> None:
        self.machine = machine
        self.play = play
        self.model = model
        self.stage = stage
        self.id = "test"
        self.missed: list[tuple[str, Miss]] = []
        self.said: list[StepReport] = []
        self.secrets: set[str] = set()
        every = (machine.program, *machine.program.flows.values())
        self.has_secrets = any(program.keys.secrets for program in every)
        self.turns: list[Turn] = []
        self.chat: AsyncConversation | None = None

    async def run(self) -> None:
        case = self.play.case
        await self.start()
        if self.chat is None and not await self.go_on_without_greeting():
            return
        for number, step in enumerate(case.steps, start=1):
            await self.take(number, step)
        if case.expect is not None:
            self.check("end", case.expect, self.whole(), f"{self.play.pointer}/expect")

    async def start(self) -> None:
        """Play the greeting, or a run until it first waits."""
        start = self.play.case.start
        setup = self.play.setup
        pointer = f"{self.play.pointer}/start"
        self.model.step(0, () if start is None else script(start))
        greet = setup["greet"] if setup["greet"] is not None else start is not None
        error = None
        turn = None
        try:
            turn = await self.began(greet=greet)
        except (LLMFSMError, ValueError, OverflowError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        expect = None if start is None else start.expect
        self.close(
            _At("start", pointer if start is not None else self.play.pointer, None, expect),
            turn,
            error,
        )

    async def go_on_without_greeting(self) -> bool:
        """Continue with the later steps after a failed greeting."""
        try:
            await self.began(greet=False)
        except (LLMFSMError, ValueError, OverflowError):
            return False
        return True

    async def began(self, *, greet: bool) -> Turn | None:
        setup = self.play.setup
        machine = self.machine
        context = setup["context"] or None
        talks = setup["input"] is None and not machine.program.alone
        if talks or setup["state"] is not None:
            self.chat = await machine.start(context, self.id, greet=greet, state=setup["state"])
            return (await self.chat.turns())[0]
        turn = await machine.run(setup["input"], context, self.id, setup["background"] or None)
        self.chat = await machine.resume(self.id)
        begun, *_ = await self.chat.turns()  # a run is two records: its start, and its work
        return replace(turn, events=(*begun.events, *turn.events))

    async def take(self, number: int, step: CaseStep) -> None:
        """Play one step, also after a failed one."""
        assert self.chat is not None
        self.model.step(number, script(step))
        turn = None
        error = None
        try:
            turn = await self.happen(self.chat, step)
        except (LLMFSMError, ValueError, OverflowError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        pointer = f"{self.play.pointer}/steps/{number - 1}"
        self.close(_At(f"step {number}", pointer, step.say, step.expect), turn, error)

    async def happen(self, chat: AsyncConversation, step: CaseStep) -> Turn | None:
        if step.kind == "say":
            return await chat.send(step.say or "")
        if step.kind == "answer":
            return await chat.answer(step.answer)
        if step.kind == "end":
            await chat.end()
            return None
        self.stage.now += step.wait or 0.0
        fired = await self.machine.run_due()
        await chat.refresh()
        return fired[-1] if fired else None

    def close(self, at: _At, turn: Turn | None, error: str | None) -> None:
        """Compare a step with its expectations."""
        chat = self.chat
        if turn is not None:
            self.turns.append(turn)
        if chat is not None:
            if self.has_secrets:
                self.secrets |= self.secret_values(chat, turn)
            self.said.append(
                StepReport(
                    heard=at.heard, text=turn.text if turn is not None else "", state=chat.state
                )
            )
        wrong = self.model.done(self.secrets)
        unanswered = error is not None and wrong is not None and wrong in error
        expected = at.expect is not None and at.expect.error is not None
        if wrong is not None and (error is None or unanswered):
            self.missed.append((at.name, Miss(at.pointer, wrong)))
        elif error is not None and not expected:
            self.missed.append((at.name, Miss(at.pointer, f"it failed: {error}")))
        self.missed += [(at.name, Miss(at.pointer, what)) for what in self.stage.misses]
        self.stage.misses.clear()
        if at.expect is not None and not unanswered:
            self.check(at.name, at.expect, self.seen(turn, error), f"{at.pointer}/expect")

    def secret_values(self, chat: AsyncConversation, turn: Turn | None) -> set[str]:
        """Return the values that no message may show."""
        found = secret_samples(
            self.machine.program, [chat.context], () if turn is None else turn.events
        )
        return {text for text in found if len(text) > 1}

    def check(self, name: str, expect: Expect, seen: Seen, pointer: str) -> None:
        self.missed += [(name, miss) for miss in misses(expect, seen, pointer)]

    def seen(self, turn: Turn | None, error: str | None) -> Seen:
        """Return a step in the form that expectations read."""
        chat = self.chat
        if chat is None:
            return Seen(error=error)
        return Seen(
            text="" if turn is None else turn.text,
            state=chat.state,
            context=chat.context,
            data=chat.data,
            ahead=lambda: chat.ahead,
            events=() if turn is None else turn.events,
            calls=0 if turn is None else turn.usage.calls,
            ended=chat.ended,
            outcome=turn.outcome if turn is not None else "",
            paused=chat.paused,
            output=None if turn is None else turn.output,
            error=error,
        )

    def whole(self) -> Seen:
        """Return the whole conversation in the form that expectations read."""
        return replace(
            self.seen(self.turns[-1] if self.turns else None, None),
            text="\n\n".join(turn.text for turn in self.turns if turn.text),
            events=list(events_of(self.turns)),
            calls=sum(turn.usage.calls for turn in self.turns),
        )
