"""Every example runs: as a program with the model `offline`, and in the process with a scripted
one.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from example_modules import EXAMPLES, example, file_of
from llm_fsm import AsyncMachine, Machine, ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.events import MoveRefused
from llm_fsm.testing import reply
from llm_fsm.testing.server.server import serve_scripted

__all__ = ["example"]


def run(
    name: str, *arguments: str, said: str = "", folder: Path | None = None, **environment: str
) -> str:
    """What an example prints when it is run as its docstring says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LLM_FSM_")}
    done = subprocess.run(
        [sys.executable, str(file_of(name)), *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
        env={**kept, **environment},
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path: Path, example: Any) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith('"""')
    assert "\nRun:  " in source.split('"""')[1]


def test_each_folder_of_examples_has_three_lines_and_a_place_in_the_index() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = {path.parent for path in EXAMPLES.rglob("*.py")}
    assert EXAMPLES not in folders
    for folder in folders:
        title, *lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
        assert title.startswith("# ")
        assert len(lines) == 3
        assert [path.name for path in folder.glob("*.py") if f"`{path.name}`" not in lines[0]] == []
        assert f"({folder.name}/README.md)" in index


# -- ten_lines


def test_ten_lines_are_ten_lines() -> None:
    source = file_of("ten_lines").read_text(encoding="utf-8")
    code = source.split('"""')[2].splitlines()
    assert len([line for line in code if line and not line.startswith(("import ", "from "))]) <= 10


def test_ten_lines_hold_a_conversation_with_the_model_of_the_argument() -> None:
    printed = run(
        "ten_lines", "offline", said="I'm Ada\n\nTo see the house\nnever read\n"
    ).splitlines()
    assert printed[0] == "Hello, and welcome! What may I call you?"
    assert printed[1].startswith("What brings you here today?")
    assert printed[2] == "Please say something."
    assert printed[3:] == ["Goodbye, Ada, and have a good day!"]


def test_ten_lines_take_the_model_from_the_environment() -> None:
    assert "Hello" in run("ten_lines", LLM_FSM_MODEL="offline")


def test_ten_lines_talk_to_a_server() -> None:
    with serve_scripted([reply("hello", "Welcome!"), reply("goodbye", "Off you go.")]) as server:
        printed = run(
            "ten_lines",
            said="I have to go\n",
            LLM_FSM_MODEL="any",
            LLM_FSM_BASE_URL=server.base_url,
        )
    greeting = ["Welcome!", "", "Hello, and welcome! What may I call you?"]
    assert printed.splitlines() == [*greeting, "Off you go.", "", "Goodbye, and have a good day!"]


# -- fastapi_app


def registration(replies: list[Any]) -> tuple[AsyncMachine, ScriptedLLM]:
    model = ScriptedLLM(replies)
    path = EXAMPLES.parent / "fsm_definitions" / "registration.json"
    return AsyncMachine.from_file(path, model=model, store="memory"), model


@pytest.fixture
def serving(example: Any) -> Any:
    """Run the application around a machine; gives a client for it."""

    @asynccontextmanager
    async def run_app(machine: AsyncMachine | None = None) -> AsyncIterator[AsyncClient]:
        app = example("fastapi_app").create_app(machine)
        async with (
            app.router.lifespan_context(app),
            AsyncClient(transport=ASGITransport(app), base_url="http://service") as client,
        ):
            yield client

    return run_app


@pytest.mark.anyio
async def test_the_service_starts_and_goes_on_with_a_conversation(serving: Any) -> None:
    machine, _ = registration([reply("details", "Thank you.", full_name="Ada")])
    async with serving(machine) as client:
        started = await client.post("/conversations")
        assert started.status_code == 201
        first = "Let us set up your account. What are your full name and your e-mail address?"
        assert started.json()["text"] == first
        answer = await client.post(
            f"/conversations/{started.json()['conversation_id']}/messages", json={"text": "Ada"}
        )
    assert answer.json() == {
        "conversation_id": started.json()["conversation_id"],
        "text": "Thank you.\n\nWhat is your e-mail address?",
        "state": "details",
        "ended": False,
    }


@pytest.mark.anyio
async def test_the_service_answers_a_repeated_request_from_the_record(serving: Any) -> None:
    machine, model = registration([reply("details", "Thank you.", full_name="Ada")])
    async with serving(machine) as client:
        where = f"/conversations/{(await client.post('/conversations')).json()['conversation_id']}/messages"
        answers = [
            (await client.post(where, json={"text": "Ada", "request_id": "m1"})).json()
            for _ in range(3)
        ]
        other = await client.post(where, json={"text": "Bob", "request_id": "m1"})
    assert answers[0] == answers[1] == answers[2]
    assert len(model.requests) == 1
    assert other.status_code == 409


def told(body: str) -> list[tuple[str, Any]]:
    """The server-sent events of an answer."""
    events = [event.split("\n") for event in body.split("\n\n") if event]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in events
    ]


