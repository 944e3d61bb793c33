"""The labelled turns of a dialogue of STAR: what the user wrote, and which reply the wizard picked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from benchmarks.suites.play import Conversation, Json, LabelledTurn

FIRST = "hello"
"""The reply before everything."""
DATABASE = "database"
"""The key with the last answer of the database."""
GOODBYE = "goodbye_1"
"""What the labels call the reply that ends in `_bye`."""
FREE = "custom"
"""The label of words of the wizard's own, which is none."""


class Event(TypedDict):
    Agent: str
    Action: str
    Text: NotRequired[str]
    ActionLabel: NotRequired[str]
    Item: NotRequired[dict[str, Any]]


class Recorded(TypedDict):
    DialogueID: int
    Events: list[Event]


def conversation(
    dialogue: Recorded, ways: Mapping[str, Mapping[str, str]], left_out: list[str]
) -> Conversation:
    """Return a dialogue. What the database answered in a turn is set before it.

    Args:
        dialogue: The dialogue.
        ways: For each reply those that may come next.
        left_out: Gets the labels to which the graph does not lead.
    """
    name = str(dialogue["DialogueID"])
    turns: list[LabelledTurn] = []
    handlers: list[Json] = []
    state = FIRST
    for number, (words, events) in enumerate(_turns(dialogue["Events"]), start=1):
        picked = [event["ActionLabel"] for event in events if event["Action"] == "pick_suggestion"]
        items = [
            json.dumps(event.get("Item")) for event in events if event["Agent"] == "KnowledgeBase"
        ]
        handlers.append(_set_at(number, items[-1] if items else None))
        said = [event.get("Text", "") for event in events if _is_said(event)]
        label = _label(picked[0], ways) if picked else ""
        if label and label != state and label not in ways[state]:
            left_out.append(
                f"{name}, turn {number}: the graph leads nowhere from {state} to {label}"
            )
            label = ""
        state = label or state
        turns.append(LabelledTurn(say=words, state=label, said="\n".join(said)))
    return Conversation(name=name, turns=turns, settings={"handlers": handlers})


def _label(picked: str, ways: Mapping[str, object]) -> str:
    """Return the reply that a label names; "" for words of the wizard's own."""
    if picked == GOODBYE:
        return next((name for name in ways if name.endswith("_bye")), picked)
    return "" if picked == FREE else picked


def _turns(events: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    """Yield the user's words, and all that happened until the next ones."""
    words: list[str] = []
    after: list[Event] = []
    for event in events:
        if event["Agent"] == "User" and event["Action"] == "utter":
            if any(map(_is_said, after)):
                yield "\n".join(words), after
                words, after = [], []
            words.append(event.get("Text", ""))
        elif words:
            after.append(event)
    if words:
        yield "\n".join(words), after


def _is_said(event: Event) -> bool:
    return event["Agent"] == "Wizard" and event["Action"] in ("pick_suggestion", "utter")


def _set_at(turn: int, answer: str | None) -> Json:
    return {
        "at": "pre_processing",
        "when": {"==": [{"var": "_turn"}, turn]},
        "set": {DATABASE: answer},
    }
