"""Read the files of a foreign set: what is missing or has another form is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


class Unusable(Exception):
    """Data that is missing or has another form. The message is for the user."""


class Source(NamedTuple):
    """A set: its name, its licence, where it is, and the files that are needed."""

    name: str
    licence: str
    address: str
    files: str


SOURCES = {
    "sgd": Source(
        "Schema-Guided Dialogue, test",
        "CC BY-SA 4.0",
        "https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
        "schema.json, and files with lists of dialogues of one service each",
    ),
    "star": Source(
        "STAR",
        "MIT",
        "https://github.com/RasaHQ/STAR",
        "a folder for each task: TASK.json with the graph, responses.json, and dialogues/*.json",
    ),
    "tau": Source(
        "τ²-bench and τ-bench, retail",
        "MIT",
        "https://github.com/sierra-research/tau2-bench and https://github.com/sierra-research/tau-bench",
        "tasks.json, db.json and policy.md of τ²-bench; tools/ and tool.py of τ-bench beside them",
    ),
}


def folder(path: Path, source: str) -> Path:
    """Return a folder that exists. Raises Unusable."""
    if path.is_dir():
        return path
    raise missing(path, source)


def missing(path: Path, source: str) -> Unusable:
    """Return the error for a file or folder that is not there."""
    one = SOURCES[source]
    return Unusable(
        f"{path}: not found. This suite plays {one.name} (licence: {one.licence}), which is not part "
        f"of this repository. Fetch {one.files}, from {one.address}"
    )


def read(path: Path, form: type[T], source: str) -> T:
    """Read a JSON file that must have a form.

    Args:
        path: The file.
        form: The type of its contents, such as a TypedDict. Further keys are left alone.
        source: The key of the set in `SOURCES`.

    Raises:
        Unusable: The file is missing, is no JSON, or has another form.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise missing(path, source) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path}: cannot be read: {error}") from error
    try:
        return TypeAdapter(form).validate_python(json.loads(text))
    except json.JSONDecodeError as error:
        raise Unusable(f"{path}:{error.lineno}: this is no JSON: {error.msg}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"/{step}" for step in first["loc"]) or "the whole file"
        name = SOURCES[source].name
        raise Unusable(f"{path}: {place}: not the form of {name}: {first['msg']}") from error
