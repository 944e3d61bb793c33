"""The question of a pause to the user, and the answer that a typed line stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm.cli import run_report as report
from llm_fsm.cli.terminal import escape
from llm_fsm.cli.terminal.form import form_of
from llm_fsm.definition import json_source as source
from llm_fsm.engine.validation import fitting
from llm_fsm.session.messages import Paused

MAX_CHARS = 1_000_000
_SAMPLES: Mapping[str, Any] = {"boolean": True, "integer": 1, "number": 1, "string": "…", "array": []}
_WORDS: Mapping[str, bool] = {"y": True, "yes": True, "n": False, "no": False}


def question(pause: Paused) -> str:
    """Return what a person is to type."""
    if pause.kind == "approval":
        return "yes, or no and why"
    return "answer" if pause.schema.get("type") == "string" else "answer as JSON"


def shown(pause: Paused) -> list[str]:
    """Return what is waited for and how to answer in a chat, one line each."""
    if form_of(pause) is not None:
        return [*report.waiting(pause, with_schema=False), "Please answer; /answer JSON gives all answers at once."]
    if pause.kind != "approval" or pause.call is None:
        return [*report.waiting(pause), f"Please type the {question(pause)}; /answer JSON gives any answer."]
    given = pause.call["arguments"]
    said = given.items() if isinstance(given, Mapping) else ()
    arguments = ", ".join(f"{key}={report.shown(value)}" for key, value in said)
    return [f"Allow {pause.call['name']}({arguments})? [y, or n and why]"]


def typed(pause: Paused, line: str) -> Any:
    """The answer that a person typed. Raises ValueError that says what would be one."""
    if pause.kind == "approval":
        first, _, rest = line.partition(" ")
        approved = _WORDS.get(first.lower().strip(",.:;!"))
        if approved is None:
            raise ValueError("please begin with yes or no")
        return {"approved": approved, **({"reason": rest.strip()} if rest.strip() else {})}
    if pause.schema.get("type") == "string":
        return line
    try:
        return source.parse(line, limit=MAX_CHARS)
    except source.SourceError as error:
        if _fault(pause, line) is None:
            return line
        example = _example(pause.schema)
        such = f"; an answer is such as {escape.as_json(example, None)}" if _fault(pause, example) is None else ""
        raise ValueError(f"that is not JSON: {error}{such}") from error


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


def given(text: str) -> Any:
    """The JSON value of an answer that is given as such. Raises ValueError."""
    try:
        return source.parse(text, limit=MAX_CHARS)
    except source.SourceError as error:
        raise ValueError(f"that is not JSON: {error}") from error


def piped(pause: Paused, line: str) -> Any:
    """The answer of a line that was written by a program: JSON that fits, nothing else. Raises ValueError."""
    return fitting(pause, given(line))


def _fault(pause: Paused, value: object) -> str | None:
    try:
        fitting(pause, value)
    except ValueError as error:
        return str(error)
    return None
