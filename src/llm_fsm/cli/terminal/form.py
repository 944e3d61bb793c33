"""An answer asked for field by field, where its schema has plain fields: texts, numbers, yes or no, and choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from llm_fsm._escape import visible
from llm_fsm.cli.terminal import escape
from llm_fsm.definition import json_source as source
from llm_fsm.engine.validation import fitting
from llm_fsm.session.messages import Paused

MAX_FIELDS = 12
_SHORT: Mapping[str, str] = {"y": "yes", "true": "yes", "n": "no", "false": "no"}
_KINDS = ("string", "integer", "number", "boolean")


@dataclass(slots=True)
class Form:
    """The questions of one pause. Each line is the answer to the first field that has none.

    Attributes:
        pause: What asks.
        fields: The schema of each field that is still to be filled, by its name.
        value: The fields that are filled.
    """

    pause: Paused
    fields: dict[str, Mapping[str, Any]]
    value: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The field that is asked for; "" if all are filled."""
        return next(iter(self.fields), "")

    @property
    def is_required(self) -> bool:
        """True if the field that is asked for may not be left out."""
        return self.name in self.pause.schema.get("required", ())

    @property
    def words(self) -> tuple[str, ...]:
        """The words that the field that is asked for can be filled with, where it is a choice."""
        return tuple(_choices(self.fields[self.name]))

    def question(self, *, required: str = "") -> str:
        """Return what the user is asked: the field, what it means, and what can be typed.

        Args:
            required: What an empty line does if the field is needed.
        """
        schema = self.fields[self.name]
        label = str(schema.get("title") or self.name)
        meaning = str(schema.get("description") or "")
        hints = [hint for hint in (_hint(schema), required if self.is_required else "empty: none") if hint]
        asked = f"{label}: {meaning}" if meaning else label
        return f"{asked} ({'; '.join(hints)})" if hints else asked

    def take(self, line: str) -> None:
        """Fill a field. Raises ValueError that says what would be right; the field is asked for again then."""
        text = line.strip()
        name = self.name
        if text.startswith("{") and not self.value:
            self.value, self.fields = fitting(self.pause, _json(text)), {}
            return
        if text or self.is_required:
            if not text:
                raise ValueError(f"{name} is needed")
            self.value[name] = _fitting_field(self.pause, name, self.fields[name], text)
        del self.fields[name]


def form_of(pause: Paused) -> Form | None:
    """Return the form of a pause; None if its schema asks for something else than plain fields."""
    fields = pause.schema.get("properties")
    if pause.kind in ("approval", "unknown_outcome") or not isinstance(fields, Mapping):
        return None
    if not 0 < len(fields) <= MAX_FIELDS or not set(pause.schema.get("required", ())) <= fields.keys():
        return None
    plain = all(isinstance(schema, Mapping) and (_kind(schema) or _choices(schema)) for schema in fields.values())
    return Form(pause, {str(name): schema for name, schema in fields.items()}) if plain else None


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the one plain type of a field, null aside; "" if it has none."""
    given = schema.get("type")
    kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
    return kinds[0] if len(kinds) == 1 and kinds[0] in _KINDS else ""


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of a field that is a choice, each with its value."""
    values = schema.get("enum")
    if isinstance(values, list):
        return {_word(value): value for value in values if not isinstance(value, list | Mapping)}
    return {"yes": True, "no": False} if _kind(schema) == "boolean" else {}


def _hint(schema: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{number} {word}" for number, word in enumerate(_choices(schema), start=1))
    return listed or {"integer": "a whole number", "number": "a number"}.get(_kind(schema), "")


def _word(value: Any) -> str:
    return visible(value) if isinstance(value, str) else escape.as_json(value, None)


def _fitting_field(pause: Paused, name: str, schema: Mapping[str, Any], text: str) -> Any:
    try:
        return fitting(replace(pause, what=name, schema=schema), _read(schema, text))
    except ValueError as error:
        raise ValueError(str(error).partition(" waits for: ")[2] or str(error)) from error


def _read(schema: Mapping[str, Any], text: str) -> Any:
    """Read the value of a field. Raises ValueError."""
    choices = _choices(schema)
    if choices:
        found = {str(number): value for number, value in enumerate(choices.values(), start=1)}
        found |= {word.casefold(): value for word, value in choices.items()}
        typed = text.casefold()
        if (typed := typed if typed in found else _SHORT.get(typed, "")) not in found:
            raise ValueError(f"please type one of {_hint(schema)}")
        return found[typed]
    if _kind(schema) == "string":
        return text
    try:
        return source.parse(text, limit=1_000)
    except source.SourceError as error:
        raise ValueError("please type a number, such as 12 or 1.5") from error


def _json(text: str) -> Any:
    try:
        return source.parse(text, limit=1_000_000)
    except source.SourceError as error:
        raise ValueError(f"that is not JSON: {error}") from error
