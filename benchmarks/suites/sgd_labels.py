"""The labelled turns of a dialogue of SGD.

A turn is played with the words of the other system in the history, because its users answer those.
A value that is carried over is no value of a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from benchmarks.suites.names import NONE, Names
from benchmarks.suites.play import Json, LabelledTurn


class Action(TypedDict):
    act: str
    slot: str
    canonical_values: list[str]
    values: list[str]


class State(TypedDict):
    active_intent: str
    slot_values: dict[str, list[str]]


class Frame(TypedDict):
    service: str
    actions: list[Action]
    state: NotRequired[State]


class Turn(TypedDict):
    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: list[Frame]


class Recorded(TypedDict):
    dialogue_id: str
    services: list[str]
    turns: list[Turn]


def labelled_turns(
    dialogue: Recorded, forms: Json, names: Names, left_out: list[str]
) -> Iterator[LabelledTurn]:
    """Yield the user's turns with their labels.

    Args:
        dialogue: The dialogue.
        forms: The JSON Schema of each slot.
        names: The names of the schema.
        left_out: Gets the labels that are no values of their schemas.
    """
    before: dict[str, list[str]] = {}
    proposed: list[Action] = []
    for number, (turn, answer) in enumerate(_exchanges(dialogue["turns"]), start=1):
        state, actions = _state(turn), _actions(turn)
        labels: Json = {}
        values: Json = {}
        for slot, variants in state["slot_values"].items():
            if set(variants) & set(before.get(slot, ())):
                continue
            exact = "enum" in forms[slot] or "format" in forms[slot]
            value = _value(slot, [*actions, *proposed], exact=exact) or variants[0]
            fault = _fault(value, forms[slot])
            if fault:
                left_out.append(f"{dialogue['dialogue_id']}, turn {number}: {slot}: {fault}")
                labels[names.slot(slot)] = {"maybe": {"like": ""}}
                continue
            values[names.slot(slot)] = value
            labels[names.slot(slot)] = value if exact else _any_of([value, *variants])
        before = state["slot_values"]
        proposed = [*([] if answer is None else _actions(answer)), *proposed]
        yield LabelledTurn(
            say=turn["utterance"],
            state=names.intent(state["active_intent"]),
            labels=labels,
            values=values,
            said="" if answer is None else answer["utterance"],
        )


def _exchanges(turns: Sequence[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    """Yield each turn of the user with the answer of the system."""
    for turn, answer in pairwise([*turns, None]):
        if turn is not None and turn["speaker"] == "USER":
            yield turn, answer


def _state(turn: Turn) -> State:
    for frame in turn["frames"]:
        if "state" in frame:
            return frame["state"]
    return {"active_intent": NONE, "slot_values": {}}


def _actions(turn: Turn) -> list[Action]:
    return [action for frame in turn["frames"] for action in frame["actions"]]


def _value(slot: str, actions: Sequence[Action], *, exact: bool) -> str | None:
    """Return the value of a slot by the first action that has one: exact, or in the words of it."""
    for action in actions:
        found = action["canonical_values"] if exact else action["values"]
        if action["slot"] == slot and found:
            return found[0]
    return None


def _fault(value: str, form: Json) -> str:
    """Return why a label is no value of its own schema; "" if it is one."""
    if "enum" in form and value not in form["enum"]:
        return f"{value!r} is no possible value of the schema"
    if "format" in form and not re.search("[0-9]", value):
        return f"{value!r} is no {form['format']}"
    return ""


def _any_of(variants: Sequence[str]) -> Json:
    """Return the label for a text: one of the ways to write it that the set has."""
    ways = "|".join(re.escape(one) for one in dict.fromkeys(variants))
    return {"like": f"^(?:{ways})$"}
