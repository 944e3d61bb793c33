"""Words out of a structured reply: `python -m benchmarks.words [CUTS]`.

Replies of all kinds and wraps are cut into pieces at random, by default 100,000 times: after every
piece the words so far must be the beginning of the reply's message, and at the end all of it; of a
message that begins like a reply, in a code fence or not, none may be given, as it may be one. Then
the time from the moment at which the model gives the first character of its message to the moment
at which a stream gives it out.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator

from benchmarks.figures import Figure, table
from benchmarks.form import definition
from llm_fsm import AsyncMachine
from llm_fsm.session.events import MessageDelta
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.turn.reply.parser import parse
from llm_fsm.turn.reply.stream import ReplyReader

CUTS = 100_000
_LETTERS = [*'ab \n\t"\\{}[]:,`<>/é日😀\ud83d\ude00', "message", "transition", '"}', "```", "  "]
_REPLY = re.compile(r"(?:```[A-Za-z]*\s*)?\{")
_WRAPS = ("%s", " \n%s\n", "```json\n%s\n```", "Here:\n```\n%s```", '<think>{"a": 1}</think>\n%s')


def _text(chance: random.Random, most: int) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(chance.randint(0, most)))


def _reply(chance: random.Random) -> str:
    update = {"x": _text(chance, 8), "y": chance.choice([1, None, [1, "]"], {"a": "}"}])}
    document = {
        "transition": {"target_state": "a", "context_update": update},
        "message": _text(chance, 30),
    }
    if chance.random() < 0.3:
        document = {"reasoning": _text(chance, 10), **document}
    if chance.random() < 0.3:
        document["after"] = _text(chance, 10)
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
    return chance.choice(_WRAPS).replace("%s", text)


def wrong(cuts: int, seed: int = 1) -> int:
    """How many of so many random cuts gave other words than the reply's, at any moment."""
    chance = random.Random(seed)
    found = 0
    for _ in range(cuts):
        text = _reply(chance)
        message, reader, at = parse(text).message, ReplyReader(), 0
        sound, words = True, ""
        while at < len(text):
            size = chance.choice((1, 2, 3, 7, 20))
            words += reader.feed(text[at : at + size])
            sound = sound and message.startswith(words)
            at += size
        found += not (sound and words == ("" if _REPLY.match(message) else message))
    return found


class _Timed:
    """Gives a reply character by character and notes when its message begins."""

    def __init__(self) -> None:
        self.began = 0.0
        self._text = json.dumps(
            {"transition": {"target_state": "name"}, "message": "Welcome, who are you?"}
        )

    async def complete(self, request: LLMRequest) -> ModelReply:
        del request
        return ModelReply(text=self._text)

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        del request
        first = self._text.index("Welcome")
        for place, character in enumerate(self._text):
            await asyncio.sleep(0)
            if place == first:
                self.began = time.perf_counter()
            yield character
        yield ModelReply(text=self._text)


async def _first_characters(runs: int) -> list[float]:
    """Milliseconds from the first character of the message to its delta, of so many turns."""
    found = []
    model = _Timed()
    async with AsyncMachine.from_dict(definition(), model=model, store="memory") as machine:
        for _ in range(runs):
            chat = await machine.start(greet=False)
            late = 0.0
            async for event in chat.stream("Hi"):
                if isinstance(event, MessageDelta) and not late:
                    late = (time.perf_counter() - model.began) * 1000
            found.append(late)
    return found


def measure(cuts: int, runs: int) -> list[Figure]:
    """The figures of this module."""
    late = asyncio.run(_first_characters(runs))
    return [
        Figure(f"wrong words or JSON in {cuts:,} random cuts (count, not ms)", wrong(cuts), 0),
        Figure("first character after the message begins, median", statistics.median(late), 5),
        Figure("first character after the message begins, slowest", max(late), 5),
    ]


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else CUTS, 200)))
