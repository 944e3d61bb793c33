"""Calls and tokens that `x-fast` saves: `python -m benchmarks.certain`.

Two users book a visit, one with nothing but the answers, one who talks. Each conversation is held
twice: with `x-fast` on every key that can have it, and on none. The model understands everything,
and both must end alike. How many turns of other users need no model depends on how they write.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.prompts import sent
from benchmarks.tokens import counter
from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing import reply

_QUESTIONS = {
    "topic": "What is broken?\n1. heating\n2. water\n3. power",
    "postcode": "What is your postcode?",
    "day": "On which day may we come?",
    "email": "To which address shall we write?",
    "home": "Will somebody be at home?",
}
_KEYS: dict[str, dict[str, Any]] = {
    "topic": {
        "type": "string",
        "enum": ["heating", "water", "power"],
        "description": "What is broken",
    },
    "postcode": {"type": "string", "pattern": "^[0-9]{5}$", "description": "Postcode, five digits"},
    "day": {"type": "string", "format": "date", "description": "Day of the visit as YYYY-MM-DD"},
    "email": {"type": "string", "format": "email", "description": "E-mail address"},
    "home": {"type": "boolean", "description": "true if somebody will be at home, false if nobody"},
}


class Said(NamedTuple):
    """A message, what a model makes of it, and whether it needs none."""

    text: str
    target: str
    update: dict[str, Any]
    certain: bool


SHORT = (
    Said("2", "postcode", {"topic": "water"}, True),
    Said("24103", "day", {"postcode": "24103"}, False),
    Said("2030-05-07", "email", {"day": "2030-05-07"}, True),
    Said("ada@example.org", "home", {"email": "ada@example.org"}, True),
    Said("Yes", "done", {"home": True}, True),
)
TALKS = (
    Said("Hello, is this the repair service?", "topic", {}, False),
    Said("1", "postcode", {"topic": "heating"}, True),
    Said("I live in 24103 Kiel", "day", {"postcode": "24103"}, False),
    Said("Could it be the 7th of May 2030?", "email", {"day": "2030-05-07"}, False),
    Said("ada at example.org", "email", {}, False),
    Said("ada@example.org", "home", {"email": "ada@example.org"}, True),
    Said("How long will it take?", "home", {}, False),
    Said("yes", "done", {"home": True}, True),
)


def definition(*, fast: bool = True) -> dict[str, Any]:
    """The booking as a definition."""
    states: dict[str, Any] = {}
    for (name, question), following in zip(
        _QUESTIONS.items(), [*_QUESTIONS, "done"][1:], strict=True
    ):
        known = {"description": "It is known", "requires_context_keys": [name]}
        states[name] = {
            "purpose": question,
            "reply": question,
            "required_context_keys": [name],
            "transitions": [
                {"target_state": following, "description": "Answered", "conditions": [known]}
            ],
        }
    states["done"] = {"purpose": "Say thank you", "reply": "Thank you, we will come."}
    keys = copy.deepcopy(_KEYS)
    for key in ("topic", "day", "email", "home") if fast else ():
        keys[key]["x-fast"] = True
    return {
        "name": "visit",
        "initial_state": "topic",
        "context_schema": {"type": "object", "properties": keys},
        "states": states,
    }


class Held(NamedTuple):
    """A conversation that was held: its turns, those of them without a model, calls and the tokens
    of their prompts.
    """

    turns: int
    alone: int
    calls: int
    tokens: int
    context: dict[str, Any]
    state: str


async def held(said: Sequence[Said], *, fast: bool) -> Held:
    """Hold a conversation by a model that understands everything."""
    asked = [each for each in said if not (fast and each.certain)]
    model = ScriptedLLM([_reply(each) for each in asked])
    calls = []
    async with AsyncMachine.from_dict(
        definition(fast=fast), model=model, store="memory"
    ) as machine:
        chat = await machine.start()
        for each in said:
            turn = await chat.send(each.text)
            calls.append(turn.usage.calls)
    count = counter()
    tokens = sum(count(sent(request)) for request in model.requests)
    return Held(len(said), calls.count(0), sum(calls), tokens, dict(turn.context), turn.state)


def _reply(said: Said) -> dict[str, Any]:
    return reply(said.target, "" if said.update else "Yes, gladly.", **said.update)


async def cpu(*, fast: bool, rounds: int = 200) -> float:
    """CPU milliseconds of a turn of the short answers, the least of ten blocks of `rounds`
    conversations.
    """
    found = []
    replies = [_reply(each) for each in SHORT if not (fast and each.certain)]
    for _ in range(10):
        model = ScriptedLLM(replies, loop=True)
        async with AsyncMachine.from_dict(
            definition(fast=fast), model=model, store="memory"
        ) as machine:
            spent = 0.0
            for _ in range(rounds):
                chat = await machine.start()
                started = time.process_time()
                for each in SHORT:
                    await chat.send(each.text)
                spent += time.process_time() - started
        found.append(spent / rounds / len(SHORT) * 1000)
    return min(found)


def main() -> None:
    """Print the figures."""
    for label, said in (("nothing but answers", SHORT), ("one who talks", TALKS)):
        fast, slow = (asyncio.run(held(said, fast=on)) for on in (True, False))
        print(
            f"{label}: {fast.alone} of {fast.turns} turns without a model, {fast.calls} calls for {slow.calls}, "
            f"{fast.tokens:,} tokens for {slow.tokens:,}"
        )
    print(
        f"CPU of a turn of the short answers {asyncio.run(cpu(fast=True)):.3f} ms, with a model in each "
        f"{asyncio.run(cpu(fast=False)):.3f} ms"
    )


if __name__ == "__main__":
    main()
