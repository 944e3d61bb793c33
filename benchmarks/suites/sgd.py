"""Schema-Guided Dialogue: a service becomes a definition, and its dialogues labelled turns.

Each intent is a state, and each slot that an intent needs or takes is a key. Nothing of the labels
enters the definition. A turn is played with the words of the other system in the history, because
its users answer those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from benchmarks.suites.files import Unusable, folder, read
from benchmarks.suites.names import NONE, Names
from benchmarks.suites.play import Conversation, Json, LabelledTurn, Part

ANY = "dontcare"
"""The value of a slot whose user takes anything."""
CLOCK = "2019-03-01T09:00:00Z"
"""The day on which all dialogues of the set take place."""


class Slot(TypedDict):
    name: str
    description: str
    is_categorical: bool
    possible_values: list[str]


class Intent(TypedDict):
    name: str
    description: str
    required_slots: list[str]
    optional_slots: dict[str, str]


class Service(TypedDict):
    service_name: str
    description: str
    slots: list[Slot]
    intents: list[Intent]


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


def parts(data: Path, *, renamed: bool) -> list[Part]:
    """Return a part for each service that has dialogues.

    Args:
        data: The folder.
        renamed: True changes the names and descriptions of the schemas.

    Raises:
        Unusable: A file is missing or has another form.
    """
    where = folder(data, "sgd")
    services = {
        one["service_name"]: one for one in read(where / "schema.json", list[Service], "sgd")
    }
    found: dict[str, list[Recorded]] = {}
    for path in sorted(where.glob("*.json")):
        if path.name == "schema.json":
            continue
        for dialogue in read(path, list[Recorded], "sgd"):
            name = dialogue["services"][0] if len(dialogue["services"]) == 1 else ""
            if name and name not in services:
                raise Unusable(f"{path}: {name}: schema.json has no such service")
            found.setdefault(name, []).append(dialogue)
    several = found.pop("", [])
    made = [_part(services[name], dialogues, Names(renamed)) for name, dialogues in found.items()]
    if several and made:
        reason = f"{len(several)} dialogues of several services: a definition is one service here"
        made[0] = Part(**{**_fields(made[0]), "left_out": [*made[0].left_out, reason]})
    return made


def _fields(part: Part) -> Json:
    return {name: getattr(part, name) for name in Part.__slots__}


# -- the definition --------------------------------------------------------------------------------


def _part(service: Service, dialogues: Sequence[Recorded], names: Names) -> Part:
    left_out: list[str] = []
    forms = {slot["name"]: _form(slot) for slot in service["slots"]}
    conversations = [
        Conversation(
            name=one["dialogue_id"],
            turns=list(_turns(one, forms, names, left_out)),
            settings={"clock": CLOCK},
        )
        for one in dialogues
    ]
    return Part(
        name=service["service_name"],
        definition=definition(service, names),
        conversations=conversations,
        left_out=left_out,
    )


def definition(service: Service, names: Names) -> Json:
    """Return the definition of a service."""
    taken: dict[str, None] = {}
    for intent in service["intents"]:
        taken |= dict.fromkeys([*intent["required_slots"], *intent["optional_slots"]])
    slots = {slot["name"]: slot for slot in service["slots"]}
    keys = {
        names.slot(name): {
            **_form(slots[name]),
            "description": names.words(slots[name]["description"]),
        }
        for name in taken
    }
    intents = {names.intent(intent["name"]): intent for intent in service["intents"]}
    told = {name: names.words(intent["description"]) for name, intent in intents.items()}
    ways = {NONE: "The user asks for nothing (yet), or needs nothing more", **told}
    states: Json = {}
    for name, description in ways.items():
        required = intents[name]["required_slots"] if name in intents else []
        states[name] = {
            "purpose": description,
            "required_context_keys": [names.slot(slot) for slot in required],
            "transitions": [
                {"target_state": other, "description": text}
                for other, text in ways.items()
                if other != name
            ],
        }
    return {
        "name": service["service_name"],
        "description": names.words(service["description"]),
        "initial_state": NONE,
        "context_schema": {"type": "object", "properties": keys},
        "states": states,
    }


def _form(slot: Slot) -> Json:
    """Return the JSON Schema of a slot, by its name and possible values."""
    if slot["is_categorical"]:
        return {"type": "string", "enum": [*slot["possible_values"], ANY]}
    last = slot["name"].rpartition("_")[2]
    if last not in ("date", "time"):
        return {"type": "string"}
    # Its users accept days and times that its system proposes, without naming them.
    return {"type": "string", "format": last, "x-said": False}


# -- the labels ------------------------------------------------------------------------------------


def _turns(
    dialogue: Recorded, forms: Json, names: Names, left_out: list[str]
) -> Iterator[LabelledTurn]:
    """Yield the user's turns with their labels."""
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
