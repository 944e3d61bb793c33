"""Simulated users: a model plays somebody who wants something, and another one serves the machine.

What comes of it differs from run to run, so it is counted, and no gate unless somebody makes one of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from llm_fsm.cases.player import Player
from llm_fsm.cases.reading import Loaded
from llm_fsm.cases.suite import User
from llm_fsm.coercion import truthy
from llm_fsm.conditions import ConditionError, compile_rule
from llm_fsm.conversation import AsyncConversation
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.machine import AsyncMachine
from llm_fsm.messages import LLMMessage, LLMRequest

OVER = "[END]"
"""What a simulated user says who has nothing more to say."""

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
    """One conversation with a simulated user. `reason`: why it counts as it does; `said`: (user, assistant) pairs."""

    user: str
    reached: bool
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
        """In how many the goal was reached."""
        return sum(one.reached for one in self.encounters)

    @property
    def share(self) -> float:
        """In what part of them, 0 to 1."""
        return self.reached / len(self.encounters)

    @property
    def turns(self) -> float:
        """Messages on average."""
        return sum(one.turns for one in self.encounters) / len(self.encounters)


async def simulate(
    loaded: Loaded, bot: LLM, human: LLM, times: int, users: Sequence[User] | None = None
) -> tuple[Rate, ...]:
    """Let each user of a file talk to its machine so many times. `human` plays the users and judges."""
    player = Player(loaded, timeout=None)
    machine = player.machine(handlers=False)
    machine.llm = bot
    try:
        rates = []
        for number, user in enumerate(loaded.users if users is None else users, start=1):
            name = user.name or f"user {number}"
            met = [await _meet(machine, user, human, name, f"{number}-{run}") for run in range(times)]
            rates.append(Rate(user=name, encounters=tuple(met)))
        return tuple(rates)
    finally:
        await player.close()


async def _meet(machine: AsyncMachine, user: User, human: LLM, name: str, conversation: str) -> Encounter:
    began, said = time.perf_counter(), list[tuple[str, str]]()
    cost = 0.0
    trouble = ""
    chat: AsyncConversation | None = None
    try:
        chat = await machine.start(user.context or None, conversation, state=user.state)
        while not chat.ended and len(said) < user.max_turns:
            words = await _words(human, user, chat.greeting, said)
            if OVER in words or not words:
                break
            turn = await chat.send(words)
            cost += turn.usage.cost
            said.append((words, turn.text))
    except (LLMFSMError, ValueError) as error:
        trouble = f"{type(error).__name__}: {error}"
    reached, reason = (False, trouble) if trouble or chat is None else await _judged(user, chat, human, said)
    return Encounter(
        user=name,
        reached=reached,
        reason=reason,
        turns=len(said),
        state="" if chat is None else chat.state,
        ended=chat is not None and chat.ended,
        seconds=time.perf_counter() - began,
        cost=cost,
        said=tuple(said),
    )


async def _words(human: LLM, user: User, greeting: str, said: Sequence[tuple[str, str]]) -> str:
    """The user's next message. Raises ModelError."""
    system = _PLAY.format(persona=_quoted(user.persona), goal=_quoted(user.goal), over=OVER)
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
    """Whether the goal was reached: by the rule, and by the judge where there is one."""
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
        return chat.ended, "the conversation is over" if chat.ended else "the conversation did not end"
    transcript = [{"user": mine, "assistant": theirs} for mine, theirs in said]
    text = _JUDGE.format(criterion=_quoted(user.judge), transcript=_quoted(transcript))
    try:
        reply = await human.complete(LLMRequest(messages=(LLMMessage("user", text),), timeout=60.0))
        verdict = json.loads(reply.text[reply.text.index("{") : reply.text.rindex("}") + 1])
        return verdict["passed"] is True, str(verdict.get("reason", ""))
    except (LLMFSMError, ValueError, KeyError, TypeError, AttributeError):
        return False, "the judge gave no verdict"


def _quoted(value: object) -> str:
    """A value as JSON in which nothing can be taken for a tag."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
