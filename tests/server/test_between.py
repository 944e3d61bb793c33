"""A conversation is told of everything that happens between messages, in whichever process, and can
be stopped.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from llm_fsm import AsyncMachine, ModelReply
from llm_fsm.server import create_app
from llm_fsm.server.tokens import Token, Tokens
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.testing import ScriptedLLM, reply
from served import client_at, served

QUIET: dict[str, Any] = {
    "name": "quiet",
    "initial_state": "ask",
    "context_schema": {
        "properties": {"name": {"type": "string"}, "paid": {"type": "boolean", "x-source": "host"}}
    },
    "patterns": ["silence"],
    "states": {
        "ask": {
            "purpose": "Ask",
            "reply": "Your name?",
            "transitions": [
                {"target_state": "bye", "description": "The name is known"},
                {
                    "target_state": "thanks",
                    "description": "It is paid",
                    "conditions": [{"logic": {"var": "paid"}}],
                },
            ],
        },
        "thanks": {
            "purpose": "Thank",
            "reply": "Thank you.",
            "transitions": [{"target_state": "bye"}],
        },
        "bye": {"purpose": "End", "kind": "final", "reply": "Bye!"},
    },
}


class Slow:
    """A model that answers when it may."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    async def complete(self, request: Any) -> Any:
        self.asked.set()
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        return ModelReply(text=json.dumps(reply("ask", "Hm?")))


def quiet(path: Path, model: Any = None, clock: Any = None) -> AsyncMachine:
    llm = ScriptedLLM([reply("ask", "Hm?")] * 9) if model is None else model
    return AsyncMachine.from_dict(QUIET, model=llm, store=SQLiteStore(path), clock=clock)


