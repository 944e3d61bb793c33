"""The chat page, the operators' page and the page of the API's documentation. They load nothing
from other servers.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from llm_fsm.server.problems import Problem

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
}
"""The files of pages, by their endings."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def router() -> APIRouter:
    """Return the routes `/`, `/operator`, `/docs`, and their files below `/assets`."""
    made = APIRouter()
    files = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}

    @made.get("/")
    async def chat() -> Response:
        return _file(files["chat.html"])

    @made.get("/operator")
    async def operator() -> Response:
        return _file(files["operator.html"])

    @made.get("/docs")
    async def docs() -> Response:
        return _file(files["docs.html"])

    @made.get("/assets/{name}")
    async def asset(name: str) -> Response:
        if name not in files:
            raise Problem("not-found", "there is no such file")
        return _file(files[name])

    return made


def page_file(path: Path, policy: str) -> Response:
    """Return a file of a page. `policy`: its Content-Security-Policy."""
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache"}
    return FileResponse(path, media_type=KINDS[path.suffix], headers=headers)


def _file(path: Path) -> Response:
    return page_file(path, _POLICY)
