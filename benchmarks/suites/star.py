"""STAR: the graph of a task becomes a definition, and what its users wrote is played.

Each reply of the wizard is a state. The graph is a chain of replies, with conditions beside it: what
the user said (`yes`, `info_missing`) or what the database answered (`query_success`). A state leads
to all that comes later in its chain, because users tell several things at once, and to what follows
a condition. Replies that the graph does not place, such as `out_of_scope`, are open everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from typing_extensions import TypedDict

from benchmarks.suites.files import Unusable, folder, read
from benchmarks.suites.play import Conversation, Json, Part
from benchmarks.suites.star_labels import DATABASE, FIRST, Recorded, conversation

ASIDE = "anything_else"
"""A reply that wizards give at every end, wherever the graph has it."""


class Task(TypedDict):
    task: str
    replies: dict[str, str]
    graph: dict[str, str]


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
        conversations.append(conversation(read(path, Recorded, "star"), ways, left_out))
    return Part(
        name=where.name,
        definition=definition(task, said, ways),
        conversations=conversations,
        left_out=left_out,
    )


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
