"""Play conversations in tests from a script, and check their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.definition.models import Definition
from llm_fsm.documents.files import name_of
from llm_fsm.documents.loader import load, load_dict
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.llm.base import LLM
from llm_fsm.llm.scripted import ScriptedLLM, ScriptedReply
from llm_fsm.session.messages import LLMRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A conversation that was played.

    Attributes:
        greeting: The opening message; empty without a greeting.
        turns: One turn for each message.
        state: Id of the state at the end.
        context: The context at the end.
        ended: True if the conversation is over.
        requests: Every request to a scripted model, in order.
    """

    greeting: str
    turns: tuple[Turn, ...]
    state: str
    context: JsonMap
    ended: bool
    requests: tuple[LLMRequest, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each turn."""
        return [turn.text for turn in self.turns]

    @property
    def states(self) -> list[str]:
        """The state after each turn."""
        return [turn.state for turn in self.turns]


def reply(
    target: str, message: str = "", question: str | None = None, **context_update: Any
) -> JsonDict:
    """Make a model's reply, for scripts.

    Args:
        target: Id of the state to move to.
        message: The message to the user.
        question: The question behind it, for the state that it names. None leaves out the field,
            as older replies do: the message asks then, if it ends in a question mark.
        context_update: Values of context keys.

    Returns:
        The reply as JSON data.

    Example:
        >>> reply("done", "Thank you", name="Ada")["transition"]
        {'target_state': 'done', 'context_update': {'name': 'Ada'}}
    """
    made: JsonDict = {
        "transition": {"target_state": target, "context_update": context_update},
        "message": message,
    }
    return made if question is None else {**made, "question": question}


def _definition(source: str | Path | JsonMap | Definition) -> Definition:
    match source:
        case Definition():
            return source
        case Mapping():
            return load_dict(source).definition
    return load(source)


def play(
    definition: str | Path | JsonMap | Definition,
    messages: Sequence[str],
    *,
    replies: Sequence[ScriptedReply] = (),
    model: str | LLM | None = None,
    context: JsonMap | None = None,
    greet: bool = False,
    state: str | None = None,
    **options: Any,
) -> Played:
    """Play a conversation in memory.

    Args:
        definition: A path, JSON data, or a Definition.
        messages: The user's messages, in order.
        replies: The model's replies, in order. All of them must be used.
        model: A model instead of replies.
        context: First values of the context.
        greet: True begins with a greeting.
        state: Id of the state to begin in; None: the initial one.
        options: Further settings of the machine.

    Returns:
        The turns and the end of the conversation.

    Raises:
        AssertionError: The model did not ask for all replies.
        LLMFSMError: The conversation failed.

    Example:
        >>> machine = {
        ...     "name": "greeter",
        ...     "initial_state": "hello",
        ...     "states": {
        ...         "hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
        ...         "bye": {"kind": "final", "reply": "Bye!"},
        ...     },
        ... }
        >>> play(machine, ["Hi"], replies=[reply("bye", "Hello.")]).states
        ['bye']
    """
    llm = model
    if model is None:
        llm = ScriptedLLM(replies)

    async def run() -> Played:
        async with AsyncMachine(
            _definition(definition), model=llm, file=name_of(definition), **options
        ) as machine:
            chat = await machine.start(context=context, greet=greet, state=state)
            turns = [await chat.send(message) for message in messages]
            return Played(
                greeting=chat.greeting,
                turns=tuple(turns),
                state=chat.state,
                context=chat.context,
                ended=chat.ended,
                requests=tuple(llm.requests) if isinstance(llm, ScriptedLLM) else (),
            )

    played = asyncio.run(run())
    if isinstance(llm, ScriptedLLM) and llm.remaining and model is None:
        raise AssertionError(
            f"{llm.remaining} of {len(replies)} scripted replies were never asked for"
        )
    return played


def expect(
    turn: Turn,
    *,
    state: str | None = None,
    moved: bool | None = None,
    text: str | None = None,
    context: JsonMap | None = None,
    calls: int | None = None,
    ended: bool | None = None,
) -> None:
    """Assert the results of a turn. Arguments that are None are not checked.

    Args:
        turn: The turn.
        state: Id of the state after it.
        moved: True if a transition was made.
        text: A part of its text.
        context: Keys with the values that they must have.
        calls: Number of model calls.
        ended: True if the conversation is over.

    Raises:
        AssertionError: Lists everything that is not as expected.
    """
    found = {
        "state": (state, turn.state),
        "moved": (moved, turn.moved),
        "calls": (calls, turn.usage.calls),
        "ended": (ended, turn.ended),
    }
    faults = [
        f"{name} is {is_!r}, not {wanted!r}"
        for name, (wanted, is_) in found.items()
        if wanted not in (None, is_)
    ]
    if text is not None and text not in turn.text:
        faults.append(f"text {turn.text!r} does not contain {text!r}")
    for key, value in (context or {}).items():
        if turn.context.get(key) != value:
            faults.append(f"context key {key!r} is {turn.context.get(key)!r}, not {value!r}")
    if faults:
        raise AssertionError(f"turn {turn.number}: " + "; ".join(faults))
