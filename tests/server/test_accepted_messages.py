"""Messages over HTTP that are accepted at once, answered without their caller, and read later."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI

import warm_parent
from dead_processes import Hanging, killed_in
from llm_fsm import AsyncMachine
from llm_fsm.durable import submit
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.server import create_app
from llm_fsm.server.accepted import is_async
from llm_fsm.server.tokens import ALL_RIGHTS, Tokens, add_token
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served
from store_talkers import ECHO

MESSAGES = "/conversations/c/messages"
ASYNC = {"Prefer": "respond-async"}


class Echo:
    """A model that says "I see.", and waits for `go` first."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.count = 0

    async def complete(self, request: LLMRequest) -> ModelReply:
        self.count += 1
        self.asked.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return ModelReply(text='{"message":"I see.","transition":{"target_state":"hear"}}')


@contextmanager
def client_of(
    machine: AsyncMachine, due_seconds: float | None = 0.1, **options: Any
) -> Iterator[httpx.Client]:
    """A client of a server with the conversation "c"."""
    app = create_app(machine, closes=True, due_seconds=due_seconds, **options)
    with served(app) as url, client_at(url) as client:
        wish = {"definition": machine.definition.name, "greet": False, "id": "c"}
        client.post("/conversations", json=wish)
        yield client


def echo(model: Any = None, store: Any = None) -> AsyncMachine:
    return AsyncMachine.from_dict(ECHO, model=model or Echo(), store=store)


def accept(
    client: httpx.Client, key: str | None = "m1", text: str = "hello", **body: Any
) -> httpx.Response:
    headers = ASYNC if key is None else {**ASYNC, "Idempotency-Key": key}
    return client.post(MESSAGES, json={"text": text, **body}, headers=headers)


def answered(client: httpx.Client, place: str) -> httpx.Response:
    """The answer of an address as soon as it is no 202."""
    deadline = time.monotonic() + 20
    while (answer := client.get(place)).status_code == 202:
        assert time.monotonic() < deadline, "it is not answered"
        assert answer.headers["retry-after"] == "1"
        time.sleep(0.02)
    return answer


def detail(answer: httpx.Response, status: int, kind: str) -> str:
    """The words of a problem."""
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:llm-fsm:problem:{kind}"), problem
    return str(problem["detail"])


def test_a_message_is_accepted_at_once_and_its_turn_is_read_later() -> None:
    model = Echo()
    model.go.clear()
    with client_of(echo(model)) as client:
        got = accept(client)
        assert got.status_code == 202
        assert got.headers["preference-applied"] == "respond-async"
        assert got.headers["location"] == f"{MESSAGES}/m1"
        assert got.json() == {"conversation_id": "c", "request_id": "m1", "answered": False}
        waits = client.get(f"{MESSAGES}/m1")
        assert (waits.status_code, waits.headers["retry-after"]) == (202, "1")
        assert waits.json() == got.json()
        model.go.set()
        turn = answered(client, got.headers["location"])
        assert turn.status_code == 200
        headers = {"Idempotency-Key": "m1"}
        same = client.post(MESSAGES, json={"text": "hello"}, headers=headers)
        assert turn.json() == same.json()
        assert (turn.json()["text"], turn.json()["request_id"]) == ("I see.", "m1")
        assert accept(client).json()["answered"] is True
        assert model.count == 1


def test_an_accepted_message_begins_before_the_next_look() -> None:
    model = Echo()
    with client_of(echo(model), due_seconds=3_600.0) as client:
        place = accept(client).headers["location"]
        assert answered(client, place).json()["text"] == "I see."


def test_the_same_message_counts_once_and_another_one_needs_another_key() -> None:
    with client_of(echo(), due_seconds=None) as client:
        assert [accept(client).status_code for _ in range(2)] == [202, 202]
        assert "use a new id" in detail(accept(client, text="other"), 409, "conflict")


def test_a_message_without_a_key_is_refused() -> None:
    with client_of(echo()) as client:
        words = detail(accept(client, None), 400, "bad-request")
        assert "send an Idempotency-Key" in words
        for key in (".", ".."):
            assert "send another one" in detail(accept(client, key), 400, "bad-request")


def test_unknown_messages_and_conversations_are_not_found() -> None:
    with client_of(echo()) as client:
        for method in ("GET", "DELETE"):
            words = detail(client.request(method, f"{MESSAGES}/m9"), 404, "not-found")
            assert "no message of this id" in words
            gone = client.request(method, "/conversations/x/messages/m1")
            assert "no conversation" in detail(gone, 404, "not-found")
        headers = {**ASYNC, "Idempotency-Key": "m1"}
        none = client.post("/conversations/x/messages", json={"text": "a"}, headers=headers)
        assert "no conversation" in detail(none, 404, "not-found")