@pytest.mark.anyio
async def test_the_service_streams_words_and_then_the_answer(serving: Any) -> None:
    machine, model = registration([reply("details", "Thank you.", full_name="Ada")])
    async with serving(machine) as client:
        where = f"/conversations/{(await client.post('/conversations')).json()['conversation_id']}"
        said = {"text": "Ada", "request_id": "m1"}
        *words, (last, answer) = told((await client.post(f"{where}/stream", json=said)).text)
        assert {name for name, _ in words} == {"words"}
        assert len(words) > 1
        text = "Thank you.\n\nWhat is your e-mail address?"
        assert "".join(word for _, word in words) == answer["text"] == text
        assert (last, answer) == (
            "turn",
            (await client.post(f"{where}/messages", json=said)).json(),
        )
        again = told((await client.post(f"{where}/stream", json=said)).text)
        other = told((await client.post(f"{where}/stream", json={**said, "text": "Bob"})).text)
    assert again == [("words", text), ("turn", answer)]
    assert [name for name, _ in other] == ["error"]
    assert len(model.requests) == 1


@pytest.mark.anyio
async def test_the_service_says_who_must_act(serving: Any) -> None:
    failed = ModelError("the provider is down", retryable=True)
    machine, _ = registration([failed, reply("cancelled")])
    async with serving(machine) as client:
        started = (
            await client.post("/conversations", json={"context": {"full_name": "Ada"}})
        ).json()
        where = f"/conversations/{started['conversation_id']}/messages"
        statuses = {
            "unknown": (
                await client.post("/conversations/nobody/messages", json={"text": "hi"})
            ).status_code,
            "empty": (await client.post(where, json={"text": ""})).status_code,
            "blank": (await client.post(where, json={"text": "  "})).status_code,
            "wrong value": (
                await client.post("/conversations", json={"context": {"email": "x"}})
            ).status_code,
            "provider": (await client.post(where, json={"text": "stop"})).status_code,
            "again": (await client.post(where, json={"text": "stop"})).status_code,
            "ended": (await client.post(where, json={"text": "hello?"})).status_code,
        }
    assert statuses == {
        "unknown": 404,
        "empty": 422,
        "blank": 422,
        "wrong value": 422,
        "provider": 503,
        "again": 200,
        "ended": 410,
    }


@pytest.mark.anyio
async def test_the_service_makes_its_own_machine(
    serving: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLM_FSM_MODEL", "offline")
    monkeypatch.setenv("LLM_FSM_STORE", f"sqlite:///{tmp_path / 'service.db'}")
    async with serving() as client:
        started = (await client.post("/conversations")).json()
    async with serving() as client:
        where = f"/conversations/{started['conversation_id']}/messages"
        assert (
            await client.post(where, json={"text": "I'm Ada Lovelace, ada@example.com"})
        ).json()["state"] == "phone"


# -- webhook_bot

SECRET = b"change-me"


@pytest.fixture
def webhook(example: Any) -> Iterator[Any]:
    """Start the bot with a scripted model; gives a function that delivers a body to it."""
    bot = example("webhook_bot")
    running: list[Any] = []

    def start(replies: list[Any]) -> Any:
        machine = Machine.from_file(bot.DEFINITION, model=ScriptedLLM(replies), store="memory")
        server = bot.serve(machine, SECRET, 0)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.append((machine, server, thread))

        def deliver(body: bytes, signature: str | None = None) -> tuple[int, dict[str, str]]:
            signed = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
            client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            client.request("POST", "/", body, {"X-Signature-256": signature or signed})
            answer = client.getresponse()
            found = answer.status, json.loads(answer.read())
            client.close()
            return found

        return deliver

    yield start
    for machine, server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()
        machine.close()


def message(number: int, text: str, thread: str = "t1") -> bytes:
    return json.dumps({"id": f"m{number}", "thread": thread, "text": text}).encode()


def test_the_webhook_answers_and_repeats_a_repeated_delivery(webhook: Any) -> None:
    deliver = webhook(
        [reply("route", "Which order is it?", topic="order"), reply("discarded", "Fine.")]
    )
    first = deliver(message(1, "My order is late"))
    assert first == (200, {"text": "Which order is it?"})
    assert deliver(message(1, "My order is late")) == first
    ended = deliver(message(2, "Oh, there it is"))
    assert ended[1]["text"].startswith("Fine.")
    assert deliver(message(2, "Oh, there it is")) == ended
    assert deliver(message(3, "Hello?")) == (
        200,
        {"text": "This conversation has ended; please start a new one."},
    )


def test_the_webhook_keeps_threads_apart(webhook: Any) -> None:
    deliver = webhook(
        [
            reply("route", "Which order?", topic="order"),
            reply("route", "Which invoice?", topic="billing"),
        ]
    )
    assert deliver(message(1, "order", "t1"))[1]["text"] == "Which order?"
    assert deliver(message(1, "bill", "t2"))[1]["text"] == "Which invoice?"


@pytest.mark.parametrize("signature", ["sha256=00", "nonsense", "sha256=é"])
def test_the_webhook_believes_no_wrong_signature(webhook: Any, signature: str) -> None:
    assert webhook([])(message(1, "hi"), signature)[0] == 401


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[]",
        b'{"thread": "t", "text": "x"}',
        b'{"id": 1, "thread": "t", "text": "x"}',
        b'{"id": "1", "thread": "t", "text": "  "}',
        b'{"id": "1", "thread": "", "text": "x"}',
    ],
)
def test_the_webhook_refuses_what_is_no_message(webhook: Any, body: bytes) -> None:
    assert webhook([])(body)[0] == 400


