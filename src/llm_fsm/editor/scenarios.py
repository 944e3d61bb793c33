"""Conversation tests of the studio: conversations saved as tests, and tests played."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

from llm_fsm._json import JsonMap, member, of_kind
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents import patch
from llm_fsm.documents.files import beside
from llm_fsm.documents.loader import load_text
from llm_fsm.editor import models
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from llm_fsm.editor.talks import OpenTalk
from llm_fsm.errors import DefinitionError
from llm_fsm.server.problems import Problem
from llm_fsm.testing.coverage import Kind
from llm_fsm.testing.scenarios.loader import LoadedCases, suite_of
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.results import Result
from llm_fsm.testing.scenarios.save import document_of
from llm_fsm.testing.scenarios.session import FileResult, PlayOptions, play_loaded

ENDING = ".test.json"
_DRAWN: tuple[Kind, ...] = ("states", "transitions")
"""The kinds of elements that the canvas can show as covered."""


async def save_test(studio: Studio, talk: OpenTalk, body: models.SaveTestBody) -> models.SavedTest:
    """Save a conversation as a case of a file of tests beside its definition, and play that case.

    Args:
        studio: The studio.
        talk: The conversation.
        body: The name of the case, and the file.

    Returns:
        The file, and the result of the case on the definition as it is saved.

    Raises:
        Problem: 422 if nothing has happened yet, or the file holds no tests.
    """
    folder = studio.folder
    path = body.path or talk.body.path.removesuffix(".json") + ENDING
    if not path.endswith(ENDING):
        raise Problem(
            "invalid",
            f"the name of a file of tests ends with {ENDING}, which {path!r:.100} does not",
        )
    if not folder.exists(talk.body.path):
        name = talk.program.definition.name
        raise Problem(
            "invalid",
            f"no file of this folder has the definition {name!r}, for which the test would be: add the file first",
        )
    place = os.path.dirname(folder.place(path))
    named = os.path.relpath(folder.place(talk.body.path), place).replace(os.sep, "/")
    document = document_of(talk.program, named, await talk.records(), body.name)
    written = await asyncio.to_thread(_write_case, folder, path, document)
    passed, message = await asyncio.to_thread(_play_case, studio, path, written)
    return models.SavedTest(path=path, name=written, passed=passed, message=message)


def _write_case(folder: Folder, path: str, document: JsonMap) -> str:
    """Add a case to a file of tests, and return the name that it has there."""
    [case] = document["cases"]
    kept = folder.find(path)
    if kept is None:
        text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
        folder.write(path, text, base=None)
        return str(case["name"])
    try:
        value = parse(kept.text)
    except SourceError as error:
        raise Problem("invalid", f"{path}: it is no JSON, so no test was added: {error}") from error
    cases = member(value, "cases")
    if not isinstance(cases, list):
        raise Problem("invalid", f"{path}: this is no file of conversation tests")
    if value.get("definition") != document["definition"]:
        raise Problem("invalid", f"{path}: its tests are for another definition; name another file")
    taken = {one.get("name") for one in cases if isinstance(one, dict)}
    name = case["name"]
    number = 2
    while name in taken:
        name = f"{case['name']} ({number})"
        number += 1
    text = patch.set_value(kept.text, "/cases/-", {**case, "name": name})
    folder.write(path, text, base=kept.sha256)
    return str(name)


def _play_case(studio: Studio, path: str, name: str) -> tuple[bool | None, str]:
    folder = studio.folder
    try:
        loaded = _loaded(folder, path, folder.read(path).text)
        [result] = play_loaded(loaded, _options(studio), names=[name]).results
    except (SuiteError, DefinitionError) as error:
        return None, folder.shortened(str(error))
    failures = "\n".join(one.message for one in result.failures)
    return result.passed, failures


def run_tests(studio: Studio, body: models.RunTestsBody) -> models.RanTests:
    """Play the tests of a definition, or those of a file, also on a definition that is not saved.

    Args:
        studio: The studio.
        body: The definition or the file of tests.

    Returns:
        Results and coverage. Tests that cannot be played give their reason.
    """
    folder = studio.folder
    files = [body.path] if body.path.endswith(ENDING) else tests_of(folder, body.path)
    answer = models.RanTests(results=[], passed=0, failed=0, covered=[], missed=[], share=0.0)
    counts: dict[str, int] = {}
    for path in files:
        try:
            found = _played(studio, path, body)
        except (SuiteError, DefinitionError) as error:
            answer.reason = folder.shortened(str(error))
            continue
        answer.results += [_row(path, one) for one in found.results]
        if found.covered is not None:
            for kind in _DRAWN:
                for pointer, count in found.covered.coverage.counts[kind].items():
                    counts[pointer] = counts.get(pointer, 0) + count
    if not files:
        answer.reason = (
            f"there are no tests of {body.path}: talk to it, then save the conversation as a test"
        )
    answer.passed = sum(row.passed and row.skipped is None for row in answer.results)
    answer.failed = sum(not row.passed for row in answer.results)
    answer.covered = [pointer for pointer, count in counts.items() if count]
    answer.missed = [pointer for pointer, count in counts.items() if not count]
    answer.share = round(100 * len(answer.covered) / len(counts), 1) if counts else 0.0
    return answer


def tests_of(folder: Folder, path: str) -> list[str]:
    """Return the files of tests that name a definition as theirs."""
    found = []
    target = folder.place(path)
    for name, _, value in folder.values(ENDING):
        named = member(value, "definition")
        if isinstance(named, str) and beside(folder.place(name), named) == target:
            found.append(name)
    return found


def _options(studio: Studio) -> PlayOptions:
    """Return how tests are played: with the models of the studio alone, whatever a file names."""
    return PlayOptions(cover=True, author="stranger", models=studio.all_models)


def _loaded(folder: Folder, path: str, text: str, definition: str | None = None) -> LoadedCases:
    """Load a file of tests. `definition`: the file that it tests instead of its own.

    Raises:
        Problem: 403 if it names a file out of the folder.
        SuiteError: The text cannot be used.
    """
    file = folder.place(path)
    with suppress(SourceError):  # which is told by the loader, with its place
        for name in _files_in(parse(text)):
            place = os.path.join(os.path.dirname(file), name)
            place = os.path.realpath(place)
            below = os.path.relpath(place, folder.root)
            folder.place(below.replace(os.sep, "/"))
    return suite_of(text, file=file, definition_file=definition)


def _files_in(value: Any) -> list[str]:
    """Return the names of files in a file of tests."""
    if not isinstance(value, dict):
        return []
    flows = value.get("flows")
    named = [value.get("definition")]
    if isinstance(flows, dict):
        named += flows.values()
    return of_kind(named, str)


def _played(studio: Studio, path: str, body: models.RunTestsBody) -> FileResult:
    """Play a file. An unsaved definition is written beside the saved one for that time."""
    folder = studio.folder
    text = folder.read(path).text
    options = _options(studio)
    if body.text is None or path == body.path:
        return play_loaded(_loaded(folder, path, text), options)
    load_text(body.text, file=folder.place(body.path))
    draft = f".llm-fsm.{os.urandom(8).hex()}.json"
    place = os.path.join(os.path.dirname(folder.place(body.path)), draft)
    named = os.path.relpath(place, os.path.dirname(folder.place(path)))
    try:
        with open(place, "x", encoding="utf-8") as stream:
            stream.write(body.text)
        loaded = _loaded(folder, path, text, named)
        return play_loaded(loaded, options)
    finally:
        if os.path.exists(place):
            os.unlink(place)


def _row(path: str, result: Result) -> models.RanTest:
    states = [one.state for one in result.said if one.state]
    return models.RanTest(
        file=path,
        name=result.name,
        passed=result.passed,
        skipped=result.skipped,
        failures=[one.message for one in result.failures],
        line=result.line or None,
        states=list(dict.fromkeys(states)),
    )
