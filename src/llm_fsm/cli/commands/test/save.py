"""A conversation as a file of tests that plays it again: `chat --save-test` and `/test`."""

from __future__ import annotations

import os

from llm_fsm.cli.chat_session import Talk
from llm_fsm.cli.exit_codes import OUTPUT, Failure, failing
from llm_fsm.cli.output import write_new
from llm_fsm.cli.terminal import console, escape
from llm_fsm.documents.discovery import definition_paths

ENDING = ".test.json"


def refusal(name: str) -> str | None:
    """Return why a file of tests cannot have this name; None when it can."""
    if not name.endswith(ENDING):
        return f"the name of a file of tests ends in {ENDING}, which {name} does not"
    if os.path.lexists(name):
        return f"{name} exists already and is not overwritten; name another file"
    folder = os.path.dirname(name) or os.curdir
    if not os.path.isdir(folder):
        return f"{name}: cannot be written: there is no folder {folder}"
    return None


def write(talk: Talk, name: str) -> str:
    """Write the conversation so far, and say so. Raises Failure that says why not."""
    fault = refusal(name)
    if fault is not None:
        raise Failure(fault, OUTPUT)
    from llm_fsm.testing.scenarios.save import document_of as make

    with failing(ValueError, place=f"{name}: cannot be written: ", code=OUTPUT):
        document = make(talk.program(), _reference(talk, name), talk.records(), "as it was held")
    write_new(name, escape.as_json(document) + "\n")
    return f"saved to {name}; to play it: {console.program()} test {name}"


def _reference(talk: Talk, name: str) -> str:
    """Return the file's name for the definition: that of a shipped one, else the path from the
    file's folder.
    """
    if talk.path is None:
        return talk.definition.name
    shipped = next((known for known, path in definition_paths().items() if path == talk.path), None)
    return shipped or os.path.relpath(talk.path, os.path.dirname(name) or os.curdir)