def test_a_message_is_cancelled_until_its_turn_begins() -> None:
    model = Echo()
    model.go.clear()
    with client_of(echo(model)) as client:
        accept(client)
        assert model.asked.wait(20)
        assert "has begun" in detail(client.delete(f"{MESSAGES}/m1"), 409, "conflict")
        accept(client, "m2")
        assert [client.delete(f"{MESSAGES}/m2").status_code for _ in range(2)] == [204, 204]
        words = detail(client.get(f"{MESSAGES}/m2"), 409, "cancelled")
        assert "with a new Idempotency-Key" in words
        assert detail(accept(client, "m2"), 409, "cancelled") == words
        model.go.set()
        assert answered(client, f"{MESSAGES}/m1").status_code == 200
        assert "is over" in detail(client.delete(f"{MESSAGES}/m1"), 409, "conflict")


def test_a_deleted_conversation_takes_its_messages_along() -> None:
    with client_of(echo(), due_seconds=None) as client:
        accept(client)
        assert client.delete("/conversations/c").status_code == 204
        assert "no conversation" in detail(client.get(f"{MESSAGES}/m1"), 404, "not-found")


def test_a_conversation_that_is_over_takes_no_message() -> None:
    model = ScriptedLLM([reply("bye", "Bye.", name="Ada")])
    with client_of(AsyncMachine.from_dict(GREETER, model=model), due_seconds=0.2) as client:
        later = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        accept(client, "late", not_before=later)
        assert answered(client, accept(client, "m1", "Ada").headers["location"]).json()["ended"]
        assert "begin a new one" in detail(accept(client, "m2"), 410, "ended")
        assert accept(client, "m1", "Ada").json()["answered"] is True
        assert "has ended" in detail(answered(client, f"{MESSAGES}/late"), 409, "conflict")


def test_a_parked_message_says_who_must_act() -> None:
    store: Any = MemoryStore()
    asyncio.run(submit("echo", "c", "hello", "m1", store=store))
    for _ in range(4):
        store = asyncio.run(killed(Hanging(), store))
    asyncio.run(echo(store=store).run_due())  # parks it
    with client_of(echo(store=store), due_seconds=None) as client:
        words = detail(client.get(f"{MESSAGES}/m1"), 409, "conflict")
        assert "llm-fsm conversations retry" in words
        assert "is over" in detail(client.delete(f"{MESSAGES}/m1"), 409, "conflict")


async def killed(hanging: Hanging, store: Any) -> Any:
    """The store after a process was killed in the turn of an accepted message."""

    class Asked(Echo):
        async def complete(self, request: LLMRequest) -> ModelReply:
            await hanging.hang()
            raise AssertionError

    return await killed_in(hanging, echo(Asked(), store).run_due(), store)


def test_the_openapi_document_has_the_answers_of_accepted_messages() -> None:
    with client_of(echo(), due_seconds=None) as client:
        document = client.get("/openapi.json").json()
        paths = document["paths"]
        path = "/conversations/{conversation_id}/messages"
        sent = paths[path]["post"]
        read = paths[f"{path}/{{request_id}}"]["get"]
        assert {"Prefer", "Idempotency-Key"} <= {one["name"] for one in sent["parameters"]}
        assert set(sent["responses"]["202"]["headers"]) == {"Location", "Preference-Applied"}
        got = accept(client)
        waits = client.get(got.headers["location"])
        for answer, operation in ((got, sent), (waits, read)):
            schema = operation["responses"]["202"]["content"]["application/json"]["schema"]
            whole = {**schema, "components": document["components"]}
            jsonschema_rs.validate(whole, answer.json())
        assert "204" in paths[f"{path}/{{request_id}}"]["delete"]["responses"]


def test_a_message_waits_for_its_time() -> None:
    with client_of(echo()) as client:
        later = datetime.now(UTC) + timedelta(hours=1)
        accept(client, "late", not_before=later.isoformat())
        assert answered(client, accept(client, "m1").headers["location"]).json()["number"] == 1
        assert client.get(f"{MESSAGES}/late").status_code == 202
        assert client.delete(f"{MESSAGES}/late").status_code == 204
        past = accept(client, "m2", not_before="2020-01-01t00:00:00z")
        assert answered(client, past.headers["location"]).json()["number"] == 2


@pytest.mark.parametrize(
    "given", ["soon", "2030-01-01T00:00:00", 1_900_000_000, "1900000000", True, []]
)
def test_a_time_is_a_date_and_time_with_an_offset(given: Any) -> None:
    with client_of(echo()) as client:
        problem = accept(client, not_before=given)
        detail(problem, 422, "invalid")
        assert problem.json()["errors"][0]["pointer"] == "/not_before"


def test_a_time_needs_the_preference() -> None:
    with client_of(echo()) as client:
        body = {"text": "a", "not_before": "2030-01-01T00:00:00Z"}
        words = detail(client.post(MESSAGES, json=body), 422, "invalid")
        assert "only with Prefer: respond-async" in words


