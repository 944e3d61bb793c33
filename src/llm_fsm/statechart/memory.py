"""The memory of a state machine in Python: ten buckets, the background of the work, and the history
of its states.

With its `PersistentMemory`, a machine can continue in another process, even a run that waits for an
answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm._text import escaped
from llm_fsm.documents.files import FilePath, write
from llm_fsm.session.memory import Background, Memory
from llm_fsm.session.values import to_json_or_text


class WorkingMemory:
    """Ten buckets of text, numbered 0 to 9. Another number or a text that is too long raises
    ValueError.
    """

    def __init__(self, buckets: Memory | None = None) -> None:
        self.buckets = buckets or Memory()

    def set(self, index: int, content: str) -> None:
        """Replace the content of a bucket."""
        self.buckets = self.buckets.set(index, content)

    def append(self, index: int, content: str) -> None:
        """Add lines to a bucket."""
        self.buckets = self.buckets.append(index, content)

    def get(self, index: int) -> str:
        """Return the content of a bucket, "" if it is empty."""
        return self.buckets.get(index)

    def delete(self, index: int) -> None:
        """Empty a bucket."""
        self.buckets = self.buckets.clear(index)

    def get_non_empty(self) -> dict[int, str]:
        """Return bucket number to content, without empty buckets."""
        return self.buckets.non_empty()

    def to_context(self) -> str:
        """Return the filled buckets, as lines for a prompt."""
        held = self.get_non_empty()
        lines = [f"[Bucket {index}]: {escaped(content)}" for index, content in held.items()]
        return "\n".join(["## Working memory", *lines]) if lines else ""

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form: {"3": content} without empty buckets."""
        return self.buckets.to_dict()


@dataclass
class BackgroundContext:
    """The purpose of the work. `goals` and `todo_list` are text, one entry a line."""

    vision_mission: str = ""
    goals: str = ""
    todo_list: str = ""
    custom_fields: JsonDict = field(default_factory=dict)

    def to_context(self) -> str:
        """Return the background, as lines for a prompt."""
        named = {
            "Vision and mission": self.vision_mission,
            "Goals": self.goals,
            "To do": self.todo_list,
        }
        lines = [
            f"{name}: {_quoted(value)}"
            for name, value in {**named, **self.custom_fields}.items()
            if value
        ]
        return "\n".join(["## Background", *lines]) if lines else ""

    def to_dict(self) -> JsonDict:
        """Return the JSON form."""
        return {
            "vision_mission": self.vision_mission,
            "goals": self.goals,
            "todo_list": self.todo_list,
            "custom_fields": to_json_or_text(self.custom_fields),
        }

    def to_engine(self) -> JsonDict:
        """Return the JSON form that a run begins with."""
        document = self.to_dict()
        lists = {name: _lines(document[name]) for name in ("goals", "todo_list")}
        return Background.from_dict({**document, **lists}).to_dict()

    def take(self, document: JsonMap) -> None:
        """Take over the background that a run left. Text stays as you wrote it if the run kept its
        lines.
        """
        known = Background.from_dict(document)
        self.vision_mission = known.vision_mission
        self.goals = _kept(self.goals, known.goals)
        self.todo_list = _kept(self.todo_list, known.todo_list)
        self.custom_fields = dict(known.custom_fields)


@dataclass
class StateHistory:
    """The runs of states, oldest first: {"state", "timestamp", "input", "output", "custom_fields"}
    each.
    """

    entries: list[JsonDict] = field(default_factory=list)

    def add_entry(
        self,
        state_name: str,
        input_data: Any,
        output_data: Any,
        custom_fields: JsonMap | None = None,
    ) -> None:
        """Add the run of a state. Values without a JSON form are kept as their text."""
        self.entries.append(
            {
                "state": state_name,
                "timestamp": datetime.now(UTC).isoformat(),
                "input": to_json_or_text(input_data),
                "output": to_json_or_text(output_data),
                "custom_fields": to_json_or_text(dict(custom_fields or {})),
            }
        )

    def get_recent(self, n: int = 5) -> list[JsonDict]:
        """Return the newest `n` entries, oldest first."""
        return self.entries[-n:] if n > 0 else []

    def to_context(self, n: int = 5) -> str:
        """Return the newest `n` entries, as lines for a prompt."""
        lines = [
            f"[{entry['state']}] input: {_quoted(entry['input'])}; output: {_quoted(entry['output'])}"
            for entry in self.get_recent(n)
        ]
        return "\n".join(["## Recent history", *lines]) if lines else ""


