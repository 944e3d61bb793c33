"""A second interpreter of definitions, written to be obvious: it replays records and says what is
not allowed.

It shares nothing with the product but the JSON: definitions as files hold them, records as stores
hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class IllegalError(AssertionError):
    """The records do what the definition does not allow."""


def look_up(data: Any, name: str) -> Any:
    """The value of a dotted name; None where there is none."""
    for part in name.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


def evaluate(rule: Any, data: Mapping[str, Any]) -> Any:
    """The few operations of JsonLogic that the definitions of these tests use."""
    if not isinstance(rule, dict):
        return rule
    ((name, given),) = rule.items()
    if name == "var":
        return look_up(data, given if isinstance(given, str) else given[0])
    values = [evaluate(item, data) for item in (given if isinstance(given, list) else [given])]
    if name == "!":
        return not values[0]
    if name == "and":
        return all(values)
    if name == "==":
        return values[0] == values[1]
    if any(value is None for value in values):
        return False
    return values[0] > values[1] if name == ">" else values[0] >= values[1]


def holds(transition: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    """True when every condition of a transition holds."""
    return all(
        all(look_up(context, key) is not None for key in condition.get("requires_context_keys", ()))
        and ("logic" not in condition or bool(evaluate(condition["logic"], context)))
        for condition in transition.get("conditions", ())
    )


class Replayed:
    """Where a conversation stands after its records. Raises IllegalError at the first move that is
    not allowed.
    """

    def __init__(self, definition: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> None:
        self.definition = definition
        self.state = definition["initial_state"]
        self.context: dict[str, Any] = {}
        self.ended = False
        self.entered = 0
        self.said: list[tuple[str | None, str, str]] = []
        """(request id, what the user said, what was answered), in order."""
        self.calls: list[tuple[str, Mapping[str, Any], str]] = []
        """(tool, arguments, key) of every call that ran."""
        for record in records:
            self._record(record)

    def _record(self, record: Mapping[str, Any]) -> None:
        if self.ended:
            raise IllegalError("a turn after the end")
        heard: Mapping[str, Any] = {}
        words: list[str] = []
        for event in record["events"]:
            kind = event["type"]
            if kind == "UserSaid":
                heard = event
            elif kind == "BotSaid":
                words.append(event["text"])
            elif kind == "ContextSet":
                self._write(event)
            elif kind == "StateEntered":
                self._enter(event)
            elif kind == "ToolReturned":
                self._called(event)
            elif kind == "Ended":
                self.ended = True
        if record["kind"] == "message":
            self.said.append((heard.get("request_id"), heard["text"], "\n\n".join(words)))

    def _write(self, event: Mapping[str, Any]) -> None:
        schemas = self.definition["context_schema"]["properties"]
        for key, value in event.get("values", {}).items():
            source = schemas[key].get("x-source", "model")
            if event["source"] not in (source, "answer"):
                raise IllegalError(
                    f"{key} was written by {event['source']}, but belongs to {source}"
                )
            self.context[key] = value
        for key in event.get("removed", ()):
            self.context.pop(key, None)

    def _called(self, event: Mapping[str, Any]) -> None:
        if event["name"] not in self.definition["states"][self.state].get("tools", ()):
            raise IllegalError(f"{event['name']} was called in {self.state}")
        self.calls.append((event["name"], event["arguments"], event["key"]))

    def _enter(self, event: Mapping[str, Any]) -> None:
        here = self.definition["states"][self.state]
        if event["previous"] != self.state:
            raise IllegalError(f"left {event['previous']}, but was in {self.state}")
        open_ = [item for item in here["transitions"] if holds(item, self.context)]
        if here.get("kind") == "decide":
            open_ = sorted(open_, key=lambda item: item.get("priority", 100))[:1]
        if event["state"] not in [item["target_state"] for item in open_]:
            raise IllegalError(f"moved from {self.state} to {event['state']} with {self.context}")
        self.state = event["state"]
        self.entered += 1
