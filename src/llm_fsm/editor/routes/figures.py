"""Tests and stored conversations: what runs, what was covered, and what was used."""

from __future__ import annotations

from fastapi import APIRouter, Query

from llm_fsm._json import member, object_at
from llm_fsm.definition.json_source import SourceError, parse
from llm_fsm.editor import models
from llm_fsm.editor.scenarios import run_tests
from llm_fsm.editor.stored import overlays, stored_page
from llm_fsm.editor.studio import Studio
from llm_fsm.server.problems import Problem


def router(studio: Studio) -> APIRouter:
    """Return the routes of tests and of stored conversations."""
    made = APIRouter(prefix="/api", tags=["figures"])

    @made.post("/tests")
    def play_tests(body: models.RunTestsBody) -> models.RanTests:
        """Play the tests of a definition, or of one file, and return what they cover."""
        return run_tests(studio, body)

    @made.get("/stored")
    async def list_stored(
        words: str = Query(default="", max_length=1_000),
        after: str | None = Query(default=None, max_length=300),
    ) -> models.StoredPage:
        """List stored conversations whose id, definition or state has some words, the newest first."""
        async with studio.opened() as store:
            return await stored_page(store, words, after)

    @made.post("/overlays")
    async def show_overlays(body: models.OverlayBody) -> models.Overlays:
        """Count visits, drop-outs, misses and costs over stored conversations."""
        try:
            document = parse(body.text)
        except SourceError as error:
            raise Problem("invalid", f"the text is no JSON: {error}") from error
        name = member(document, "name")
        if not isinstance(name, str) or not object_at(document, "states"):
            raise Problem(
                "invalid", "the text has no name and states, so no conversation belongs to it"
            )
        async with studio.opened() as store:
            return await overlays(store, name, body.limit)

    return made
