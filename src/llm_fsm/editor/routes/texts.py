"""Texts: conditions, schemas, templates, differences and exports."""

from __future__ import annotations

import re

from fastapi import APIRouter, Query

from llm_fsm._json import JsonDict, TextMap
from llm_fsm.definition.schema import definition_schema
from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from llm_fsm.editor import models
from llm_fsm.editor.compared import compared
from llm_fsm.editor.conditions import read_condition
from llm_fsm.editor.exports import exported
from llm_fsm.editor.history import commits
from llm_fsm.editor.studio import Studio
from llm_fsm.server.problems import Problem

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
    def schema() -> JsonDict:
        """Return the JSON Schema of definitions, for forms, completion and hover."""
        return definition_schema()

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

    @made.get("/commits")
    def list_commits(path: str = Query(max_length=4096)) -> list[models.GitCommit]:
        """List the commits that changed a file, the newest first."""
        return commits(folder.place(path))

    @made.post("/export")
    def export_text(body: models.ExportBody) -> models.Exported:
        """Write a text in another form."""
        return exported(body, folder)

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


def _files(studio: Studio, body: models.NewBody) -> TextMap:
    """Return the text of each file of a new definition, the definition first."""
    if studio.new_files is not None:
        template = None if body.template == STARTER else body.template
        made = studio.new_files(body.name, template)
        return {path: text for path, text in made.items() if path.endswith(".json")}
    text = definition_paths()[body.template].read_text(encoding="utf-8")
    return {
        f"{body.name}.json": text.replace(f'"name": "{body.template}"', f'"name": "{body.name}"', 1)
    }