class PersistentMemory:
    """Working memory, background and history of one state machine.

    Args:
        working_memory: The ten buckets.
        background: The purpose of the work.
        history: The runs of states so far.

    Attributes:
        pause: A run that waits for an answer, as JSON data; None if there is none.
    """

    def __init__(
        self,
        working_memory: WorkingMemory | None = None,
        background: BackgroundContext | None = None,
        history: StateHistory | None = None,
    ) -> None:
        self.working_memory = working_memory or WorkingMemory()
        self.background = background or BackgroundContext()
        self.history = history or StateHistory()
        self.pause: JsonDict | None = None

    def to_context(self, history_n: int = 5) -> str:
        """Return everything for a prompt, with values as JSON strings.

        Args:
            history_n: The number of history entries, the newest ones.

        Returns:
            Lines of text.
        """
        parts = (
            self.background.to_context(),
            self.working_memory.to_context(),
            self.history.to_context(history_n),
        )
        return "\n\n".join(filter(None, parts))

    def to_dict(self) -> JsonDict:
        """Return the JSON form.

        Returns:
            A JSON object that `from_dict` reads.
        """
        document = {
            "working_memory": self.working_memory.to_dict(),
            "background": self.background.to_dict(),
            "history": {"entries": list(self.history.entries)},
        }
        return document if self.pause is None else {**document, "pause": self.pause}

    @classmethod
    def from_dict(cls, data: JsonMap) -> Self:
        """Return the memory of a JSON form.

        Args:
            data: The object, as `to_dict` returns it.

        Returns:
            The memory.

        Raises:
            ValueError: The object is no such form.
        """
        try:
            background = {
                key: data.get("background", {})[key]
                for key in _FIELDS
                if key in data.get("background", {})
            }
            memory = cls(
                WorkingMemory(Memory.from_dict(data.get("working_memory", {}))),
                BackgroundContext(**background),
                StateHistory([dict(entry) for entry in data.get("history", {}).get("entries", [])]),
            )
            memory.pause = None if data.get("pause") is None else dict(data["pause"])
        except (AttributeError, TypeError, KeyError) as error:
            raise ValueError(f"this is no saved memory: {error}") from error
        return memory

    def save_to_file(self, filepath: FilePath) -> None:
        """Write the memory to a JSON file, completely or not at all.

        Args:
            filepath: The file, which is replaced.

        Raises:
            OSError: The file cannot be written.
        """
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        write(filepath, text.encode(), mode=0o600)

    @classmethod
    def load_from_file(cls, filepath: FilePath) -> Self:
        """Read the memory from a file that `save_to_file` wrote.

        Args:
            filepath: The file.

        Returns:
            The memory.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file holds something else.
        """
        try:
            document = json.loads(Path(filepath).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{filepath} is no saved memory: {error}") from error
        return cls.from_dict(document)

    def save_to_mongodb(self, collection: Any, document_id: str) -> None:
        """Save the memory as one document of a collection of pymongo, and replace an older one.

        Args:
            collection: The collection.
            document_id: The id of the document.
        """
        collection.replace_one(
            {"_id": document_id}, {"_id": document_id, **self.to_dict()}, upsert=True
        )

    @classmethod
    def load_from_mongodb(cls, collection: Any, document_id: str) -> Self | None:
        """Load the memory of a document.

        Args:
            collection: The collection of pymongo.
            document_id: The id of the document.

        Returns:
            The memory; None if the collection has no such document.
        """
        found = collection.find_one({"_id": document_id})
        return None if found is None else cls.from_dict(found)


_FIELDS = ("vision_mission", "goals", "todo_list", "custom_fields")


def _quoted(value: Any) -> str:
    return escaped(to_json_or_text(value))


def _lines(text: Any) -> list[str]:
    listed = text if isinstance(text, list | tuple) else str(text).split("\n")
    return [str(line) for line in listed if str(line).strip()]


def _kept(text: str, lines: tuple[str, ...]) -> str:
    return text if _lines(text) == list(lines) else "\n".join(lines)