def test_a_stream_is_answered_as_a_stream() -> None:
    with client_of(echo()) as client:
        headers = {**ASYNC, "Accept": "text/event-stream", "Idempotency-Key": "m1"}
        got = client.post(MESSAGES, json={"text": "hello"}, headers=headers)
        assert got.status_code == 200
        assert "preference-applied" not in got.headers
        assert "event: turn" in got.text


@pytest.mark.parametrize("key", ["a/b", "a%2Fb", "50%", "what?#", "a:b&c=d;e", "..."])
def test_the_location_of_every_key_is_its_address_also_when_mounted(key: str) -> None:
    app = create_app(echo(), closes=True, due_seconds=0.1)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with app.router.lifespan_context(app):
            yield

    host = FastAPI(lifespan=lifespan)
    host.mount("/bots", app)
    with served(host) as url, client_at(url) as client:
        wish = {"definition": "echo", "greet": False, "id": "c d"}
        begun = client.post("/bots/conversations", json=wish).headers["location"]
        headers = {**ASYNC, "Idempotency-Key": key}
        got = client.post(f"{begun}/messages", json={"text": "hello"}, headers=headers)
        assert got.headers["location"].startswith("/bots/conversations/c%20d/messages/")
        assert answered(client, got.headers["location"]).json()["request_id"] == key


def test_the_rights_of_the_conversation_hold_for_accepted_messages(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    names = {
        "web": add_token(file, "web", rights=["talk"]),
        "other": add_token(file, "other", rights=["talk"]),
        "reads": add_token(file, "reads", rights=["answer"], own=False),
        "all": add_token(file, "all", rights=ALL_RIGHTS, own=False),
    }
    tokens = Tokens.from_file(file)
    with client_of(echo(), due_seconds=None, tokens=tokens, hosts=None) as client:

        def ask(name: str, method: str, place: str) -> httpx.Response:
            headers = {**ASYNC, "Idempotency-Key": "m1", "Authorization": f"Bearer {names[name]}"}
            body = {"text": "hello"} if method == "POST" else None
            return client.request(method, place, json=body, headers=headers)

        wish = {"definition": "echo", "greet": False, "id": "c"}
        headers = {"Authorization": f"Bearer {names['web']}"}
        client.post("/conversations", json=wish, headers=headers)
        assert client.post(MESSAGES, json={"text": "a"}, headers=ASYNC).status_code == 401
        assert ask("web", "POST", MESSAGES).json()["conversation_id"] == "c"
        assert ask("web", "GET", f"{MESSAGES}/m1").status_code == 202
        for method, place in (
            ("POST", MESSAGES),
            ("GET", f"{MESSAGES}/m1"),
            ("DELETE", f"{MESSAGES}/m1"),
        ):
            assert ask("other", method, place).status_code == 404
        headers = {"Authorization": f"Bearer {names['all']}"}
        whole = client.get("/conversations", headers=headers).json()["conversations"][0]["id"]
        shared = f"/conversations/{whole}/messages"
        assert ask("reads", "GET", f"{shared}/m1").status_code == 202
        for method, place in (("POST", shared), ("DELETE", f"{shared}/m1")):
            assert "needs the right" in detail(ask("reads", method, place), 403, "forbidden")
        assert ask("web", "DELETE", f"{MESSAGES}/m1").status_code == 204


def test_a_worker_on_the_same_database_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with client_of(echo(store=url), due_seconds=None) as client:
        place = accept(client).headers["location"]

        async def work() -> None:
            async with echo(store=url) as machine:
                keeper = Upkeep(lambda: [machine])
                await keeper.look()
                await keeper.stop()

        asyncio.run(work())
        assert client.get(place).json()["text"] == "I see."


def test_another_process_answers_what_a_server_accepted_before_it_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with client_of(echo(store=url), due_seconds=None) as client:
        place = accept(client).headers["location"]
    (tmp_path / "echo.json").write_text(json.dumps(ECHO), encoding="utf-8")
    command = [sys.executable, "-m", "llm_fsm", "worker", str(tmp_path / "echo.json")]
    command += ["--db", url, "--model", "offline"]
    with (
        warm_parent.Popen(command) as worker,
        client_of(echo(store=url), due_seconds=None) as client,
    ):
        try:
            turn = answered(client, place)
        finally:
            worker.terminate()
    assert (turn.status_code, turn.json()["request_id"]) == (200, "m1")


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        (["respond-async"], True),
        (["wait=10", "handling=lenient, Respond-Async; x=1"], True),
        (["respond-asynchronously"], False),
        (['note="a, respond-async"'], False),
        ([], False),
    ],
)
def test_the_preference_is_read_as_its_standard_says(prefer: list[str], expected: bool) -> None:
    assert is_async(prefer) is expected
