"""Clients of machines that are served on the loopback address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from served import client_at, served


@contextmanager
def client_of(
    *machines: AsyncMachine, limits: Limits | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """A client of an application with these machines."""
    app = create_app(machines, closes=True, limits=limits, due_seconds=None, **options)
    with served(app, limits) as url, client_at(url) as client:
        yield client


def begin(client: httpx.Client, definition: str = "greeter", **wish: Any) -> str:
    """The id of a new conversation."""
    answer = client.post("/conversations", json={"definition": definition, "greet": False, **wish})
    assert answer.status_code == 201, answer.text
    name: str = answer.json()["id"]
    return name
