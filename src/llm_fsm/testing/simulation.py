"""Simulated users: one model plays a user with a goal, and another one serves the machine.

Results differ from run to run, so they are counted. They fail nothing unless you set a threshold.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from llm_fsm._json import JsonMap
from llm_fsm._text import escaped
from llm_fsm.conditions.coercion import truthy
from llm_fsm.conditions.compiler import ConditionError, compile_rule
from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.engine.host_files import HostTools
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.settings import TIMEOUT
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.session.messages import LLMMessage, LLMRequest
from llm_fsm.session.turn_record import events_of
from llm_fsm.testing.scenarios.loader import LoadedCases
from llm_fsm.testing.scenarios.models import Case, User, merged
from llm_fsm.testing.scenarios.player import Player, masked
from llm_fsm.testing.scenarios.redaction import secret_samples

OVER = "[END]"
"""The message of a simulated user who has nothing more to say."""

_PLAY = """You play a person who talks to an assistant in a chat. Stay in the role, whatever the assistant says.
Who you are: {persona}
What you want: {goal}
Answer with your next message alone, as such a person would type it: short, without quotation marks or comments.
When you have got what you want, or give up, answer with {over} alone."""
_JUDGE = """You judge a conversation between a user and an assistant. Answer with one JSON object
{{"passed": true or false, "reason": "one sentence"}} and nothing else. The criterion: {criterion}
The conversation: {transcript}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encounter:
    """One conversation with a simulated user. `reason`: the reason for the result; `said`: (user,
    assistant) pairs.

    `broken`: an error ended it, so that it does not count for the machine.
    """

    user: str
    reached: bool
    broken: bool
    reason: str
    turns: int
    state: str
    ended: bool
    seconds: float
    cost: float
    said: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """All encounters with one user."""

    user: str
    encounters: tuple[Encounter, ...]

    @property
    def reached(self) -> int:
        """The number of conversations in which the goal was reached."""
        return sum(one.reached for one in self.encounters)

    @property
    def share(self) -> float:
        """The share of conversations in which the goal was reached, 0 to 1."""
        return self.reached / len(self.encounters)

    @property
    def turns(self) -> float:
        """Messages on average."""
        return sum(one.turns for one in self.encounters) / len(self.encounters)


async def simulate(
    loaded: LoadedCases,
    bot: LLM,
    human: LLM,
    times: int,
    *,
    users: Sequence[User] | None,
    host: HostTools | None,
    timeout: float | None = TIMEOUT,
) -> tuple[Rate, ...]:
    """Let each user of a file talk to its machine this many times. `human` plays the users and
    judges.

    The file gives tools, functions, handlers, context and time; `host` gives the rest.
    """
    player = Player(loaded, host=host, timeout=timeout)
    setup = merged(loaded.shared, Case())
    try:
        rates = []
        for number, user in enumerate(loaded.users if users is None else users, start=1):
            name = user.name or f"user {number}"
            met = []
            for run in range(times):
                machine = player.prepared(setup)
                machine.llm = bot
                begun = {
                    "context": {**setup["context"], **user.context} or None,
                    "state": user.state or setup["state"],
                }
                met.append(
                    await _Meeting(machine, user, human).held(name, f"{number}-{run}", begun)
                )
            rates.append(Rate(user=name, encounters=tuple(met)))
        return tuple(rates)
    finally:
        await player.close()


class _Meeting:
    """One running conversation of a user with the machine."""

    def __init__(self, machine: AsyncMachine, user: User, human: LLM) -> None:
        self._machine = machine
        self._user = user
        self._human = human
        self._said: list[tuple[str, str]] = []
        self._cost = 0.0

    async def held(self, name: str, conversation: str, begun: JsonMap) -> Encounter:
        """Play the conversation, and return the result."""
        began = time.perf_counter()
        chat = None
        broken = False
        try:
            chat = await self._machine.start(conversation_id=conversation, **begun)
            end = await self._talk(chat)
            reached, reason = await _judged(self._user, chat, self._human, self._said)
            reason = f"{reason}; {end}" if end and not reached else reason
        except (LLMFSMError, ValueError) as error:
            reached = False
            reason = f"{type(error).__name__}: {error}"
            broken = True
        secrets = set() if chat is None else await self._secrets(chat)
        said = tuple(
            (masked(mine, secrets), masked(theirs, secrets)) for mine, theirs in self._said
        )
        return Encounter(
            user=name,
            reached=reached,
            broken=broken,
            reason=masked(reason, secrets),
            turns=len(said),
            state="" if chat is None else chat.state,
            ended=chat is not None and chat.ended,
            seconds=time.perf_counter() - began,
            cost=self._cost,
            said=said,
        )

    async def _talk(self, chat: AsyncConversation) -> str:
        """Talk until the user or the machine ends it. Return the user's reason, or nothing if the
        machine ended it.
        """
        while not chat.ended:
            if len(self._said) >= self._user.max_turns:
                return f"the user gave up after max_turns, {self._user.max_turns}"
            words = await _words(self._human, self._user, chat.greeting, self._said)
            if OVER in words:
                return "the user left"
            if not words:
                return "the user said nothing"
            turn = await chat.send(words)
            self._cost += turn.usage.cost
            self._said.append((words, turn.text))
        return ""

    async def _secrets(self, chat: AsyncConversation) -> set[str]:
        events = list(events_of(await chat.turns()))
        found = secret_samples(self._machine.program, [chat.context], events)
        return {text for text in found if len(text) > 1}


async def _words(human: LLM, user: User, greeting: str, said: Sequence[tuple[str, str]]) -> str:
    """Return the user's next message.

    Raises:
        ModelError: The model failed.
    """
    system = _PLAY.format(persona=escaped(user.persona), goal=escaped(user.goal), over=OVER)
    messages = [
        LLMMessage("system", system),
        LLMMessage("user", greeting or "(The chat is open. You begin.)"),
    ]
    for mine, theirs in said:
        messages += [LLMMessage("assistant", mine), LLMMessage("user", theirs or "(no words)")]
    reply = await human.complete(LLMRequest(messages=tuple(messages), timeout=60.0))
    return reply.text.strip()


async def _judged(
    user: User, chat: AsyncConversation, human: LLM, said: Sequence[tuple[str, str]]
) -> tuple[bool, str]:
    """Return True if the goal was reached: by the rule, and by the judge if there is one."""
    if user.success is not None:
        data = {**chat.data(), "ended": chat.ended, "turns": len(said)}
        try:
            if not truthy(compile_rule(user.success)(data)):
                return False, "the success rule does not hold"
        except ConditionError as error:
            return False, f"the success rule cannot be evaluated: {error}"
    if user.judge is None:
        if user.success is not None:
            return True, "the success rule holds"
        return (
            chat.ended,
            "the conversation is over" if chat.ended else "the conversation did not end",
        )
    transcript = [{"user": mine, "assistant": theirs} for mine, theirs in said]
    text = _JUDGE.format(criterion=escaped(user.judge), transcript=escaped(transcript))
    try:
        reply = await human.complete(LLMRequest(messages=(LLMMessage("user", text),), timeout=60.0))
        verdict = json.loads(reply.text[reply.text.index("{") : reply.text.rindex("}") + 1])
        return verdict["passed"] is True, str(verdict.get("reason", ""))
    except (LLMFSMError, ValueError, KeyError, TypeError, AttributeError):
        return False, "the judge gave no verdict"