@contextmanager
def client_of(machine: AsyncMachine, headers: Any = None, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(machine, closes=True, **{"due_seconds": None, **options})
    with served(app) as url, client_at(url, headers=headers) as client:
        yield client


def begin(client: httpx.Client, **wish: Any) -> None:
    answer = client.post("/conversations", json={"definition": "quiet", "id": "c", **wish})
    assert answer.status_code == 201, answer.text


class Following:
    """The events of a stream, read in a thread."""

    def __init__(
        self, client: httpx.Client, headers: dict[str, str] | None = None, query: str = ""
    ) -> None:
        self.events: list[tuple[str, str, Any]] = []
        self.status = 0
        self._client = client
        self._headers = headers or {}
        self._query = query
        self._response: Any = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        try:
            with self._client.stream(
                "GET", f"/conversations/c/events{self._query}", headers=self._headers, timeout=60
            ) as response:
                self.status = response.status_code
                self._response = response
                fields: dict[str, str] = {}
                for line in response.iter_lines():
                    if line.startswith(":"):
                        continue
                    if line:
                        name, _, value = line.partition(": ")
                        fields[name] = value
                    elif fields:
                        self.events.append(
                            (fields["id"], fields["event"], json.loads(fields["data"]))
                        )
                        fields = {}
        except httpx.HTTPError:
            pass

    def __enter__(self) -> Following:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._response is not None:
            # A closed file does not wake the thread that reads from it; the end of the line does.
            stream = self._response.extensions["network_stream"]
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            self._thread.join(30)

    def until(self, name: str, count: int = 1) -> list[Any]:
        """Wait for so many events of a name, and return their data."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = [data for _, event, data in self.events if event == name]
            if len(found) >= count:
                return found
            time.sleep(0.01)
        raise AssertionError(f"no {name} in {self.events}")


def test_reminders_words_of_the_program_changes_and_the_end_are_told(tmp_path: Path) -> None:
    now = [1_000.0]
    machine = quiet(tmp_path / "x.db", clock=lambda: now[0])
    with client_of(machine, due_seconds=0.05) as client:
        begin(client)
        with Following(client) as following:
            (snapshot,) = following.until("conversation")
            assert (snapshot["id"], snapshot["state"]) == ("c", "ask")
            said = client.post("/conversations/c/say", json={"text": "Your order has left."})
            assert said.status_code == 200
            assert following.until("turn")[0]["text"] == "Your order has left."
            assert following.until("turn")[0]["kind"] == "update"
            updated = client.post(
                "/conversations/c/update", json={"context": {"paid": True}, "state": "thanks"}
            )
            assert updated.json()["state"] == "thanks"
            assert following.until("state") == [
                {"state": "thanks", "previous_state": "ask", "by": "host"}
            ]
            assert following.until("context")[0]["values"] == {"paid": True}
            client.post("/conversations/c/messages", json={"text": "hello"})
            assert following.until("message") == [
                {"text": "hello", "picked": False, "request_id": None}
            ]
            following.until("turn", 3)
            now[0] += 301
            following.until("reminder")
            now[0] += 1_600
            assert following.until("ended") == [{"outcome": "silent"}]
            kinds = [turn["kind"] for turn in following.until("turn", 5)]
            assert kinds == ["update", "update", "message", "due", "due"]


def test_a_lost_stream_goes_on_after_the_last_event_and_repeats_nothing(tmp_path: Path) -> None:
    with client_of(quiet(tmp_path / "x.db")) as client:
        begin(client)
        for text in ("one", "two", "three"):
            client.post("/conversations/c/say", json={"text": text})
        with Following(client, query="?after=1") as following:
            assert [turn["text"] for turn in following.until("turn", 3)] == ["one", "two", "three"]
            seen = next(
                name
                for name, event, data in following.events
                if event == "turn" and data["text"] == "two"
            )
        with Following(client, {"Last-Event-ID": seen}) as following:
            assert [turn["text"] for turn in following.until("turn")] == ["three"]
            assert following.events[0][1] != "conversation"
        for wrong in ("x:1", "nonsense", "1:x"):
            assert (
                client.get("/conversations/c/events", headers={"Last-Event-ID": wrong}).status_code
                == 400
            )
        assert client.get("/conversations/nobody/events").status_code == 404


def test_turns_of_another_process_on_the_same_store_are_told(tmp_path: Path) -> None:
    with (
        client_of(quiet(tmp_path / "x.db")) as client,
        client_of(quiet(tmp_path / "x.db")) as other,
    ):
        begin(client)
        with Following(other) as following:
            following.until("conversation")
            client.post("/conversations/c/say", json={"text": "Here I am."})
            assert following.until("turn")[0]["text"] == "Here I am."
            client.delete("/conversations/c")
            assert following.until("error")[0]["status"] == 404


def test_a_key_says_a_thing_once(tmp_path: Path) -> None:
    with client_of(quiet(tmp_path / "x.db")) as client:
        begin(client)
        key = {"Idempotency-Key": "k"}
        first = client.post("/conversations/c/say", json={"text": "once"}, headers=key).json()
        again = client.post("/conversations/c/say", json={"text": "once"}, headers=key).json()
        assert first["number"] == again["number"]
        assert (
            client.post("/conversations/c/say", json={"text": "twice"}, headers=key).status_code
            == 409
        )
        texts = [one["text"] for one in client.get("/conversations/c/history").json()["messages"]]
        assert texts.count("once") == 1
        for body in ({"text": ""}, {"text": 7}, {}):
            assert client.post("/conversations/c/say", json=body).status_code == 422
        for body in ({}, {"state": "nowhere"}, {"context": {"paid": "maybe"}}):
            assert client.post("/conversations/c/update", json=body).status_code == 422


@pytest.mark.parametrize("streamed", [False, True])
def test_a_turn_under_way_is_stopped_and_nothing_of_it_is_kept(
    tmp_path: Path, streamed: bool
) -> None:
    model = Slow()
    with client_of(quiet(tmp_path / "x.db", model)) as client:
        begin(client, greet=False)
        assert client.post("/conversations/c/cancel").status_code == 409
        headers = {"Accept": "text/event-stream"} if streamed else {}
        answers: list[httpx.Response] = []

        def send() -> None:
            answers.append(
                client.post("/conversations/c/messages", json={"text": "hello"}, headers=headers)
            )

        sender = threading.Thread(target=send)
        sender.start()
        assert model.asked.wait(30)
        stopped = client.post("/conversations/c/cancel")
        assert (stopped.status_code, stopped.json()) == (200, {"cancelled": True})
        sender.join(30)
        assert "urn:llm-fsm:problem:cancelled" in answers[0].text
        assert client.get("/conversations/c/history").json()["messages"] == []
        model.may_answer.set()
        again = client.post("/conversations/c/messages", json={"text": "again"})
        assert again.json().get("text", "").startswith("Hm?"), again.text


def test_a_turn_of_another_process_is_stopped(tmp_path: Path) -> None:
    model = Slow()
    with (
        client_of(quiet(tmp_path / "x.db", model)) as client,
        client_of(quiet(tmp_path / "x.db")) as other,
    ):
        begin(client, greet=False)
        answers: list[httpx.Response] = []
        sender = threading.Thread(
            target=lambda: answers.append(
                client.post("/conversations/c/messages", json={"text": "hello"})
            )
        )
        sender.start()
        assert model.asked.wait(30)
        assert other.post("/conversations/c/cancel").json() == {"cancelled": True}
        sender.join(30)
        assert answers[0].status_code == 409
        assert (
            other.post("/conversations/c/messages", json={"text": "again"})
            .json()["text"]
            .startswith("Hm?")
        )


def test_conversations_are_found_counted_and_erased_by_person(tmp_path: Path) -> None:
    with client_of(quiet(tmp_path / "x.db")) as client:
        for name, user in (("a", "ada"), ("b", "bob"), ("c", "ada"), ("d", "ada")):
            wish = {"definition": "quiet", "id": name, "metadata": {"user": user}}
            assert client.post("/conversations", json=wish).json()["metadata"] == {"user": user}
        client.post("/conversations/a/say", json={"text": "news"})
        found = client.get(
            "/conversations?metadata.user=ada&order=-updated&limit=2&count=true"
        ).json()
        assert [line["id"] for line in found["conversations"]] == ["a", "d"]
        assert found["count"] == 3
        assert found["conversations"][0]["metadata"] == {"user": "ada"}
        query = {"metadata.user": "ada", "order": "-updated", "after": found["next"]}
        rest = client.get("/conversations", params=query).json()
        assert ([line["id"] for line in rest["conversations"]], rest["next"]) == (["c"], None)
        since = client.get(
            "/conversations", params={"updated_since": found["conversations"][0]["updated"]}
        ).json()
        assert [line["id"] for line in since["conversations"]] == ["a"]
        assert client.get("/conversations?limit=1&count=true").json()["count"] == 4
        moment = {"updated_since": "2200-01-01T00:00:00Z", "count": True}
        assert client.get("/conversations", params=moment).json()["count"] == 0
        assert client.delete("/conversations").status_code == 422
        refused = ("user=ada", "metadata.=ada", "metadata.a%20b=x", "metadata.user=")
        for wrong in (*refused, "order=created", "updated_since=soon", "after=x&order=updated"):
            assert client.get(f"/conversations?{wrong}").status_code == 422, wrong
        assert client.delete("/conversations?metadata.user=ada").json() == {"deleted": 3}
        assert [line["id"] for line in client.get("/conversations").json()["conversations"]] == [
            "b"
        ]
        assert client.delete("/conversations?metadata.user=ada").json() == {"deleted": 0}
        assert client.get("/conversations/a").status_code == 404


def test_who_may_not_speak_change_or_erase_is_refused(tmp_path: Path) -> None:
    import hashlib

    def token(name: str, *rights: str) -> Token:
        return Token(
            name=name, sha256=hashlib.sha256(name.encode()).hexdigest(), rights=frozenset(rights)
        )

    tokens = Tokens(
        (token("talker", "talk"), token("seeder", "talk", "seed"), token("boss", "talk", "manage"))
    )
    with client_of(quiet(tmp_path / "x.db"), tokens=tokens) as client:

        def ask(name: str, method: str, path: str, body: Any = None) -> int:
            return client.request(
                method, path, json=body, headers={"Authorization": f"Bearer {name}"}
            ).status_code

        for name in ("talker", "seeder", "boss"):
            wish = {"definition": "quiet", "id": "c", "metadata": {"user": name}}
            assert ask(name, "POST", "/conversations", wish) == 201
        assert ask("talker", "POST", "/conversations/c/say", {"text": "x"}) == 403
        assert ask("talker", "POST", "/conversations/c/update", {"state": "thanks"}) == 403
        assert ask("seeder", "POST", "/conversations/c/say", {"text": "x"}) == 200
        assert ask("seeder", "POST", "/conversations/c/update", {"state": "thanks"}) == 200
        assert ask("seeder", "DELETE", "/conversations?metadata.user=talker") == 403
        assert ask("boss", "DELETE", "/conversations?metadata.user=talker") == 200
        assert ask("talker", "GET", "/conversations/c") == 200, (
            "a token erases its own conversations"
        )
        assert ask("boss", "DELETE", "/conversations?metadata.user=boss") == 200
        assert ask("boss", "GET", "/conversations/c") == 404


def test_a_secret_that_the_user_says_again_is_not_told_to_followers(tmp_path: Path) -> None:
    properties = {
        **QUIET["context_schema"]["properties"],
        "pin": {"type": "string", "x-secret": True},
    }
    document = {**QUIET, "context_schema": {"properties": properties}}
    machine = AsyncMachine.from_dict(
        document, model=ScriptedLLM([reply("ask", "Hm?")] * 3), store=SQLiteStore(tmp_path / "x.db")
    )
    with client_of(machine) as client:
        begin(client, context={"pin": "7391"})
        with Following(client) as following:
            following.until("conversation")
            client.post("/conversations/c/messages", json={"text": "my pin is 7391"})
            following.until("turn")
            assert "7391" not in json.dumps(following.events)
