"""A studio behind real HTTP, in a thread, on a folder of its own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser

from llm_fsm.editor.app import LIMITS, create_studio
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from llm_fsm.server import run
from studio_page import chromium

TOKEN = "a-token-of-the-tests"


@dataclass
class Page:
    """A client of a studio with its token."""

    client: httpx.Client
    folder: Path

    def get(self, route: str, **query: Any) -> Any:
        """GET a route, which must answer 200."""
        answer = self.client.get(f"/api{route}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        """POST to a route, which must answer `status`."""
        answer = self.client.post(f"/api{path}", json={} if body is None else body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def put(self, path: str, body: Any, status: int = 200) -> Any:
        """PUT to a route, which must answer `status`."""
        answer = self.client.put(f"/api{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()


@contextlib.contextmanager
def served(studio: Studio, port: int = 0) -> Iterator[Page]:
    """Serve a studio on a loopback port, 0: a free one, and yield its page's client."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(run.config_of(create_studio(studio, token=TOKEN), limits=LIMITS))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        with httpx.Client(base_url=address, headers=headers, timeout=30) as client:
            yield Page(client, Path(studio.folder.root))
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


@contextlib.contextmanager
def at_address(studio: Studio, port: int = 0) -> Iterator[str]:
    """Serve a studio, and yield its address with its token as the command prints it."""
    with served(studio, port) as found:
        yield f"{str(found.client.base_url).rstrip('/')}#token={TOKEN}"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A studio on an empty folder."""
    folder = tmp_path / "bots"
    folder.mkdir()
    with served(Studio(folder=Folder(folder), models=["scripted-operator"])) as found:
        yield found


@pytest.fixture
def serving() -> Callable[[Studio], contextlib.AbstractContextManager[Page]]:
    """Serves a studio that a test makes."""
    return served


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A browser for the tests of one module."""
    with chromium(chromium_path) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the studio at `address`."""
    return tmp_path_factory.mktemp("bots")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a studio, with its token as the command prints it."""
    with at_address(Studio(folder=Folder(folder))) as found:
        yield found


@pytest.fixture(scope="module")
def serving_at() -> Callable[..., contextlib.AbstractContextManager[str]]:
    """Serves a studio that a module makes, and gives its address."""
    return at_address