def test_the_webhook_refuses_a_body_that_is_too_long(webhook: Any) -> None:
    assert webhook([])(b" " * 100_001)[0] == 413


def test_the_webhook_lets_the_provider_deliver_again_when_the_model_failed(webhook: Any) -> None:
    deliver = webhook([ModelError("down", retryable=True), reply("discarded", "Fine.")])
    assert deliver(message(1, "stop"))[0] == 503
    assert deliver(message(1, "stop"))[0] == 200


def test_the_webhook_needs_a_secret(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        run("webhook_bot", folder=tmp_path, LLM_FSM_MODEL="offline")
    assert "WEBHOOK_SECRET" in error.value.stderr


# -- many_conversations


def test_many_conversations_all_come_to_their_end() -> None:
    assert run("many_conversations", "offline") == "200 ended, 0 open, 0 failed\n"


# -- handlers


@pytest.fixture
def returns(example: Any) -> Iterator[Any]:
    """Start a conversation about a return with scripted replies and the example's handlers."""
    module = example("handlers")
    machines: list[Machine] = []

    def start(*replies: Any) -> Any:
        machine = Machine.from_file(
            module.DEFINITION,
            model=ScriptedLLM(list(replies)),
            store="memory",
            handlers=module.handlers(),
        )
        machines.append(machine)
        return machine.start()

    yield start
    for machine in machines:
        machine.close()


def test_a_lookup_sets_what_no_reply_can(returns: Any) -> None:
    chat = returns(reply("check", order_number="R-204518", pin="4711"))
    turn = chat.send("R-204518, 4711")
    assert turn.state == "article"
    assert turn.context == {"order_number": "R-204518", "verified_order": "R-204518"}


def test_a_lookup_counts_failed_attempts(returns: Any) -> None:
    chat = returns(*(reply("check", order_number="R-204518", pin=f"000{n}") for n in range(3)))
    assert [chat.send("a guess").state for _ in range(3)] == ["mismatch", "mismatch", "locked"]


def test_a_veto_forbids_a_move_that_the_definition_allows(returns: Any) -> None:
    chat = returns(
        reply("check", order_number="R-100007", pin="1234"),
        reply("confirm", item="lamp", reason="unwanted"),
        reply("registered"),
        reply("question", "The 14 days are over, I am afraid. Shall a colleague look at it?"),
    )
    chat.send("R-100007, 1234")
    chat.send("The lamp, I do not want it")
    turn = chat.send("Yes")
    assert turn.state == "question"
    assert [event.by for event in turn.events if isinstance(event, MoveRefused)] == ["veto"]
    assert turn.text.startswith("The 14 days are over")


def test_a_footer_is_put_under_every_answer(returns: Any) -> None:
    chat = returns(reply("cancelled"))
    assert chat.greeting.endswith("-- Lamp & Co. returns")
    assert chat.send("No").text.endswith("-- Lamp & Co. returns")


@pytest.mark.parametrize(("retryable", "words"), [(True, "busy"), (False, "call us")])
def test_an_apology_is_said_when_the_provider_fails(
    returns: Any, retryable: bool, words: str
) -> None:
    chat = returns(ModelError("down", retryable=retryable))
    turn = chat.send("hello")
    assert words in turn.text
    assert (turn.state, turn.moved) == ("identify", False)


def test_the_handlers_example_runs() -> None:
    printed = run("handlers", "offline", said="R-204518 4711\nlamp\ndamaged\nrefund\nyes\n")
    assert "The return is registered." in printed
