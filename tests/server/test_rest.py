"""The REST door over a real loopback server."""

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

from llm_fsm import AsyncMachine, ModelError
from llm_fsm.server import Limits, create_app
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.testing import ScriptedLLM, calls, reply
from machines import GREETER
from refunds import PAID, REFUNDS
from served import client_at, served

JSON = {"Content-Type": "application/json"}
SECRETS: dict[str, Any] = {
    **GREETER,
    "name": "secrets",
    "context_schema": {
        "properties": {"name": {"type": "string"}, "pin": {"type": "string", "x-secret": True}}
    },
}


def greeter(*replies: Any, **options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)), **options)


@contextmanager
def client_of(
    *machines: AsyncMachine, headers: dict[str, str] | None = None, **options: Any
) -> Iterator[httpx.Client]:
    limits = options.pop("limits", None)
    app = create_app(machines, closes=True, limits=limits, due_seconds=None, **options)
    with served(app, limits) as url, client_at(url, headers=headers) as client:
        yield client


def begin(client: httpx.Client, definition: str = "greeter", **wish: Any) -> dict[str, Any]:
    answer = client.post("/conversations", json={"definition": definition, "greet": False, **wish})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def events_of(text: str) -> list[tuple[str, str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def test_a_conversation_from_its_start_to_its_end() -> None:
    with client_of(
        greeter(reply("hello", "Your name?"), reply("bye", "Bye Ada.", name="Ada"))
    ) as client:
        begun = client.post(
            "/conversations",
            json={"definition": "greeter", "id": "c1", "context": {"tier": "gold"}},
        )
        assert begun.status_code == 201
        assert begun.headers["location"] == "/conversations/c1"
        assert begun.json()["greeting"] == "Your name?"
        turn = client.post("/conversations/c1/messages", json={"text": "I am Ada"}).json()
        assert (turn["text"], turn["state"], turn["moved"], turn["ended"]) == (
            "Bye Ada.",
            "bye",
            True,
            True,
        )
        assert turn["context"] == {"tier": "gold", "name": "Ada"}
        assert turn["usage"]["calls"] == 1
        assert client.get("/conversations/c1").json()["ended"] is True
        messages = client.get("/conversations/c1/history").json()["messages"]
        assert [message["text"] for message in messages] == ["Your name?", "I am Ada", "Bye Ada."]
        turns = client.get("/conversations/c1/turns").json()["turns"]
        assert [event["type"] for event in turns[1]["events"]][:2] == ["UserSaid", "ModelReplied"]
        assert "text" not in turns[1]["events"][1]
        why = client.get("/conversations/c1/turns/1/why").json()
        assert (why["state"], why["arrived"]) == ("hello", "bye")
        ended = client.post("/conversations/c1/messages", json={"text": "more"})
        assert ended.status_code == 410
        assert client.post("/conversations/c1/undo", json={"turn": 7}).status_code == 409
        assert client.post("/conversations/c1/undo", json={"turn": 1}).json()["state"] == "hello"
        assert client.delete("/conversations/c1").status_code == 204
        assert client.get("/conversations/c1").status_code == 404


def test_the_same_key_gives_the_recorded_answer_and_another_body_is_a_conflict() -> None:
    model = ScriptedLLM([reply("hello", "One."), reply("hello", "Two.")])
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        place = f"/conversations/{begin(client)['id']}/messages"
        key = {"Idempotency-Key": "k-1"}
        first = client.post(place, json={"text": "a"}, headers=key)
        again = client.post(place, json={"text": "a"}, headers=key)
        assert first.json() == again.json()
        assert len(model.requests) == 1
        other = client.post(place, json={"text": "b"}, headers=key)
        assert other.status_code == 409
        assert other.json()["type"] == "urn:llm-fsm:problem:conflict"
        wish = {"definition": "greeter", "greet": False, "context": {"a": 1}}
        begun = client.post("/conversations", json=wish, headers=key)
        again = client.post("/conversations", json=wish, headers=key)
        assert (begun.status_code, again.status_code) == (201, 200)
        assert begun.json() == again.json()
        assert (
            client.post("/conversations", json={**wish, "context": {}}, headers=key).status_code
            == 409
        )


def test_a_stream_has_the_words_the_state_and_the_turn() -> None:
    with client_of(greeter(reply("bye", "Goodbye, dear Ada.", name="Ada"))) as client:
        place = f"/conversations/{begin(client)['id']}/messages"
        headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
        answer = client.post(place, json={"text": "Ada"}, headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer.text)
        assert (
            "".join(data["text"] for _, name, data in events if name == "delta")
            == "Goodbye, dear Ada."
        )
        assert ("state", {"state": "bye", "previous_state": "hello", "by": "model"}) in [
            item[1:] for item in events
        ]
        assert events[-1][1] == "turn"
        assert events[-1][2]["context"] == {"name": "Ada"}
        assert all(name.startswith("k:") for name, *_ in events)

        def told(events: list[tuple[str, str, Any]]) -> tuple[str, list[tuple[str, str, Any]]]:
            """The words, however they are divided, and all other events."""
            words = "".join(data["text"] for _, name, data in events if name == "delta")
            return words, [event for event in events if event[1] != "delta"]

        for place_of_last, (last, *_) in enumerate(events[:-1]):
            again = {"Accept": "text/event-stream", "Last-Event-ID": last}
            rest = client.post(place, json={"text": "Ada"}, headers=again)
            assert told(events_of(rest.text)) == told(events[place_of_last + 1 :])
        whole = client.post(place, json={"text": "Ada"}, headers=headers)
        assert told(events_of(whole.text)) == told(events)


class Slow(ScriptedLLM):
    """A model that takes its time."""

    async def complete(self, request: Any) -> Any:
        await asyncio.sleep(0.5)
        return await super().complete(request)

    stream = None  # type: ignore[assignment]


def test_a_turn_is_finished_though_its_client_has_left_and_the_client_gets_it_when_it_comes_back() -> (
    None
):
    model = Slow([reply("bye", "Bye.", name="Ada")])
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        place = f"/conversations/{begin(client)['id']}/messages"
        headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
        with client.stream("POST", place, json={"text": "Ada"}, headers=headers):
            pass  # and leave
        events = events_of(client.post(place, json={"text": "Ada"}, headers=headers).text)
        assert events[-1][1] == "turn"
        assert len(model.requests) == 1


def test_secrets_are_dots() -> None:
    model = ScriptedLLM([reply("hello", "Hm.")])
    with client_of(AsyncMachine.from_dict(SECRETS, model=model)) as client:
        begun = begin(client, "secrets", context={"pin": "12345"})
        turn = client.post(f"/conversations/{begun['id']}/messages", json={"text": "x"})
        turns = client.get(f"/conversations/{begun['id']}/turns")
        assert begun["context"] == {"pin": "•••"}
        assert "12345" not in turn.text + turns.text


def refund(amount: int, to: str = "card") -> str:
    return f"refunded {amount} to {to}"


def test_a_pause_is_shown_and_answered() -> None:
    model = ScriptedLLM([calls(("refund", {"amount": 5})), PAID])
    with client_of(AsyncMachine.from_dict(REFUNDS, model=model, tools=[refund])) as client:
        place = f"/conversations/{begin(client, 'refunds')['id']}"
        turn = client.post(f"{place}/messages", json={"text": "5 back"}).json()
        assert turn["paused"]["kind"] == "approval"
        assert turn["outcome"] == "paused"
        assert client.post(f"{place}/messages", json={"text": "well?"}).status_code == 409
        assert client.post(f"{place}/answer", json={"value": {"approved": 5}}).status_code == 422
        stale = client.post(f"{place}/answer", json={"value": {"approved": True}, "pause": "old"})
        assert stale.status_code == 409
        answered = client.post(
            f"{place}/answer",
            json={"value": {"approved": True}},
            headers={"Accept": "text/event-stream"},
        )
        events = events_of(answered.text)
        assert [data["name"] for _, name, data in events if name == "tool"] == ["refund"]
        assert events[-1][2]["paused"]["what"] == "signature"
        done = client.post(f"{place}/answer", json={"value": {"by": "Eve"}}).json()
        assert (done["text"], done["ended"]) == ("Bye Eve.", True)


def test_a_conversation_is_forked_and_listed_by_page() -> None:
    model = ScriptedLLM([reply("hello", "One."), reply("hello", "Two.")])
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        begin(client, id="a")
        for text in ("1", "2"):
            client.post("/conversations/a/messages", json={"text": text})
        forked = client.post("/conversations/a/fork", json={"turn": 1, "id": "b"})
        assert forked.status_code == 201
        history = client.get("/conversations/b/history").json()["messages"]
        assert [message["text"] for message in history] == ["1", "One."]
        begin(client, id="c")
        page = client.get("/conversations?limit=2").json()
        assert ([line["id"] for line in page["conversations"]], page["next"]) == (["a", "b"], "b")
        page = client.get("/conversations?limit=2&after=b").json()
        assert ([line["id"] for line in page["conversations"]], page["next"]) == (["c"], None)


def test_two_machines_with_one_database_list_each_conversation_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'both.db'}"
    other = AsyncMachine.from_dict({**GREETER, "name": "other"}, model=ScriptedLLM([]), store=url)
    with client_of(greeter(store=url), other) as client:
        begin(client, id="a")
        begin(client, "other", id="b")
        page = client.get("/conversations?limit=2").json()
        assert ([line["id"] for line in page["conversations"]], page["next"]) == (["a", "b"], None)


WORK: dict[str, Any] = {
    "name": "work",
    "initial_state": "do",
    "states": {
        "do": {
            "kind": "task",
            "purpose": "Do it",
            "execute": "do_it",
            "transitions": [{"target_state": "ask"}],
        },
        "ask": {"kind": "wait", "wait_for": "a yes", "transitions": [{"target_state": "end"}]},
        "end": {"kind": "final"},
    },
}


def do_it(ctx: Any) -> str:
    time.sleep(0.3)
    return f"did {ctx.input}"


def test_a_run_is_started_followed_answered() -> None:
    machine = AsyncMachine.from_dict(WORK, model=ScriptedLLM([]), functions=[do_it])
    with client_of(machine) as client:
        begun = client.post("/runs", json={"definition": "work", "input": "it", "id": "r"})
        assert begun.status_code == 202
        assert begun.json()["status"] == "running"
        assert (
            client.post("/runs", json={"definition": "work", "input": "it", "id": "r"}).status_code
            == 202
        )
        events = events_of(client.get("/runs/r/events").text)
        assert ("attempt", {"state": "do", "attempt": 1}) in [item[1:] for item in events]
        assert events[-1][1] == "turn"
        found = client.get("/runs/r").json()
        assert (found["status"], found["paused"]["what"]) == ("paused", "a yes")
        assert client.post("/runs/r/answer", json={"value": True}).status_code == 202
        for _ in range(100):
            if client.get("/runs/r").json()["status"] == "passed":
                break
            time.sleep(0.05)
        assert client.get("/runs/r").json()["status"] == "passed"
        other = client.post("/runs", json={"definition": "work", "input": "other", "id": "r"})
        assert other.status_code == 409


def test_a_run_never_takes_the_id_of_another_definitions_conversation() -> None:
    machine = AsyncMachine.from_dict(WORK, model=ScriptedLLM([]), functions=[do_it])
    with client_of(greeter(), machine) as client:
        begin(client, id="taken")
        answer = client.post("/runs", json={"definition": "work", "input": "it", "id": "taken"})
        assert answer.status_code == 409
        assert "another definition" in answer.json()["detail"]
        found = client.get("/conversations/taken").json()
        assert (found["definition"], found["state"]) == ("greeter", "hello")


def test_a_run_is_cancelled() -> None:
    machine = AsyncMachine.from_dict(WORK, model=ScriptedLLM([]), functions=[do_it])
    with client_of(machine) as client:
        client.post("/runs", json={"definition": "work", "input": "it", "id": "r"})
        assert client.post("/runs/r/cancel").json()["status"] == "closed"


def test_definitions_are_listed_read_and_drawn() -> None:
    with client_of(greeter()) as client:
        (head,) = client.get("/definitions").json()["definitions"]
        assert (head["name"], head["states"]) == ("greeter", ["hello", "bye"])
        assert client.get("/definitions/greeter").json()["document"]["initial_state"] == "hello"
        assert client.get("/definitions/greeter/schema").json()["type"] == "object"
        assert client.get("/definitions/greeter/diagram?format=mermaid").text.startswith(
            "stateDiagram"
        )
        assert client.get("/definitions/nobody").status_code == 404
        image = client.get("/definitions/greeter/diagram")
        assert image.status_code in (200, 503)
        document = client.get("/openapi.json").json()
        assert document["openapi"].startswith("3.1")


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "kind"),
    [
        ("POST", "/conversations", {"content": b"{", "headers": JSON}, 400, "bad-request"),
        ("POST", "/conversations", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415,
         "unsupported-media-type"),
        ("POST", "/conversations", {"json": {}}, 422, "invalid"),
        ("POST", "/conversations", {"json": {"definition": "greeter", "context": [1]}}, 422, "invalid"),
        ("POST", "/conversations", {"json": {"definition": "nobody"}}, 404, "not-found"),
        ("POST", "/conversations", {"json": {"definition": "greeter", "state": "nowhere"}}, 422, "invalid"),
        ("POST", "/conversations", {"json": {"definition": "greeter", "id": "a/b"}}, 422, "invalid"),
        ("POST", "/conversations/no/messages", {"json": {"text": "x"}}, 404, "not-found"),
        ("POST", "/conversations/c/messages", {"json": {"text": " "}}, 422, "invalid"),
        ("POST", "/conversations/c/messages", {"json": {"text": "x" * 150_000}}, 422, "invalid"),
        ("POST", "/conversations/c/messages", {"json": {"text": 5}}, 422, "invalid"),
        ("POST", "/conversations/c/messages", {"json": {"text": "x", "extra": 1}}, 422, "invalid"),
        ("POST", "/conversations/c/messages", {"json": {"text": "x"}, "headers": {"Idempotency-Key": "a b"}}, 400,
         "bad-request"),
        ("POST", "/conversations/c/messages", {"content": b'"' + b"x" * 10_000_000 + b'"',
         "headers": JSON}, 413, "too-large"),
        ("POST", "/conversations/c/messages", {"json": {"text": "x"}, "headers": {"Origin": "https://evil.example"}},
         403, "forbidden"),
        ("GET", "/conversations/c", {"headers": {"Host": "evil.example"}}, 403, "forbidden"),
        ("GET", "/conversations/c/turns/9/why", {}, 404, "not-found"),
        ("GET", "/conversations?limit=0", {}, 422, "invalid"),
        ("PUT", "/conversations", {}, 405, "method-not-allowed"),
        ("GET", "/nothing", {}, 404, "not-found"),
        ("GET", "/assets/..%2f..%2fapp.py", {}, 404, "not-found"),
        ("POST", "/conversations/c/answer", {"json": {"value": 1}}, 409, "conflict"),
        ("POST", "/conversations/c/undo", {}, 409, "conflict"),
        ("POST", "/runs", {"json": {"definition": "greeter"}}, 409, "conflict"),
    ],
)  # fmt: skip
def test_bad_input_is_a_problem_document(  # noqa: PLR0917
    shared: httpx.Client, method: str, path: str, options: dict[str, Any], status: int, kind: str
) -> None:
    answer = shared.request(method, path, **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:llm-fsm:problem:{kind}"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


@pytest.fixture(scope="module")
def shared() -> Iterator[httpx.Client]:
    with client_of(greeter()) as client:
        begin(client, id="c")
        yield client


def test_deep_json_and_lone_surrogates_are_taken_or_refused_in_words(shared: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    deep = (
        b'{"definition":"greeter","greet":false,"context":{"a":'
        + b"[" * 5_000
        + b"]" * 5_000
        + b"}}"
    )
    assert shared.post("/conversations", content=deep, headers=headers).status_code in (400, 422)
    odd = b'{"definition":"greeter","greet":false,"context":{"a":"\\ud800 \\u0000"}}'
    begun = shared.post("/conversations", content=odd, headers=headers)
    assert begun.status_code in (201, 422)
    wide = b'{"definition":"greeter","greet":false,"context":{"a":1e999}}'
    assert shared.post("/conversations", content=wide, headers=headers).status_code in (400, 422)


def test_a_model_that_is_away_is_503_and_works_again_later() -> None:
    model = ScriptedLLM(
        [ModelError("down", retryable=False, status=503, retry_after=7), reply("hello", "Back.")]
    )
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        place = f"/conversations/{begin(client)['id']}/messages"
        away = client.post(place, json={"text": "a"})
        assert (away.status_code, away.headers["retry-after"]) == (503, "7")
        assert away.json()["type"] == "urn:llm-fsm:problem:model-unavailable"
        assert client.post(place, json={"text": "a"}).json()["text"] == "Back."


def test_a_stream_tells_a_failure_as_an_event() -> None:
    with client_of(greeter(ModelError("down"))) as client:
        place = f"/conversations/{begin(client)['id']}/messages"
        answer = client.post(place, json={"text": "a"}, headers={"Accept": "text/event-stream"})
        (event,) = [item for item in events_of(answer.text) if item[1] == "error"]
        assert event[2]["status"] == 503


def slowly(url: str, pieces: list[bytes], pause: float) -> tuple[bytes, float]:
    """What a server answers to a request that arrives piece by piece, and after how long the
    connection ends.
    """
    host, port = url.removeprefix("http://").split(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), 30) as connection:
        answer = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            while part := connection.recv(4096):
                answer += part
        except OSError:
            pass
    return answer, time.monotonic() - began


def test_slow_headers_and_slow_bodies_do_not_keep_a_connection() -> None:
    limits = Limits(header_seconds=0.5, body_seconds=0.5)
    with client_of(greeter(), limits=limits) as client:
        url = str(client.base_url).rstrip("/")
        answer, seconds = slowly(url, [b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 20], 0.1)
        assert (answer, seconds < 5) == (b"", True)
        head = (
            b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        answer, seconds = slowly(url, [head + b"Content-Length: 100\r\n\r\n", b" ", b" "], 0.1)
        assert b" 408 " in answer.splitlines()[0]
        assert seconds < 5
        answer, _ = slowly(url, [b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n"], 0)
        assert answer == b""


def paged(client: httpx.Client, path: str, name: str, limit: int) -> list[Any]:
    found: list[Any] = []
    place: int | None = 0
    while place is not None:
        page = client.get(path, params={"after": place, "limit": limit}).json()
        assert len(page[name]) <= limit
        found += page[name]
        place = page["next"]
    return found


def test_history_and_turns_come_in_pages() -> None:
    model = ScriptedLLM([reply("hello", f"Your name? {number}") for number in range(60)])
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        chat = f"/conversations/{begin(client)['id']}"
        for number in range(60):
            client.post(f"{chat}/messages", json={"text": f"a{number}"})
        whole = client.get(f"{chat}/history", params={"limit": 1000}).json()
        assert (len(whole["messages"]), whole["next"]) == (120, None)
        first = client.get(f"{chat}/history").json()
        assert (len(first["messages"]), first["next"]) == (100, 100)
        for limit in (1, 7, 120, 500):
            assert paged(client, f"{chat}/history", "messages", limit) == whole["messages"]
        turns = client.get(f"{chat}/turns").json()
        assert (len(turns["turns"]), turns["next"]) == (61, None)
        assert paged(client, f"{chat}/turns", "turns", 9) == turns["turns"]
        assert client.get(f"{chat}/turns", params={"after": 999}).json() == {
            "turns": [], "next": None,
        }  # fmt: skip
        for wrong in ({"limit": 0}, {"limit": 1001}, {"after": -1}, {"cursor": 1}):
            assert client.get(f"{chat}/history", params=wrong).status_code == 422
        paths = client.get("/openapi.json").json()["paths"]
        for name in ("history", "turns"):
            names = paths[f"/conversations/{{conversation_id}}/{name}"]["get"]["parameters"]
            assert {"after", "limit"} <= {one["name"] for one in names}


def test_messages_and_streams_have_limits() -> None:
    limits = Limits(messages_per_minute=2)
    with client_of(greeter(reply("hello")), limits=limits) as client:
        begun = begin(client)
        assert (
            client.post(f"/conversations/{begun['id']}/messages", json={"text": "a"}).status_code
            == 200
        )
        busy = client.post(f"/conversations/{begun['id']}/messages", json={"text": "a"})
        assert busy.status_code == 429
        assert int(busy.headers["retry-after"]) > 0
    with client_of(greeter(reply("hello")), limits=Limits(streams=0)) as client:
        begun = begin(client)
        headers = {"Accept": "text/event-stream"}
        full = client.post(
            f"/conversations/{begun['id']}/messages", json={"text": "a"}, headers=headers
        )
        assert full.status_code == 429


def test_tokens_see_their_own_conversations_and_definitions_alone(tmp_path: Any) -> None:
    file = tmp_path / "tokens.json"
    ada, bob = add_token(file, "ada"), add_token(file, "bob", definitions=["secrets"])
    root = add_token(file, "root", own=False)
    assert ada not in file.read_text()
    machines = (greeter(reply("hello", "Hi.")), AsyncMachine.from_dict(SECRETS, model="offline"))
    with client_of(*machines, tokens=Tokens.from_file(file), hosts=None) as client:

        def by(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        assert client.get("/definitions").status_code == 401
        assert (
            client.get("/definitions", headers=by("wrong")).headers["www-authenticate"] == "Bearer"
        )
        assert client.get("/healthz").status_code == 200
        wish = {"definition": "greeter", "greet": False, "id": "mine"}
        assert client.post("/conversations", json=wish, headers=by(ada)).status_code == 201
        assert client.post("/conversations", json=wish, headers=by(bob)).status_code == 404
        again = client.post("/conversations", json=wish, headers=by(ada))
        assert again.status_code == 409
        assert "ada~" not in again.text
        for path in ("", "/history", "/turns"):
            assert client.get(f"/conversations/mine{path}", headers=by(ada)).status_code == 200
            assert client.get(f"/conversations/mine{path}", headers=by(bob)).status_code == 404
        turn = client.post(
            "/conversations/mine/messages", json={"text": "a"}, headers=by(ada)
        ).json()
        assert turn["conversation_id"] == "mine"
        assert "ada~" not in client.get("/conversations/mine/turns", headers=by(ada)).text
        listed = client.get("/conversations", headers=by(ada)).json()["conversations"]
        assert [line["id"] for line in listed] == ["mine"]
        assert client.get("/conversations", headers=by(bob)).json()["conversations"] == []
        usable = client.get("/definitions", headers=by(bob)).json()["definitions"]
        assert [line["name"] for line in usable] == ["secrets"]
        everything = client.get("/conversations", headers=by(root)).json()["conversations"]
        assert [line["id"] for line in everything] == ["ada~mine"]


def test_foreign_pages_are_refused_and_cors_admits_those_that_are_named() -> None:
    with client_of(greeter(), cors=["https://front.example"]) as client:
        wish = {"definition": "greeter", "greet": False}
        allowed = client.post(
            "/conversations", json=wish, headers={"Origin": "https://front.example"}
        )
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (
            201,
            "https://front.example",
        )
        assert (
            client.post("/conversations", json=wish, headers={"Origin": "null"}).status_code == 403
        )
        own = client.post(
            "/conversations", json=wish, headers={"Origin": str(client.base_url).rstrip("/")}
        )
        assert own.status_code == 201


def test_many_streams_at_once_end_well() -> None:
    count = 50
    model = Slow([reply("bye", "Bye.", name="Ada")] * count)
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        places = [begin(client)["id"] for _ in range(count)]
        last: list[str] = []

        def talk(place: str) -> None:
            headers = {"Accept": "text/event-stream"}
            answer = client.post(
                f"/conversations/{place}/messages", json={"text": "Ada"}, headers=headers
            )
            last.append(events_of(answer.text)[-1][1])

        threads = [threading.Thread(target=talk, args=(place,)) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert last == ["turn"] * count


@pytest.mark.parametrize("way", ["delete", "undo"])
def test_a_streamed_message_that_is_told_as_done_is_on_record(way: str) -> None:
    model = ScriptedLLM([reply("hello", "Erased words."), reply("hello", "New words.")])
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        begin(client, id="c")
        place, headers = (
            "/conversations/c/messages",
            {"Accept": "text/event-stream", "Idempotency-Key": "k"},
        )
        client.post(place, json={"text": "a"}, headers=headers)
        if way == "undo":
            assert client.post("/conversations/c/undo").status_code == 200
        assert client.delete("/conversations/c").status_code == 204
        begin(client, id="c")
        events = events_of(client.post(place, json={"text": "a"}, headers=headers).text)
        assert events[-1][2]["text"] == "New words."
        messages = client.get("/conversations/c/history").json()["messages"]
        assert [message["text"] for message in messages] == ["a", "New words."]


def test_another_process_deletes_a_conversation_whose_streamed_turn_is_remembered(
    tmp_path: Any,
) -> None:
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
    place, wish = "/conversations/c/messages", {"text": "a"}
    with client_of(
        greeter(reply("hello", "Erased words."), reply("hello", "More."), store=store)
    ) as client:
        begin(client, id="c")
        client.post(place, json=wish, headers=headers)
        with client_of(greeter(reply("hello", "New words."), store=store)) as other:
            assert other.delete("/conversations/c").status_code == 204
            gone = client.post(place, json=wish, headers=headers)
            begin(other, id="c")
            other.post(place, json=wish, headers=headers)
        again = events_of(client.post(place, json=wish, headers=headers).text)
    assert "Erased words." not in gone.text
    assert again[-1][2]["text"] == "New words."


def test_a_stream_that_is_told_anew_says_that_its_first_words_restart(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    place, wish = "/conversations/c/messages", {"text": "a"}
    with client_of(greeter(reply("hello", "One two three."), store=store)) as client:
        begin(client, id="c")
        headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
        client.post(place, json=wish, headers=headers)
    with client_of(greeter(store=store)) as client:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "k:1000"}
        events = [
            item[1:] for item in events_of(client.post(place, json=wish, headers=headers).text)
        ]
    assert ("delta", {"text": "One two three.", "restart": True}) in events
    assert events[-1][0] == "turn"


def test_a_conversation_begins_in_the_language_of_the_header() -> None:
    bye = {"kind": "final", "purpose": "Say goodbye"}
    document = {
        "name": "two",
        "languages": ["de"],
        "initial_state": "hello",
        "states": {
            "hello": {"reply": "Hello!", "transitions": [{"target_state": "bye"}]},
            "bye": bye,
        },
        "texts": {"de": {"/states/hello/reply": "Hallo!"}},
    }
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM([]))
    with client_of(machine) as client:
        greetings = []
        for header in ("de-CH, en;q=0.5", "fr", "de-CH, en;q=0.5"):
            headers = {"Accept-Language": header, "Idempotency-Key": header[:2]}
            answer = client.post("/conversations", json={"definition": "two"}, headers=headers)
            greetings.append(answer.json()["greeting"])
    assert greetings == ["Hallo!", "Hello!", "Hallo!"]
