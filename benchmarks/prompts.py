"""What prompts take: `python -m benchmarks.prompts`.

Tokens are counted by the tokenizer cl100k that litellm brings, else estimated. The share is of
tokens in a prefix that an earlier call of the same conversation had, in the order in which
providers read: reply schema, then messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import claim
from benchmarks.form import MESSAGES, definition, long_definition, replies
from benchmarks.tokens import counter
from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import LLMRequest
from llm_fsm.testing import reply

LISTENING = "Please go on, I am listening."


def messages_text(request: LLMRequest) -> str:
    """The messages of a request as one text."""
    return "".join(f"\n<|{message.role}|>\n{message.content}" for message in request.messages)


def sent(request: LLMRequest) -> str:
    """The prompt in the order in which providers read it."""
    return ("" if request.schema is None else request.schema.text) + messages_text(request)


def _common(one: str, other: str) -> str:
    """The beginning that two texts have in common."""
    most = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other))] if most is None else one[:most]


def shared(texts: Sequence[str], count: Callable[[str], int]) -> tuple[int, int]:
    """Tokens of all but the first text, and how many of them stand in a prefix that an earlier text
    had.
    """
    whole = known = 0
    for place, text in enumerate(texts[1:], 1):
        prefix = max((_common(text, earlier) for earlier in texts[:place]), key=len)
        whole += count(text)
        known += count(prefix)
    return whole, known


async def requests(
    document: Mapping[str, Any], said: Sequence[str], answers: Sequence[Any], **options: Any
) -> list[LLMRequest]:
    """What the model was asked in a conversation, the greeting included."""
    model = ScriptedLLM(answers, loop=True)
    async with AsyncMachine.from_dict(document, model=model, store="memory", **options) as machine:
        chat = await machine.start()
        for message in said:
            await chat.send(message)
    return model.requests


async def figures(
    document: Mapping[str, Any],
    said: Sequence[str],
    answers: Sequence[Any],
    count: Callable[[str], int],
    **options: Any,
) -> tuple[float, float, float]:
    """Tokens a turn of the messages and with the reply's schema, and the share of them that were
    seen before.
    """
    asked = await requests(document, said, answers, **options)
    whole, known = shared([sent(request) for request in asked], count)
    turns = asked[1:]
    return (
        sum(count(messages_text(each)) for each in turns) / len(turns),
        whole / len(turns),
        known / whole,
    )


def main() -> None:
    """Print the figures."""
    count = counter()
    form, german = (
        (definition(), MESSAGES, replies()),
        (claim.definition(), claim.MESSAGES, claim.replies()),
    )
    for label, talk, options in (("the form", form, {}), ("the claim", german, {})):
        messages, whole, share = asyncio.run(figures(*talk, count, **options))
        print(
            f"{label}: {messages:.0f} tokens of messages a turn, {whole:.0f} with the reply's schema, {share:.0%} of "
            f"them in a prefix seen before"
        )
    sizes = {}
    for states in (10, 1000):
        asked = asyncio.run(
            requests(long_definition(states), ["an answer"] * 12, [reply("step_0", LISTENING)])
        )
        sizes[states] = sum(count(sent(request)) for request in asked[1:]) / 12
    print(f"with 10 states {sizes[10]:.0f} tokens a turn, with 1,000 states {sizes[1000]:.0f}")
    said = [f"message number {turn}: I would rather first ask you something" for turn in range(512)]
    asked = asyncio.run(requests(definition(), said, [reply("greeting", LISTENING)]))
    period = [sum(count(sent(request)) for request in asked[at : at + 12]) / 12 for at in (10, 500)]
    print(
        f"around turn 10 {period[0]:.0f} tokens a turn, around turn 500 {period[1]:.0f} (means of twelve turns)"
    )


if __name__ == "__main__":
    main()
