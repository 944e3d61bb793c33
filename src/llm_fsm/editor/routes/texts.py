"""Texts: conditions, schemas, templates, differences, exports and prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from fastapi import APIRouter, Query

from llm_fsm._json import JsonDict
from llm_fsm.definition.schema import definition_schema
from llm_fsm.definition.subflows import document_of
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load, load_text
from llm_fsm.documents.subflows import gather
from llm_fsm.editor import models
from llm_fsm.editor.compared import compared
from llm_fsm.editor.conditions import read_condition
from llm_fsm.editor.exports import exported
from llm_fsm.editor.studio import Studio
from llm_fsm.server import workbench
from llm_fsm.server.problems import Problem
from llm_fsm.testing.scenarios.schema import suite_schema

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
STARTER = "starter"


def router(studio: Studio) -> APIRouter:
    """Return the routes of texts."""
    made = APIRouter(prefix="/api", tags=["texts"])
    folder = studio.folder

    @made.post("/condition")
    def condition(body: models.ConditionBody) -> models.ConditionAnswer:
        """Read a condition, and try it against an example context."""
        return read_condition(body)

    @made.get("/schema")
    def schema(
        kind: Literal["definition", "workflow", "tests"] = Query(default="definition"),
    ) -> JsonDict:
        """Return the JSON Schema of a kind of file, for forms, completion and hover."""
        if kind == "tests":
            return suite_schema()
        return definition_schema() if kind == "definition" else workflow_schema()

    @made.get("/templates")
    def templates() -> list[models.Template]:
        """List what a new definition can start from."""
        return _templates(studio)

    @made.post("/new")
    def new_definition(body: models.NewBody) -> models.Created:
        """Make a definition with its tests, and what it calls. Nothing is overwritten."""
        return _created(studio, body)

    @made.post("/diff")
    def diff_text(body: models.DiffBody) -> models.DiffAnswer:
        """Compare a text with a file, with another text, or with the last commit."""
        return compared(body, folder)

    @made.post("/export")
    def export_text(body: models.ExportBody) -> models.Exported:
        """Write a text in another form."""
        return exported(body, folder)

    @made.post("/prompt")
    def show_prompt(body: models.PromptBody) -> models.PromptAnswer:
        """Return what the model would read in a state."""
        place = folder.place(body.path)
        flows = gather(load_text(body.text, file=place).definition, file=place, registered={})
        text = document_of(flows)
        found = workbench.prompt(text, body.state, body.context, body.message, is_kept=True)
        return models.PromptAnswer(**found)

    return made


def _templates(studio: Studio) -> list[models.Template]:
    found = []
    if studio.new_files is not None:
        words = "A booking that reads its answers back and books only on a clear yes."
        found.append(models.Template(name=STARTER, title="Starter", description=words))
    for name, path in definition_paths().items():
        definition = load(path)
        title = name.replace("_", " ").capitalize()
        found.append(models.Template(name=name, title=title, description=definition.description))
    return found


def _created(studio: Studio, body: models.NewBody) -> models.Created:
    if _NAME.fullmatch(body.name) is None:
        words = "begin with a small letter, go on with small letters, digits, - and _, at most 40 in all"
        raise Problem("invalid", f"{body.name[:50]!r} is no name for a definition: {words}")
    known = [template.name for template in _templates(studio)]
    if body.template not in known:
        raise Problem(
            "invalid", f"there is no template {body.template[:50]!r}; there are {', '.join(known)}"
        )
    files = _files(studio, body)
    there = [path for path in files if studio.folder.find(path) is not None]
    if there:
        raise Problem(
            "conflict",
            f"{there[0]} exists already, and nothing is overwritten: choose another name",
        )
    for path, text in files.items():
        studio.folder.write(path, text, base=None)
    return models.Created(files=list(files))


def _files(studio: Studio, body: models.NewBody) -> Mapping[str, str]:
    """Return the text of each file of a new definition, the definition first."""
    if studio.new_files is not None:
        template = None if body.template == STARTER else body.template
        made = studio.new_files(body.name, template)
        return {path: text for path, text in made.items() if path.endswith(".json")}
    text = definition_paths()[body.template].read_text(encoding="utf-8")
    return {
        f"{body.name}.json": text.replace(f'"name": "{body.template}"', f'"name": "{body.name}"', 1)
    }


def workflow_schema() -> JsonDict:
    """Return the JSON Schema of a workflow of version 2.0."""
    texts = {"type": "array", "items": {"type": "string"}}
    result = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The name of the key result."},
            "description": {"type": "string", "description": "What must be true of the output."},
            "check": {
                "description": "JsonLogic over `output`, the name of a function, or null: the model judges."
            },
        },
    }
    state = {
        "type": "object",
        "properties": {
            "objective": {"type": "string", "description": "What the state must accomplish."},
            "key_results": {
                "type": "array",
                "items": result,
                "description": "What counts as done.",
            },
            "tools": {**texts, "description": "Names of functions that the model may call."},
            "max_retries": {
                "type": "integer",
                "minimum": 0,
                "default": 3,
                "description": "Further attempts.",
            },
            "is_initial": {"type": "boolean", "description": "The workflow begins here."},
            "is_final": {"type": "boolean", "description": "The workflow ends here."},
            "execute": {
                "type": ["string", "null"],
                "description": "The name of a function that does the work.",
            },
        },
    }
    way = {
        "description": "The next state, branches by label, or null at an end.",
        "anyOf": [
            {"type": ["string", "null"]},
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Workflow of version 2.0",
        "type": "object",
        "required": ["states"],
        "properties": {
            "version": {"const": "2.0"},
            "objective": {"type": "string", "description": "What the whole workflow is for."},
            "states": {"type": "object", "additionalProperties": state},
            "transitions": {"type": "object", "additionalProperties": way},
            "graph_layout": {"type": "object", "description": "Positions of an editor."},
        },
    }
