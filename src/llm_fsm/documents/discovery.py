"""Find the definition files of a path, the files in the package, and the settings for them."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from llm_fsm.definition import json_source as source
from llm_fsm.documents.files import MAX_BYTES, FilePath

_STATES = re.compile(rb'"states"\s*:')
_PATTERN = re.compile(r"[*?]|\[[^\]]+\]")
_TESTS = ".test.json"
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class NoDefinitionError(ValueError):
    """A folder or pattern contains no definition."""


def definitions(path: str) -> Iterator[str]:
    """Yield the files of a path: itself, those below a folder, or those that a pattern matches.

    Conversation tests (*.test.json) are next to definitions, so only patterns that name them match
    them. A named file is always returned, with any content. Raises NoDefinitionError for a folder
    or pattern without definitions.
    """
    if os.path.isdir(path):
        yield from below(path)
    elif _PATTERN.search(path) and not os.path.lexists(path):
        yield from _matching(path)
    else:
        yield path


def below(folder: FilePath) -> list[str]:
    """Return the `*.json` files in a folder tree that look like definitions, in order of their
    names.

    Folders that begin with a dot are not entered. A folder that cannot be read is returned itself,
    and the loader reports it. Raises NoDefinitionError if there is none.
    """
    found = []
    for place, folders, names in os.walk(
        folder, onerror=lambda error: found.append(str(error.filename))
    ):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        paths = (os.path.join(place, name) for name in sorted(names) if name.endswith(".json"))
        found.extend(path for path in paths if looks_like_definition(path))
    if not found:
        raise NoDefinitionError(
            f"{os.fspath(folder)}: there is no definition in this folder (a .json file with states)"
        )
    return found


def looks_like_definition(path: FilePath) -> bool:
    """Return true for an object with `states`, and for a file that cannot be read or is no JSON.

    Only regular files are opened: opening a pipe that nobody writes to would wait without end.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return True  # the loader reports its fault
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return _STATES.search(data) is not None or not _is_json(data)
    return isinstance(document, dict) and isinstance(document.get("states"), dict | list)


def _is_json(data: bytes) -> bool:
    """Return True for JSON with comments and trailing commas, which settings files have."""
    try:
        source.parse(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, source.SourceError):
        return False
    return True


def travelling(name: str) -> Path:
    """Return a folder of the package's data: under `_data` in a wheel, at the root of the
    repository in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    inside = package / "_data" / name
    if inside.is_dir():
        return inside
    return package.parent.parent / name


def definition_paths() -> Mapping[str, Path]:
    """Return name to file of the shipped definitions, in order of their names."""
    return {path.stem: path for path in sorted(travelling("fsm_definitions").glob("*.json"))}


def file_of(given: str) -> str:
    """Return the path of FILE; if there is none, the path of the shipped definition of that
    name.
    """
    if given == "-" or os.path.lexists(given):
        return given
    return os.fspath(definition_paths().get(given, given))


def settings_file(start: FilePath) -> str | None:
    """Return the path of the nearest pyproject.toml in a folder and those above it."""
    folder = os.path.abspath(start)
    above = ""
    while folder != above:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            return path
        folder, above = os.path.dirname(folder), folder
    return None


def _matching(pattern: str) -> Iterator[str]:
    matching = sorted(glob.glob(pattern, recursive=True))
    names = (
        matching
        if pattern.endswith(_TESTS)
        else [name for name in matching if not name.endswith(_TESTS)]
    )
    if matching and not names:
        raise NoDefinitionError(
            f"{pattern}: only conversation tests (*{_TESTS}) match this pattern; `llm-fsm test`"
            " plays them"
        )
    if not names:
        raise NoDefinitionError(f"{pattern}: no file matches this pattern")
    for name in names:
        if os.path.isdir(name):
            yield from below(name)
        else:
            yield name
