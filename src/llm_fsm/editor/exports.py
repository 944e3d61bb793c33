"""A text in other forms: Python of a workflow, strict JSON, pictures, and a procedure in words."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llm_fsm.definition.compat.foreign import rewrite
from llm_fsm.definition.compat.legacy import upgrade
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.documents.draw.dot import dot
from llm_fsm.documents.draw.extract import Details, Picture, extract, tidied
from llm_fsm.documents.draw.graphviz import GraphvizError, image
from llm_fsm.documents.draw.mermaid import mermaid
from llm_fsm.documents.files import stem_of
from llm_fsm.documents.loader import load_text
from llm_fsm.documents.procedure import procedure
from llm_fsm.editor.checked import kind_of_value, workflow_faults, workflow_picture
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.models import ExportBody, Exported, ExportForm
from llm_fsm.server.problems import Problem
from llm_fsm.workflow.schema import workflow_to_python

_ENDINGS: Mapping[ExportForm, tuple[str, str]] = {
    "python": ("py", "text/x-python"),
    "json": ("json", "application/json"),
    "mermaid": ("mmd", "text/vnd.mermaid"),
    "svg": ("svg", "image/svg+xml"),
    "png": ("png", "image/png"),
    "dot": ("dot", "text/vnd.graphviz"),
    "procedure": ("txt", "text/plain"),
}


def exported(body: ExportBody, folder: Folder) -> Exported:
    """Write a text in another form.

    Args:
        body: The text and the form.
        folder: The folder, in which definitions that it calls are read.

    Returns:
        The file.

    Raises:
        Problem: 422 if the text cannot be written so, 503 without Graphviz.
        DefinitionError: The procedure is wanted, and the definition cannot run.
    """
    ending, media_type = _ENDINGS[body.form]
    name = f"{stem_of(body.path)}.{ending}"
    try:
        value = parse(body.text)
    except SourceError as error:
        raise Problem(
            "invalid", f"the text is no JSON, so it cannot be exported: {error}"
        ) from error
    if kind_of_value(value, body.path) not in ("definition", "workflow"):
        raise Problem("invalid", "this file holds no states, so there is nothing to export")
    if body.form == "png":
        picture = _image(_picture(value, body.path), "png")
        return Exported(name=name, media_type=media_type, base64=base64.b64encode(picture).decode())
    writers: Mapping[ExportForm, Callable[[], str]] = {
        "python": lambda: _python(value, body.path),
        "json": lambda: json.dumps(value, ensure_ascii=False, indent=2) + "\n",
        "mermaid": lambda: mermaid(_picture(value, body.path)),
        "dot": lambda: dot(_picture(value, body.path)),
        "svg": lambda: _image(_picture(value, body.path), "svg").decode(),
        "procedure": lambda: _procedure(body, folder),
    }
    return Exported(name=name, media_type=media_type, text=writers[body.form]())


def _python(value: Any, path: str) -> str:
    if kind_of_value(value, path) != "workflow":
        words = "Python is written of workflows of version 2.0; a definition runs as it is: Machine.from_file(FILE)"
        raise Problem("invalid", words)
    faults = workflow_faults(value)
    if faults:
        raise Problem("invalid", f"the workflow is not complete: {faults[0]}")
    return workflow_to_python(value)


def _picture(value: Any, path: str) -> Picture:
    if kind_of_value(value, path) == "workflow":
        return tidied(workflow_picture(value), Details())
    return extract(upgrade(value, partial(rewrite, stem=stem_of(path))).document, Details())


def _image(picture: Picture, form: str) -> bytes:
    try:
        return image(dot(picture), form)
    except GraphvizError as error:
        raise Problem("unavailable", str(error)) from error


def _procedure(body: ExportBody, folder: Folder) -> str:
    if kind_of_value(parse(body.text), body.path) == "workflow":
        raise Problem("invalid", "a procedure is written of definitions, and this is a workflow")
    return procedure(load_text(body.text, file=folder.place(body.path)).definition)
