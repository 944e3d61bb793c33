"""A server that is killed in mid-turn: what was acknowledged is kept, and a message that comes
again counts once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import warm_parent
from llm_fsm.testing import serve_scripted
from served import free_port

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


class Server:
    """`llm-fsm serve` as a process that can be killed and started again, at one address."""

    def __init__(self, folder: Path, store: str, model: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        flow = folder / "counter.json"
        flow.write_text(json.dumps(COUNTER))
        self.command = (
            *(
                sys.executable,
                "-m",
                "llm_fsm",
                "serve",
                str(flow),
                "--port",
                str(port),
                "--db",
                store,
            ),
            *("--model", "any", "--base-url", model),
        )
        self.environment = {**os.environ, "LLM_FSM_API_KEY": "none"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = warm_parent.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def server_of(folder: Path, store: str, model: str) -> Iterator[Server]:
    server = Server(folder, store, model)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def send(server: Server, number: int) -> dict[str, Any]:
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
