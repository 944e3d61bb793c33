"""Schema-Guided Dialogue: a service becomes a definition, and its dialogues labelled turns.

Each intent is a state, and each slot that an intent needs or takes is a key. Nothing of the labels
enters the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from typing_extensions import TypedDict

from benchmarks.suites.files import Unusable, folder, read
from benchmarks.suites.names import NONE, Names
from benchmarks.suites.play import Conversation, Json, Part
from benchmarks.suites.sgd_labels import Recorded, labelled_turns

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


def _part(service: Service, dialogues: Sequence[Recorded], names: Names) -> Part:
    left_out: list[str] = []
    forms = {slot["name"]: _form(slot) for slot in service["slots"]}
    conversations = [
        Conversation(
            name=one["dialogue_id"],
            turns=list(labelled_turns(one, forms, names, left_out)),
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
