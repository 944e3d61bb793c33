"""The bare prompt beside the machine: a schema in words, and a model that answers with JSON.

It plays the turns that the machine plays, each from the right ones before, and the same judge
counts them. The model gets the intents and slots of the definition, the chat, and what is known. It
answers with the intent and the values of the last message. Nothing forces the form of the reply,
and nothing checks a value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from benchmarks.suites.play import (
    Conversation,
    Json,
    LabelledTurn,
    Part,
    Told,
    cases_of,
    chosen_turns,
    freed,
)
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.session.events import ContextSet, ModelReplied
from llm_fsm.session.messages import LLMMessage, LLMRequest, ModelReply
from llm_fsm.testing.evaluation.dialogue import Dialogue
from llm_fsm.testing.evaluation.judge import JudgedTurn, StepOutcome, judge
from llm_fsm.testing.evaluation.labels import labels_of

EXCHANGES = 5
"""The fewest exchanges of a long chat that are shown, as of a machine; at most twice as many."""
MAX_TOKENS = 300
"""Tokens of a reply."""
_PROMPT = """You track what a user wants in a chat with a service. Answer with one JSON object alone:
{{"state": name of the intent of the user now, "values": {{slot: value}}}}
values has only the slots that the last message gives or changes, or whose proposed value it accepts.
Write a value of possible ones exactly as listed, a date as YYYY-MM-DD, a time as HH:MM.
Write any other value in the words of the chat. Null takes a value back. Invent nothing.
Today is {day}.
{schema}"""


class _Answer(TypedDict):
    state: NotRequired[str | None]
    values: NotRequired[dict[str, Any] | None]


def play(
    part: Part,
    model: LLM,
    *,
    turns: int | None = None,
    timeout: float | None = None,
    told: Told | None = None,
) -> list[Dialogue]:
    """Play the dialogues of a part.

    Args:
        part: The part.
        model: The model.
        turns: The most turns; None: all.
        timeout: Seconds for a turn.
        told: Gets each turn when it is judged.
    """
    return asyncio.run(freed(model, _played(part, model, turns, timeout, told)))


async def _played(
    part: Part, model: LLM, turns: int | None, timeout: float | None, told: Told | None
) -> list[Dialogue]:
    found: list[Dialogue] = []
    for one, chosen in chosen_turns(part, turns):
        talk = _Talk(part, one, model, timeout)
        [play] = cases_of(part, one, chosen).plays
        known: Json = {}
        judged: list[JudgedTurn] = []
        for label, turn in zip(labels_of(play), chosen, strict=True):
            known.update(label.values)
            before = dict(talk.values)
            after = await talk.answer(turn.say)
            outcome = judge(label, known, before, after, [*enumerate(talk.words)])
            talk.go_on(turn)
            judged.append(outcome)
            if told is not None:
                told(outcome)
        found.append(Dialogue(file=f"{part.name}.json", name=one.name, turns=tuple(judged)))
    return found


class _Talk:
    """A chat of which a model tells the intent and the values.

    Attributes:
        values: What is known, by the labels.
        words: All that was said.
    """

    def __init__(self, part: Part, one: Conversation, model: LLM, timeout: float | None) -> None:
        self.values: Json = {}
        self.words: list[str] = []
        self._state: str = part.definition["initial_state"]
        self._slots = part.definition["context_schema"]["properties"]
        self._model = model
        self._timeout = timeout
        self._system = prompt(part.definition, one.settings.get("clock", ""))
        self._chat: list[LLMMessage] = []

    async def answer(self, say: str) -> StepOutcome:
        """Ask the model about a message of the user. Return what its reply leaves."""
        self.words.append(say)
        try:
            reply = await self._model.complete(self._request(say))
        except ModelError as error:
            return StepOutcome(state=self._state, context=self.values, error=str(error))
        replied = _replied(reply)
        try:
            found = _read(reply.text)
        except ValueError as error:
            return StepOutcome(
                state=self._state, context=self.values, events=(replied,), error=str(error)
            )
        values = found.get("values") or {}
        update = {name: _text(value) for name, value in values.items() if name in self._slots}
        context = {**self.values, **update}
        return StepOutcome(
            state=found.get("state") or self._state,
            context={name: value for name, value in context.items() if value is not None},
            events=(ContextSet(source="model", values=update), replied),
        )

    def go_on(self, turn: LabelledTurn) -> None:
        """Go on from the right answer."""
        self._state = turn.state or self._state
        self.values = {**self.values, **turn.values}
        self._chat.append(LLMMessage("user", turn.say))
        if turn.said:
            self._chat.append(LLMMessage("assistant", turn.said))
            self.words.append(turn.said)

    def _request(self, say: str) -> LLMRequest:
        # What is known comes last, so that a server can cache all that is before it.
        known = json.dumps({"state": self._state, "values": self.values}, ensure_ascii=False)
        last = LLMMessage("user", f"Known so far: {known}\nThe last message of the user: {say}")
        return LLMRequest(
            messages=(LLMMessage("system", self._system), *_shown(self._chat), last),
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            defaults=frozenset({"temperature", "max_tokens"}),
            timeout=self._timeout,
        )


def prompt(definition: Json, clock: str) -> str:
    """Return the system prompt.

    Args:
        definition: The definition that the machine plays: its intents and slots are shown.
        clock: The time of the chat, which begins with the date.
    """
    intents = {
        name: {"description": state["purpose"], "needs": state["required_context_keys"]}
        for name, state in definition["states"].items()
    }
    slots = {
        name: {
            key: value for key, value in form.items() if key in ("description", "enum", "format")
        }
        for name, form in definition["context_schema"]["properties"].items()
    }
    schema = {
        "service": definition["name"],
        "description": definition["description"],
        "intents": intents,
        "slots": slots,
    }
    shown = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return _PROMPT.format(day=clock.partition("T")[0] or "unknown", schema=shown)


def _shown(chat: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
    """Return the last exchanges of a chat.

    It is cut in blocks, so that the beginning stays the same for several turns.
    """
    users = [place for place, message in enumerate(chat) if message.role == "user"]
    cut = max(0, len(users) // EXCHANGES - 1) * EXCHANGES
    return chat[users[cut] :] if cut else chat


def _read(text: str) -> _Answer:
    """Read the reply of a model. Raises ValueError."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return TypeAdapter(_Answer).validate_python(json.loads(text[start : end + 1]))
    except ValueError:
        raise ValueError(f"the reply is no JSON of that form: {text}") from None


def _text(value: object) -> object:
    """Return a number or truth value as the text that the set has for it."""
    return str(value) if isinstance(value, int | float) else value


def _replied(reply: ModelReply) -> ModelReplied:
    return ModelReplied(
        asked_for="turn",
        text=reply.text,
        input_tokens=reply.input_tokens,
        cached_tokens=reply.cached_tokens,
        output_tokens=reply.output_tokens,
        seconds=reply.seconds,
        cost=reply.cost,
    )
