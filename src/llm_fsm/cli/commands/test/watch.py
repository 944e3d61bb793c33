"""`llm-fsm test --watch`: which files matter to files of tests, wherever they lie, and when one of them changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NoReturn

from llm_fsm.definition import json_source as source
from llm_fsm.documents.files import beside, read
from llm_fsm.errors import DefinitionError
from llm_fsm.testing.scenarios import selection

_EVERY = 0.3
"""Seconds between two looks."""
_ENDINGS = (".json", ".jsonl", ".py")
Stamps = dict[str, tuple[int, int] | None]


def watch(paths: Collection[str], more: Iterable[str], own: Iterable[str], play: Callable[[], None]) -> NoReturn:
    """Play, and again at each change below `paths`, of `more` files or of what the tests read; `own` are not looked at.

    Raises KeyboardInterrupt when the user ends it.
    """
    extra, ignored = tuple(more), frozenset(map(os.path.abspath, own))
    read_before: tuple[str, ...] = ()
    seen: Stamps | None = None
    while True:
        now = stamps((*_below(paths), *extra, *read_before), ignored)
        if now != seen:
            read_before = tuple(followed(_suites(paths)))
            seen = stamps((*_below(paths), *extra, *read_before), ignored)
            play()
        time.sleep(_EVERY)


def stamps(files: Iterable[str], ignored: Collection[str]) -> Stamps:
    """Each file with its time and size; None where there is none."""
    return {path: _stamp(path) for path in map(os.path.abspath, files) if path not in ignored}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def followed(suites: Iterable[str]) -> list[str]:
    """The definitions that files of tests name, and those that they call, whether they can be used or not."""
    found: dict[str, None] = {}
    waiting = list(suites)
    while waiting:
        for path in _named(waiting.pop()):
            if path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


def _named(file: str) -> Iterator[str]:
    """The files that a file of tests or a definition names."""
    try:
        document = source.parse(read(file))
    except (DefinitionError, source.SourceError):
        return
    given = document.get("definition") if isinstance(document, dict) else None
    if isinstance(given, str):
        yield beside(file, given)
    whole = given if isinstance(given, dict) else document
    states = whole.get("states") if isinstance(whole, dict) else None
    for state in states.values() if isinstance(states, dict) else ():
        flow = state.get("flow") if isinstance(state, dict) else None
        if isinstance(flow, str):
            yield beside(file, flow)


def _suites(paths: Iterable[str]) -> list[str]:
    try:
        return selection.files(paths)
    except selection.NoSuchPathError:
        return []


def _below(paths: Iterable[str]) -> Iterator[str]:
    """Every file that may matter in the folders of what was named."""
    folders = {path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in paths}
    for folder in sorted(folders):
        for place, inner, names in os.walk(folder):
            inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in selection.SKIPPED)
            yield from (os.path.join(place, name) for name in sorted(names) if name.endswith(_ENDINGS))
