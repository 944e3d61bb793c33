"""The chat page, and the page of the API's documentation: files of ours, which load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, Response

from llm_fsm.server.problems import Problem

STATIC = Path(__file__).parent / "static"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Pages:
    """`/`, `/docs`, and their files below `/assets`."""

    def __init__(self) -> None:
        self.router = APIRouter()
        files = {path.name: path for path in STATIC.iterdir() if path.suffix in _KINDS}

        @self.router.get("/")
        async def chat(request: Request) -> Response:
            return _file(request, files["chat.html"])

        @self.router.get("/docs")
        async def docs(request: Request) -> Response:
            return _file(request, files["docs.html"])

        @self.router.get("/assets/{name}")
        async def asset(request: Request, name: str) -> Response:
            if name not in files:
                raise Problem("not-found", "there is no such file")
            return _file(request, files[name])


def _file(_: Request, path: Path) -> Response:
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return FileResponse(path, media_type=_KINDS[path.suffix], headers=headers)
