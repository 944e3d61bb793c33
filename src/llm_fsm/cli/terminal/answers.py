"""The question of a pause to a person, and the answer that typed lines stand for.

A schema of plain fields (texts, numbers, yes or no, and choices) is a form: it is asked for field
by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, TextMap, as_list
from llm_fsm._text import visible
from llm_fsm.cli import run_report as report
from llm_fsm.cli.terminal import escape
from llm_fsm.definition import json_source as source
from llm_fsm.engine.validation import fitting
from llm_fsm.session.messages import Paused

MAX_CHARS = 1_000_000
MAX_FIELDS = 12
_KINDS = ("string", "integer", "number", "boolean")
_SAMPLES: JsonMap = {"boolean": True, "integer": 1, "number": 1, "string": "…", "array": []}
_SHORT: TextMap = {"y": "yes", "true": "yes", "n": "no", "false": "no"}


@dataclass(slots=True)
class TypedAnswer:
    """The answer to a pause as far as it is typed. Each line fills the first field that is empty,
    or is all of it.

    Attributes:
        pause: What asks.
        fields: The schema of each field that is still to be filled, by its name; none where a line
            is the answer.
        value: The fields that are filled, or the answer.
    """

    pause: Paused
    fields: dict[str, JsonMap] = field(init=False)
    value: Any = field(init=False)

    def __post_init__(self) -> None:
        self.fields, self.value = _plain_fields(self.pause), {}

    @property
    def name(self) -> str:
        """The field that is asked for; "" if no field is."""
        return next(iter(self.fields), "")

    @property
    def is_required(self) -> bool:
        """True if an empty line is no answer."""
        return not self.fields or self.name in self.pause.schema.get("required", ())

    @property
    def words(self) -> tuple[str, ...]:
        """The words that can be typed, where they are a choice."""
        return tuple(_choices(self.fields.get(self.name, {})))

    def question(self, *, required: str = "") -> str:
        """Return what the user is asked: the field, what it means, and what can be typed.

        Args:
            required: What an empty line does if there must be an answer.
        """
        schema = self.fields.get(self.name, {})
        label, meaning = (
            str(schema.get("title") or self.name or _whole(self.pause)),
            schema.get("description"),
        )
        hints = [
            hint
            for hint in (_hint(schema), required if self.is_required else "empty: none")
            if hint
        ]
        asked = f"{label}: {meaning}" if meaning else label
        return f"{asked} ({'; '.join(hints)})" if hints else asked

    def take(self, line: str) -> bool:
        """Take a line, and return True if the answer is whole. It is then in `value`.

        Raises:
            ValueError: The line is none; it says what would be right. Where all fields together do
                not fit, all are asked for again.
        """
        text, name = line.strip(), self.name
        if not name:
            self.value = typed(self.pause, text)
            return True
        if text.startswith("{") and not self.value:
            self.value = fitting(self.pause, given(text))
            return True
        if text:
            self.value[name] = _fitting_field(self.pause, name, self.fields[name], text)
        elif self.is_required:
            raise ValueError(f"{name} is needed")
        del self.fields[name]
        if self.fields:
            return False
        try:
            self.value = fitting(self.pause, self.value)
        except ValueError:
            self.__post_init__()
            raise
        return True


def shown(pause: Paused) -> list[str]:
    """Return what is waited for and how to answer in a chat, one line each."""
    if pause.messages == "record":
        return [
            *report.waiting(pause),
            "A person has taken over: lines are messages to them; /answer JSON hands back.",
        ]
    if _plain_fields(pause):
        return [
            *report.waiting(pause, with_schema=False),
            "Please answer; /answer JSON gives all answers at once.",
        ]
    if pause.kind != "approval" or pause.call is None:
        return [
            *report.waiting(pause),
            f"Please type the {_whole(pause)}; /answer JSON gives any answer.",
        ]
    said = pause.call["arguments"]
    pairs = said.items() if isinstance(said, Mapping) else ()
    arguments = ", ".join(f"{key}={report.shown(value)}" for key, value in pairs)
    return [f"Allow {pause.call['name']}({arguments})? [y, or n and why]"]


def typed(pause: Paused, line: str) -> Any:
    """The answer that a person typed in one line. Raises ValueError that says what would be one."""
    if pause.kind == "approval":
        first, _, rest = line.partition(" ")
        word = first.lower().strip(",.:;!")
        if word not in ("y", "yes", "n", "no"):
            raise ValueError("please begin with yes or no")
        return {
            "approved": word in ("y", "yes"),
            **({"reason": rest.strip()} if rest.strip() else {}),
        }
    if pause.schema.get("type") == "string":
        return line
    try:
        return given(line)
    except ValueError as error:
        if _fits(pause, line):
            return line
        example = _example(pause.schema)
        such = (
            f"; an answer is such as {escape.as_json(example, None)}"
            if _fits(pause, example)
            else ""
        )
        raise ValueError(f"{error}{such}") from error


def given(text: str) -> Any:
    """The JSON value of an answer that is given as such. Raises ValueError."""
    try:
        return source.parse(text, limit=MAX_CHARS)
    except source.SourceError as error:
        raise ValueError(f"that is not JSON: {error}") from error


def piped(pause: Paused, line: str) -> Any:
    """The answer of a line that was written by a program: JSON that fits, nothing else. Raises
    ValueError.
    """
    return fitting(pause, given(line))


def _whole(pause: Paused) -> str:
    """Return what a person is to type in one line."""
    if pause.kind == "approval":
        return "yes, or no and why"
    return "answer" if pause.schema.get("type") == "string" else "answer as JSON"


def _example(schema: Any) -> Any:
    """A value in the form of a schema, as far as its types tell."""
    if not isinstance(schema, Mapping):
        return True
    if "enum" in schema:
        return next(iter(schema["enum"]), None)
    kind = schema.get("type", "object" if "properties" in schema else "boolean")
    if kind != "object":
        return _SAMPLES.get(kind) if isinstance(kind, str) else None
    keys = schema.get("properties", {})
    return {key: _example(keys.get(key)) for key in schema.get("required") or keys}


def _fits(pause: Paused, value: object) -> bool:
    try:
        fitting(pause, value)
    except ValueError:
        return False
    return True


def _plain_fields(pause: Paused) -> dict[str, JsonMap]:
    """Return the fields of a pause; none if its schema asks for something else than plain ones."""
    fields = pause.schema.get("properties")
    if pause.kind in ("approval", "unknown_outcome") or not isinstance(fields, Mapping):
        return {}
    if len(fields) > MAX_FIELDS or not set(pause.schema.get("required", ())) <= fields.keys():
        return {}
    plain = all(
        isinstance(schema, Mapping) and (_kind(schema) or _choices(schema))
        for schema in fields.values()
    )
    return {str(name): schema for name, schema in fields.items()} if plain else {}


def _kind(schema: JsonMap) -> str:
    """Return the one plain type of a field, null aside; "" if it has none."""
    kinds = [kind for kind in as_list(schema.get("type")) if kind != "null"]
    return kinds[0] if len(kinds) == 1 and kinds[0] in _KINDS else ""


def _choices(schema: JsonMap) -> JsonDict:
    """Return the words of a field that is a choice, each with its value."""
    values = schema.get("enum")
    if isinstance(values, list):
        return {_word(value): value for value in values if not isinstance(value, list | Mapping)}
    return {"yes": True, "no": False} if _kind(schema) == "boolean" else {}


def _hint(schema: JsonMap) -> str:
    listed = ", ".join(f"{number} {word}" for number, word in enumerate(_choices(schema), start=1))
    return listed or {"integer": "a whole number", "number": "a number"}.get(_kind(schema), "")


def _word(value: Any) -> str:
    return visible(value) if isinstance(value, str) else escape.as_json(value, None)


def _fitting_field(pause: Paused, name: str, schema: JsonMap, text: str) -> Any:
    try:
        return fitting(replace(pause, what=name, schema=schema), _read(schema, text))
    except ValueError as error:
        raise ValueError(str(error).partition(" waits for: ")[2] or str(error)) from error


def _read(schema: JsonMap, text: str) -> Any:
    """Read the value of a field. Raises ValueError."""
    if choices := _choices(schema):
        found = {str(number): value for number, value in enumerate(choices.values(), start=1)}
        found |= {word.casefold(): value for word, value in choices.items()}
        word = text.casefold()
        if (word := word if word in found else _SHORT.get(word, "")) not in found:
            raise ValueError(f"please type one of {_hint(schema)}")
        return found[word]
    if _kind(schema) == "string":
        return text
    try:
        return given(text)
    except ValueError as error:
        raise ValueError("please type a number, such as 12 or 1.5") from error
