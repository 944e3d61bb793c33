"""The page of the studio and its files. It loads nothing from other servers."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

from llm_fsm.server.pages import KINDS, page_file
from llm_fsm.server.problems import Problem

STATIC = Path(__file__).parent.parent / "static"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "worker-src 'self'; img-src 'self' data: blob:; font-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def router() -> APIRouter:
    """Return the routes `/` and `/assets/NAME`."""
    made = APIRouter()

    @made.get("/")
    def page() -> Response:
        return _file(STATIC / "index.html")

    @made.get("/assets/{name}")
    def asset(name: str) -> Response:
        if "/" in name or name.startswith("."):
            raise Problem("not-found", "there is no such file")
        return _file(STATIC / "assets" / name)

    return made


def _file(path: Path) -> Response:
    if path.suffix not in KINDS or not path.is_file():
        what = "the page is not built: run `npm ci && npm run build` in web/"
        raise Problem("not-found", what if path.name == "index.html" else "there is no such file")
    return page_file(path, _POLICY)
