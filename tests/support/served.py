"""An application served on a free loopback port, for clients that are real ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from llm_fsm.server.limits import Limits
from llm_fsm.server.run import config_of


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def served(app: object, limits: Limits | None = None) -> Iterator[str]:
    """The base URL of the application while it runs in a thread of its own."""
    port = free_port()
    server = uvicorn.Server(config_of(app, port=port, limits=limits))
    thread = threading.Thread(target=server.run, name="served")
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(40)
        assert not thread.is_alive(), "the server does not end"


def client_at(url: str | httpx.URL = "", **options: Any) -> httpx.Client:
    """A client of a server on loopback. It reads no certificates, which takes 40 ms of CPU each time,
    and no proxies of the environment.
    """
    return httpx.Client(base_url=url, trust_env=False, verify=False, **{"timeout": 60, **options})
