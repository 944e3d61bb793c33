"""Play labelled turns of a foreign set, with a model or with the right replies, and count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.llm.base import LLM, let_go
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplyForm
from llm_fsm.testing import reply
from llm_fsm.testing.evaluation.dialogue import Dialogue, DialoguePlayer
from llm_fsm.testing.evaluation.judge import JudgedTurn
from llm_fsm.testing.scenarios.loader import LoadedCases, suite_of

Json = dict[str, Any]
Told = Callable[[JudgedTurn], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTurn:
    """A user's message, its labels, and the reply that is right.

    Attributes:
        say: The user's words.
        state: The state after it; "" if nobody says which.
        labels: The values that must be known after it, as `llm-fsm evaluate` reads them.
        values: The same values as a right reply writes them.
        said: What the other system answered.
    """

    say: str
    state: str = ""
    labels: Json = field(default_factory=dict)
    values: Json = field(default_factory=dict)
    said: str = ""

    def to_dict(self) -> Json:
        """Return the turn as a file of labels has it."""
        found: Json = {"say": self.say, "said": self.said}
        if self.state:
            found |= {"state": self.state, "values": self.labels}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A dialogue of a set. `settings`: keys of its case, such as the clock."""

    name: str
    turns: Sequence[LabelledTurn]
    settings: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A definition, and the dialogues that are played on it. `left_out`: what is not played, each
    with its reason.
    """

    name: str
    definition: Json
    conversations: Sequence[Conversation]
    left_out: Sequence[str] = ()


class RightReplies:
    """A model that gives the right reply of each turn, as often as it is asked for."""

    def __init__(self, turns: Sequence[LabelledTurn], state: str) -> None:
        self._turns = turns
        self._done = 0
        self._state = state

    def reply_form(self, model: str | None) -> ReplyForm:  # noqa: ARG002
        """Return the form of its replies."""
        return "object"

    async def complete(self, request: LLMRequest) -> ModelReply:  # noqa: ARG002
        """Return the right reply of this turn."""
        turn = self._turns[self._done]
        found = reply(turn.state or self._state, "All right.", "What else?", **turn.values)
        return ModelReply(text=json.dumps(found))

    def go_on(self, turn: JudgedTurn) -> None:
        """Begin the next turn."""
        self._state = turn.state
        self._done += 1


def play(
    part: Part,
    model: LLM | None = None,
    *,
    turns: int | None = None,
    timeout: float | None = None,
    reply_form: str = "",
    told: Told | None = None,
) -> list[Dialogue]:
    """Play the dialogues of a part, each turn from the right one before.

    Args:
        part: The part.
        model: The model; None: the right replies.
        turns: The most turns; None: all.
        timeout: Seconds for a turn.
        reply_form: "schema" forces the form of replies, "prompt" asks for it in words.
        told: Gets each turn when it is judged.
    """
    settings = {"timeout": timeout, "reply": reply_form}
    return asyncio.run(freed(model, _played(part, model, turns, told, settings)))


async def freed(model: LLM | None, played: Coroutine[Any, Any, list[Dialogue]]) -> list[Dialogue]:
    """Play, and free the connections of the model, which belong to one event loop."""
    try:
        return await played
    finally:
        await let_go(model)


async def _played(
    part: Part, model: LLM | None, turns: int | None, told: Told | None, settings: Json
) -> list[Dialogue]:
    found: list[Dialogue] = []
    for one, chosen in chosen_turns(part, turns):
        right = RightReplies(chosen, part.definition["initial_state"])
        player = DialoguePlayer(cases_of(part, one, chosen), model or right, **settings)
        try:
            for played in player.plays:
                found.append(await player.play(played, _each_of(right.go_on, told)))
        finally:
            await player.close()
    return found


def _each_of(first: Told, second: Told | None) -> Told:
    """Return a function that tells both of a turn."""

    def tell(turn: JudgedTurn) -> None:
        first(turn)
        if second is not None:
            second(turn)

    return tell


def chosen_turns(
    part: Part, most: int | None
) -> Iterator[tuple[Conversation, Sequence[LabelledTurn]]]:
    """Yield the conversations with the turns that are played, which are so many at most."""
    left = most
    for one in part.conversations:
        chosen = one.turns if left is None else one.turns[:left]
        if left is not None:
            left -= len(chosen)
        if any(turn.state for turn in chosen):
            yield one, chosen


def cases_of(part: Part, one: Conversation, turns: Sequence[LabelledTurn]) -> LoadedCases:
    """Return turns of a conversation as a file of labels."""
    case = {"name": one.name, "turns": [turn.to_dict() for turn in turns], **one.settings}
    document = {"definition": part.definition, "cases": [case]}
    return suite_of(json.dumps(document), file=f"{part.name}.json")


def judged(dialogues: Iterable[Dialogue]) -> list[JudgedTurn]:
    """Return the turns that have labels."""
    found: list[JudgedTurn] = []
    for dialogue in dialogues:
        found += [turn for turn in dialogue.turns if turn.judged]
    return found


def faults(part: Part, dialogues: Iterable[Dialogue]) -> list[str]:
    """Name the turns that are not right."""
    found: list[str] = []
    for dialogue in dialogues:
        for number, turn in enumerate(dialogue.turns, start=1):
            if turn.why:
                found.append(f"{part.name} {dialogue.name}, turn {number}: {turn.why}")
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def share(part: int, whole: int) -> str:
    """Return a share as "9 of 10 (90.0 %)"."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"


def print_list(title: str, lines: Sequence[str]) -> None:
    """Print lines under a title with their number."""
    print(f"\n{title} {len(lines)}")
    for line in lines:
        print(f"- {line}")
