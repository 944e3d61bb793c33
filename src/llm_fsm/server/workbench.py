"""Tools for assistants that write definitions: findings, rules, prompts, played tests, pictures.

Definitions come as JSON text. Nothing that they name is read from disk, resolved or called, and no
code of theirs is run. A test has its replies inside.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Literal

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.definition.subflows import read_document
from llm_fsm.documents.check import check_data
from llm_fsm.documents.draw.dot import dot
from llm_fsm.documents.draw.extract import Details, extract
from llm_fsm.documents.draw.graphviz import image
from llm_fsm.documents.draw.mermaid import mermaid
from llm_fsm.documents.draw.outline import listing
from llm_fsm.documents.loader import load_text
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.bundled import pattern_piece, shipped_prompts
from llm_fsm.lint.docs import page_of
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.session import PlayOptions, play_loaded
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.steps import request_for

Form = Literal["mermaid", "text", "dot", "svg"]
NAME = "definition.json"
TEST_NAME = "test.json"
"""The name of the text of tests in its faults."""


def findings(text: str) -> list[JsonDict]:
    """Return all findings about a definition, each with line, column and hint."""
    return [found.to_dict() for found in check_data(text.encode("utf-8", "replace"), file=NAME)]


def rule_page(rule: str) -> str:
    """Return the page of a rule, by its code or name. Raises ValueError for an unknown rule."""
    try:
        return page_of(rule).text
    except LookupError as error:
        raise ValueError(str(error)) from error


def drawn(text: str, form: Form) -> str:
    """Return a definition, given as JSON text, as a picture. Raises DefinitionError."""
    return picture(load_text(text, file=NAME).definition.document, form)


def picture(document: JsonMap, form: Form) -> str:
    """Return a definition that was checked already as a picture. Raises GraphvizError for `svg`."""
    extracted = extract(dict(document), Details())
    if form == "svg":
        return image(dot(extracted), "svg").decode()
    return {"mermaid": mermaid, "text": listing, "dot": dot}[form](extracted)


def prompt(text: str, state: str | None, context: JsonMap, message: str, is_kept: bool) -> JsonDict:
    """Render the prompt of a state.

    Args:
        text: The definition as JSON text.
        state: The state; None: the first one.
        context: What is known.
        message: The message of the user.
        is_kept: True if the text is of `document_of`, with all called definitions, and was checked
            already.

    Returns:
        `state`, `messages` and `reply_schema`.

    Raises:
        DefinitionError: The definition is wrong.
        ValueError: The state does not talk with a user, or the context is wrong.
    """
    flows = (
        read_document(text)
        if is_kept
        else gather(load_text(text, file=NAME).definition, registered={})
    )
    machine = compile_flows(flows, shipped_prompts(), pattern_piece)
    talking = [name for name, plan in machine.states.items() if plan.kind == "converse"]
    name = machine.definition.initial_state if state is None else state
    if name not in talking:
        raise ValueError(
            f"state {name!r} does not talk with a user; these do: {', '.join(talking) or 'none'}"
        )
    request = request_for(machine, name, context, message, time=time.time())
    return {
        "state": name,
        "messages": [{"role": one.role, "content": one.content} for one in request.messages],
        "reply_schema": None if request.schema is None else dict(request.schema.schema),
    }


def played(definition: str, test: str) -> list[JsonDict]:
    """Play conversation tests, with their own replies, on a definition.

    Raises:
        DefinitionError: The definition is wrong.
        ValueError: The tests are wrong; each line says one fault, with its line and column in
            `test`.
    """
    load_text(definition, file=NAME)
    # a definition reads no file outside its own folder
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, NAME).write_text(definition, encoding="utf-8", errors="replace")
        file = os.path.join(folder, TEST_NAME)
        try:
            loaded = suite_of(test, file=file, definition_file=NAME)
            results = play_loaded(loaded, PlayOptions(author="stranger")).results
        except SuiteError as error:
            raise ValueError(_without(folder, str(error))) from error
    return [
        {
            "name": result.name,
            "passed": result.passed,
            "skipped": result.skipped,
            "failures": [
                {"step": one.step, "message": _without(folder, one.message)}
                for one in result.failures
            ],
            "said": [
                {"heard": one.heard, "text": one.text, "state": one.state} for one in result.said
            ],
        }
        for result in results
    ]


def _without(folder: str, words: str) -> str:
    """Return words without the folder that this module made, which says nothing to a caller."""
    return words.replace(folder + os.sep, "")
