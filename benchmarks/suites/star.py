"""STAR: the graph of a task becomes a definition, and what its users wrote is played.

Each reply of the wizard is a state. The graph is a chain of replies, with conditions beside it: what
the user said (`yes`, `info_missing`) or what the database answered (`query_success`). A state leads
to all that comes later in its chain, because users tell several things at once, and to what follows
a condition. Replies that the graph does not place, such as `out_of_scope`, are open everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from benchmarks.suites.files import Unusable, folder, read
from benchmarks.suites.play import Conversation, Json, LabelledTurn, Part

FIRST = "hello"
"""The reply before everything."""
DATABASE = "database"
"""The key with the last answer of the database."""
ASIDE = "anything_else"
"""A reply that wizards give at every end, wherever the graph has it."""
GOODBYE = "goodbye_1"
"""What the labels call the reply that ends in `_bye`."""
FREE = "custom"
"""The label of words of the wizard's own, which is none."""


class Task(TypedDict):
    task: str
    replies: dict[str, str]
    graph: dict[str, str]


class Event(TypedDict):
    Agent: str
    Action: str
    Text: NotRequired[str]
    ActionLabel: NotRequired[str]
    Item: NotRequired[dict[str, Any]]


class Recorded(TypedDict):
    DialogueID: int
    Events: list[Event]


def parts(data: Path) -> list[Part]:
    """Return a part for each folder of a task. Raises Unusable."""
    where = folder(data, "star")
    found = [_part(path) for path in sorted(where.iterdir()) if path.is_dir()]
    if not found:
        raise Unusable(f"{where}: there is no folder of a task here")
    return found


def _part(where: Path) -> Part:
    task = read(where / f"{where.name}.json", Task, "star")
    said = read(where / "responses.json", dict[str, str], "star")
    ways = _ways(task, said)
    left_out: list[str] = []
    conversations: list[Conversation] = []
    for path in sorted((where / "dialogues").glob("*.json")):
        conversations.append(_conversation(read(path, Recorded, "star"), ways, left_out))
    return Part(
        name=where.name,
        definition=definition(task, said, ways),
        conversations=conversations,
        left_out=left_out,
    )


# -- the definition --------------------------------------------------------------------------------


def _ways(task: Task, said: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return for each reply those that may come next, each with the reason in words."""
    graph, words = task["graph"], task["replies"]
    conditions = {
        name: target for name, target in graph.items() if name not in said and target in said
    }
    placed = {FIRST, *graph, *graph.values()}
    asides = [name for name in said if name == ASIDE or name not in placed]
    found: dict[str, dict[str, str]] = {}
    for reply in said:
        ways: dict[str, str] = {}
        for later in _chain(graph, reply):
            if later in said:
                ways[later] = "All before it is answered"
        for name, target in conditions.items():
            for later in (target, *_chain(graph, target)):
                if later in said:
                    ways.setdefault(later, f"{name.replace('_', ' ')}: {words.get(name, name)}")
        for later in asides:
            ways.setdefault(later, "It fits, whatever the order is")
        ways.pop(reply, None)
        found[reply] = ways
    return found


def _chain(graph: Mapping[str, str], reply: str) -> Iterator[str]:
    """Yield what comes later in the chain of a reply."""
    met = {reply}
    while (reply := graph.get(reply, "")) and reply not in met:
        met.add(reply)
        yield reply


def definition(task: Task, said: Mapping[str, str], ways: Mapping[str, Mapping[str, str]]) -> Json:
    """Return the definition of a task."""
    states = {
        name: {
            "purpose": text,
            "transitions": [
                {"target_state": later, "description": f"{reason}. It says: {said[later]}"}
                for later, reason in ways[name].items()
            ],
        }
        for name, text in said.items()
    }
    answer = {"type": "string", "x-source": "host", "description": "The answer of the database"}
    return {
        "name": task["task"],
        "initial_state": FIRST,
        "context_schema": {"type": "object", "properties": {DATABASE: answer}},
        "states": states,
    }


# -- the labels ------------------------------------------------------------------------------------


def _conversation(
    dialogue: Recorded, ways: Mapping[str, Mapping[str, str]], left_out: list[str]
) -> Conversation:
    """Return a dialogue. What the database answered in a turn is set before it."""
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
