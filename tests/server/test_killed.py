"""A server that is killed in mid-turn: what was acknowledged is kept, and a message that comes
again counts once.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from killable_servers import KillableServer
from llm_fsm.testing import serve_scripted

COUNTER: dict[str, Any] = {
    "name": "counter",
    "initial_state": "count",
    "states": {
        "count": {"purpose": "Count", "transitions": [{"target_state": "end"}]},
        "end": {"kind": "final"},
    },
}
REPLY = {"transition": {"target_state": "count", "context_update": {}}, "message": "Counted."}
MESSAGES = 12
KILLS = int(os.environ.get("CRASH_KILLS", "2"))


@contextmanager
def server_of(folder: Path, store: str, model: str) -> Iterator[KillableServer]:
    flow = folder / "counter.json"
    flow.write_text(json.dumps(COUNTER))
    with KillableServer(flow, store, "--model", "any", "--base-url", model).running() as server:
        yield server


def send(server: KillableServer, number: int) -> dict[str, Any]:
    """Send a message until it is answered, always under the same key."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            answer = httpx.post(
                f"{server.url}/conversations/c/messages",
                json={"text": f"message {number}"},
                headers={"Idempotency-Key": f"key-{number}"},
                timeout=30,
                trust_env=False,
            )
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if answer.status_code == 200:
            found: dict[str, Any] = answer.json()
            return found
        assert answer.status_code == 503, answer.text
        time.sleep(0.1)
    raise AssertionError("no answer")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_is_lost_or_doubled(
    kind: str, tmp_path: Path, shared_service: Callable[[str], str]
) -> None:
    if kind == "sqlite":
        store = f"sqlite:///{tmp_path / 'bots.db'}"
    else:
        store = f"{shared_service('postgresql')}?schema=k{os.getpid()}"
    chance = random.Random(7)
    with (
        serve_scripted(lambda _: json.dumps(REPLY), delay=0.15) as model,
        server_of(tmp_path, store, model.base_url) as server,
    ):
        wish = {"definition": "counter", "id": "c", "greet": False}
        assert (
            httpx.post(f"{server.url}/conversations", json=wish, trust_env=False).status_code == 201
        )
        answers: list[dict[str, Any]] = []
        thread = threading.Thread(
            target=lambda: answers.extend(send(server, number) for number in range(MESSAGES))
        )
        thread.start()
        for _ in range(KILLS):
            seen = len(model.requests)
            deadline = time.monotonic() + 60
            while len(model.requests) == seen and thread.is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.3))
            server.kill()
            server.start()
        thread.join(120)
        assert not thread.is_alive()
        assert [answer["number"] for answer in answers] == list(range(1, MESSAGES + 1))
        history = httpx.get(f"{server.url}/conversations/c/history", trust_env=False).json()[
            "messages"
        ]
        said = [message["text"] for message in history if message["role"] == "user"]
        assert said == [f"message {number}" for number in range(MESSAGES)]
        before = len(model.requests)
        assert [send(server, number) for number in range(MESSAGES)] == answers
        assert len(model.requests) == before
