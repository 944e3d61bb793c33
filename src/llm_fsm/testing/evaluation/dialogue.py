"""Play labelled cases with a real model, on the machine and the host of conversation tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.engine import edits
from llm_fsm.engine.conversation import AsyncConversation
from llm_fsm.engine.host_files import HostTools
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.quotes import own_quote
from llm_fsm.testing.conversations import reply
from llm_fsm.testing.evaluation.judge import JudgedTurn, StepOutcome, judge
from llm_fsm.testing.evaluation.labels import Label, fits, labels_of
from llm_fsm.testing.scenarios.loader import LoadedCases, Play
from llm_fsm.testing.scenarios.player import Player
from llm_fsm.testing.scenarios.runner import CaseRunner
from llm_fsm.testing.scenarios.scripted_model import Model

_TRIES = 3
"""Times that the right answer is offered after a wrong turn: the machine may ask once more."""
_AROUND = ".,;:!?\"'()"
"""Punctuation around words that is no part of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One case, played once.

    Attributes:
        file: The file of the case.
        name: The name of the case.
        turns: Its turns, in order.
        unforced: Turns after which the right answer could not be put in place of the wrong one.
    """

    file: str
    name: str
    turns: tuple[JudgedTurn, ...]
    unforced: int = 0

    @property
    def title(self) -> str:
        """The name of the file, and that of the case."""
        return f"{Path(self.file).name}: {self.name}"

    @property
    def right(self) -> bool:
        """True if every turn with labels is right."""
        return bool(self.turns) and not any(turn.why for turn in self.turns)


class DialoguePlayer:
    """Plays the labelled cases of a file, one after the other.

    Args:
        loaded: The file.
        llm: The model.
        host: The caller's tools and functions.
        forced: True: after a wrong turn the conversation continues from the right answer. Otherwise
            a wrong turn early makes all later ones wrong.
        timeout: Seconds for a turn.
        reply: The setting `reply` of the machine.
    """

    def __init__(
        self,
        loaded: LoadedCases,
        llm: LLM,
        host: HostTools | None = None,
        *,
        forced: bool = True,
        timeout: float | None = None,
        reply: str = "",
    ) -> None:
        self._loaded = loaded
        self._llm = llm
        self._forced = forced
        self._player = Player(loaded, lambda _: Model(llm), host, timeout=timeout, reply=reply)

    @property
    def plays(self) -> tuple[Play, ...]:
        """The cases that have labels."""
        return tuple(play for play in self._loaded.plays if _is_labelled(play))

    async def play(self, play: Play, told: Callable[[JudgedTurn], None]) -> Dialogue:
        """Play one case. `told` gets each turn when it is judged."""
        machine = self._player.prepared(play.setup)
        machine.llm = self._llm
        run = CaseRunner(machine, play, Model(self._llm), self._player.stage)
        await run.start()
        if run.chat is None and not await run.go_on_without_greeting():
            return Dialogue(file=self._loaded.file, name=play.name, turns=())
        assert run.chat is not None
        turns = []
        words: list[tuple[int, str]] = []
        unforced = 0
        known: JsonDict = {}
        for label in labels_of(play):
            known.update(label.values)
            before = dict(run.chat.context)
            begun = run.chat._session.turn
            words.append((len(words), label.step.say or ""))
            turn = judge(label, known, before, await _taken(run, run.chat, label), words)
            turns.append(turn)
            told(turn)
            if self._forced and turn.judged and not turn.right:
                unforced += not await self._force(run, run.chat, label, known)
                machine.llm = self._llm
            words.append((len(words), label.said or turn.text))
            if run.chat.ended:
                break
            if label.said and run.chat._session.turn > begun:
                await _say_instead(run.chat, label.said)
        await machine.delete(run.id)
        return Dialogue(
            file=self._loaded.file, name=play.name, turns=tuple(turns), unforced=unforced
        )

    async def _force(
        self, run: CaseRunner, chat: AsyncConversation, label: Label, known: JsonMap
    ) -> bool:
        """Put the right answer in place of the last turn. Return false if that is not possible."""
        if label.step.kind != "say":
            return False
        everything = len(known) + 1
        met = {}
        try:
            await chat.undo()
            for target in _targets(label, chat):
                met[target] = await _answered(run, chat, label, known, target)
                if met[target] == everything:
                    return True
                await chat.undo()
            nearest = max(met, key=lambda target: met[target])
            await _answered(run, chat, label, known, nearest)
        except (LLMFSMError, ValueError):
            return False
        return False

    async def close(self) -> None:
        """Free the machine."""
        await self._player.close()


def _is_labelled(play: Play) -> bool:
    return play.case.skip is None and any(label.judged for label in labels_of(play))


async def _say_instead(chat: AsyncConversation, said: str) -> None:
    """Put the words of another system in the place of the last turn's, in the history."""
    await edits.heard(chat._engine, chat.id, chat._session.turn, said, instead=True)


async def _taken(run: CaseRunner, chat: AsyncConversation, label: Label) -> StepOutcome:
    """Let a step happen, and return what it left. An error of the model or the machine is a part of
    that.
    """
    try:
        turn = await run.happen(chat, label.step)
    except (LLMFSMError, ValueError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        return StepOutcome(state=chat.state, context=dict(chat.context), error=why)
    finally:
        run.stage.misses.clear()
    text, events = ("", ()) if turn is None else (turn.text, tuple(turn.events))
    return StepOutcome(text=text, state=chat.state, context=dict(chat.context), events=events)


def _targets(label: Label, chat: AsyncConversation) -> tuple[str, ...]:
    """Return what the right reply may name: the state of the label, or a state on the way to it."""
    first = label.states or (chat.state,)
    return tuple(dict.fromkeys((*first, *chat.ahead.open, chat.state)))


async def _answered(
    run: CaseRunner, chat: AsyncConversation, label: Label, known: JsonMap, target: str
) -> int:
    """Let a reply that names a target answer the step, and count what is right then."""
    right = _right_reply(label, known, chat, target)
    run.machine.llm = ScriptedLLM([right] * _TRIES)
    after = await _taken(run, chat, label)
    right_now = 0
    if not label.states or after.state in label.states:
        right_now += 1
    for key, wanted in known.items():
        if fits(after.context.get(key), wanted):
            right_now += 1
    return right_now


def _right_reply(label: Label, known: JsonMap, chat: AsyncConversation, target: str) -> JsonDict:
    """Return a reply with every value that must be known now and is not."""
    said = label.step.say or ""
    values = {}
    gone = []
    for key, wanted in known.items():
        value = chat.context.get(key)
        if fits(value, wanted):
            continue
        if wanted is None:
            gone.append(key)
            continue
        values[key] = _sample(wanted, said)
        gone += _surplus_parts(key, value, values[key])
    found = reply(target, "All right.", **values)
    update = found["transition"]["context_update"]
    # A key that asks for a quote refuses a value without one.
    update["_quotes"] = {key: own_quote(value, said) for key, value in values.items()}
    if gone:
        update["_clear"] = gone
        update["_quotes"]["_clear"] = said
    return found


def _surplus_parts(key: str, value: Any, wanted: Any) -> list[str]:
    """Return the parts of an object that are known and should not be, as `_clear` names them."""
    if not isinstance(value, dict) or not isinstance(wanted, dict):
        return []
    return [f"{key}.{part}" for part in value if part not in wanted]


def _sample(wanted: Any, said: str) -> Any:
    """Return a value that a label allows: for a pattern the words of the user that fit it."""
    match wanted:
        case dict() if set(wanted) == {"maybe"}:
            return _sample(wanted["maybe"], said)
        case dict() if set(wanted) == {"like"}:
            return _fitting_words(wanted, said) or str(wanted["like"]).strip("^$")
    return wanted


def _fitting_words(wanted: JsonMap, said: str) -> str | None:
    """Return the fewest words in a row that fit a pattern, without punctuation around them."""
    words = said.split()
    for length in range(1, len(words) + 1):
        for start in range(len(words) - length + 1):
            part = " ".join(words[start : start + length]).strip(_AROUND)
            if fits(part, wanted):
                return part
    return None
