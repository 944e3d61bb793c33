"""`llm-fsm serve` as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

import warm_parent
from llm_fsm import Machine
from llm_fsm.cli import main
from llm_fsm.server.tokens import add_token
from llm_fsm.testing import serve_scripted
from machines import GREETER
from served import client_at

ADDRESS = re.compile(r"http://\S+:\d+")


@contextmanager
def serving(
    folder: Path, *arguments: str, command: tuple[str, ...] | None = None
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The running command and a client of it."""
    command = command or (sys.executable, "-m", "llm_fsm", "serve", "--port", "0", *arguments)
    environment = {**os.environ, "LLM_FSM_HOME": str(folder / "home")}
    with warm_parent.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            found = ADDRESS.search(lines[0])
            assert found is not None, (lines, process.communicate()[1])
            with client_at(found[0]) as client:
                until_ready(client)
                yield process, client
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the server does not start")


def until_status(client: httpx.Client, status: int) -> httpx.Response:
    """Ask `/readyz` over new connections until every process answers with a status."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [
            httpx.get(f"{client.base_url}/readyz", timeout=30, trust_env=False) for _ in range(8)
        ]
        if all(answer.status_code == status for answer in found):
            return found[0]
    raise AssertionError(f"the server never answers {status}")


class Sender:
    """Begins a conversation, and sends a message in a thread. `answer` is there at the end."""

    def __init__(self, client: httpx.Client, accept: str) -> None:
        self._client = client
        self._accept = accept
        self._thread = threading.Thread(target=self._send)
        self.answer: httpx.Response

    def __enter__(self) -> Sender:
        self._client.post(
            "/conversations", json={"definition": "greeter", "id": "c", "greet": False}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)

    def _send(self) -> None:
        place = f"{self._client.base_url}/conversations/c/messages"
        headers = {"Accept": self._accept}
        self.answer = httpx.post(
            place, json={"text": "x"}, headers=headers, timeout=60, trust_env=False
        )


NEVER_ENDING = """
import asyncio, socket, sys
from pathlib import Path
from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.limits import Limits
from llm_fsm.server.run import Server, config_of

async def never(*_):
    Path("asked").touch()
    await asyncio.Event().wait()

limits = Limits(shutdown_seconds=2)
machine = AsyncMachine.from_file(sys.argv[1], model="offline")
machine.on("PRE_PROCESSING")(never)
listening = socket.create_server(("127.0.0.1", 0))
for _ in range(3):
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
Server(config_of(create_app(machine, limits=limits, closes=True), limits=limits)).run(sockets=[listening])
"""
"""A server whose turns never end."""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "greeter.json"
    path.write_text(json.dumps(GREETER))
    return path


def test_shipped_definitions_are_served_with_three_addresses(tmp_path: Path) -> None:
    with serving(tmp_path, "--model", "offline") as (_, client):
        names = [one["name"] for one in client.get("/definitions").json()["definitions"]]
        assert {"greeting", "order", "registration"} <= set(names)
        assert "<!doctype html>" in client.get("/").text
        begun = client.post("/conversations", json={"definition": "greeting"}).json()
        turn = client.post(
            f"/conversations/{begun['id']}/messages", json={"text": "I am Ada"}
        ).json()
        assert turn["context"] == {"name": "Ada"}


def test_a_changed_file_is_loaded_and_running_conversations_finish_as_they_began(
    tmp_path: Path, flow: Path
) -> None:
    replies = tmp_path / "replies.json"
    replies.write_text(
        json.dumps([{"message": "hm", "transition": {"target_state": "hello"}}] * 20)
    )
    with serving(tmp_path, str(flow), "--model", f"scripted:{replies}", "--reload") as (_, client):
        wish = {"definition": "greeter", "greet": False}
        old = client.post("/conversations", json=wish).json()["id"]
        states = {**GREETER["states"], "welcome": GREETER["states"]["hello"]}
        flow.write_text(json.dumps({**GREETER, "initial_state": "welcome", "states": states}))
        deadline = time.monotonic() + 30
        state = ""
        while state != "welcome" and time.monotonic() < deadline:
            state = client.post("/conversations", json=wish).json()["state"]
            time.sleep(0.1)
        assert state == "welcome"
        turn = client.post(f"/conversations/{old}/messages", json={"text": "well"}).json()
        assert (turn["state"], turn["text"]) == ("hello", "hm")


AGE = {
    "name": "age",
    "initial_state": "ask",
    "context_schema": {"properties": {"age": {"type": "integer"}}},
    "states": {
        "ask": {
            "purpose": "Ask for the age",
            "required_context_keys": ["age"],
            "transitions": [
                {
                    "target_state": "bye",
                    "conditions": [{"description": "known", "requires_context_keys": ["age"]}],
                }
            ],
        },
        "bye": {"purpose": "Say goodbye"},
    },
}
"""A conversation that goes on while nobody says a number."""


def test_several_workers_share_a_store(tmp_path: Path) -> None:
    file = tmp_path / "age.json"
    file.write_text(json.dumps(AGE), encoding="utf-8")
    with serving(tmp_path, str(file), "--model", "offline", "--workers", "2") as (_, client):
        begun = client.post("/conversations", json={"definition": "age"}).json()
        client.close()
        for number in range(6):
            with client_at(client.base_url) as other:
                key = {"Idempotency-Key": f"k{number // 2}"}
                place = f"/conversations/{begun['id']}/messages"
                turn = other.post(place, json={"text": "abc"[number // 2]}, headers=key).json()
                assert turn["number"] == number // 2 + 1


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_turn_is_finished_before_the_server_ends(tmp_path: Path, flow: Path, accept: str) -> None:
    said = {"message": "Hm?", "transition": {"target_state": "hello"}}
    url = f"sqlite:///{tmp_path / 'bots.db'}"
    with (
        serve_scripted(lambda _: json.dumps(said), delay=1.5) as model,
        serving(
            tmp_path, str(flow), "--model", "any", "--base-url", model.base_url, "--db", url
        ) as (process, client),
    ):
        client.post("/conversations", json={"definition": "greeter", "id": "c", "greet": False})
        answers: list[httpx.Response] = []
        place, headers = f"{client.base_url}/conversations/c/messages", {"Accept": accept}

        def send() -> None:
            answers.append(
                httpx.post(place, json={"text": "x"}, headers=headers, timeout=60, trust_env=False)
            )

        thread = threading.Thread(target=send)
        thread.start()
        while not model.requests:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        thread.join(60)
    with Machine.from_dict(GREETER, model="offline", store=url) as machine:
        assert [message.text for message in machine.resume("c").history] == ["x", "Hm?"]
    assert answers[0].status_code == 200
    assert "Hm?" in answers[0].text


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_server_that_ends_says_so_while_turns_are_finished(
    tmp_path: Path, flow: Path, accept: str, workers: str
) -> None:
    said = json.dumps({"message": "Hm?", "transition": {"target_state": "hello"}})
    free = threading.Event()

    def reply(_: Any) -> str:
        assert free.wait(60)
        return said

    options = ("--db", f"sqlite:///{tmp_path / 'bots.db'}", "--workers", workers, "--model", "any")
    with (
        serve_scripted(reply) as model,
        serving(tmp_path, str(flow), *options, "--base-url", model.base_url) as (process, client),
        Sender(client, accept) as sender,
    ):
        while not model.requests:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        ready = until_status(client, 503)
        assert ready.json()["state"] == "ending"
        assert ready.headers["retry-after"]
        refused = client.post("/conversations", json={"definition": "greeter"})
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:llm-fsm:problem:unavailable"
        free.set()
        assert process.wait(60) == 0
    assert sender.answer.status_code == 200
    assert "Hm?" in sender.answer.text


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_turn_that_does_not_end_is_stopped_at_the_deadline_and_its_client_is_told(
    tmp_path: Path, flow: Path, accept: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(NEVER_ENDING)
    command = (sys.executable, str(program), str(flow))
    with serving(tmp_path, command=command) as (process, client), Sender(client, accept) as sender:
        while not (tmp_path / "asked").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    if accept == "application/json":
        assert sender.answer.status_code == 503
        told = sender.answer.json()
    else:
        *_, told = [
            json.loads(line[6:])
            for line in sender.answer.text.splitlines()
            if line.startswith("data: ")
        ]
    assert told["type"] == "urn:llm-fsm:problem:unavailable"
    assert told["retry_after"] > 0


def test_the_size_of_a_transcript_is_an_option(tmp_path: Path, flow: Path) -> None:
    options = ("--model", "offline", "--db", "memory", "--max-messages", "2", "--max-body", "1000")
    with serving(tmp_path, flow.name, *options) as (_, client):
        said = {"role": "user", "content": "x"}
        sizes = [
            client.post(
                "/v1/chat/completions", json={"model": "greeter", "messages": messages}
            ).status_code
            for messages in ([said], [said] * 3, [{**said, "content": "x" * 1000}])
        ]
    assert sizes == [200, 422, 413]


def test_anybody_at_an_open_address_may_only_talk(tmp_path: Path, flow: Path) -> None:
    options = (
        "--host",
        "0.0.0.0",
        "--no-auth",
        "--model",
        "offline",
        "--db",
        "memory",
        "--workbench",
    )
    with serving(tmp_path, flow.name, *options) as (_, client):
        wish = {"definition": "greeter", "greet": False}
        place = client.post("/conversations", json=wish).json()["id"]
        assert client.post("/conversations", json={**wish, "state": "bye"}).status_code == 403
        assert client.post(f"/conversations/{place}/undo").status_code == 403
        assert client.delete(f"/conversations/{place}").status_code == 403
        assert client.get("/conversations").status_code == 403
        assert client.get("/metrics").status_code == 403
    with serving(tmp_path, flow.name, "--model", "offline", "--db", "memory") as (_, client):
        assert client.post("/conversations", json={**wish, "id": "c"}).status_code == 201
        assert client.delete("/conversations/c").status_code == 204


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["serve", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "give a --token-file, or write --no-auth"),
        (["nothing.json"], 2, "there is no such file"),
        (["--db", "memory", "--workers", "2"], 2, "several --workers share a store"),
        (["--add-token", "ada"], 2, "needs --token-file"),
        (["--token-file", "none.json", "--model", "offline"], 2, "no such file"),
        (["--no-auth", "--token-file", "x"], 2, "contradict"),
        (["--no-auth", "--jwt-secret-file", "x"], 2, "contradict"),
        (["--rights", "talk"], 2, "belong to --add-token"),
        (
            ["--add-token", "ada", "--token-file", "t.json", "--rights", "talk,fly"],
            2,
            "'fly' is no right",
        ),
        (["--add-token", "ada", "--token-file", "t.json", "--expires", "soon"], 2, "is no date"),
        (["--jwt-audience", "x"], 2, "need --jwt-jwks or --jwt-secret-file"),
        (["--jwt-secret-file", "none", "--jwt-claim", "name"], 2, "PART=CLAIM"),
        (["--jwt-secret-file", "none", "--model", "offline"], 2, "No such file"),
        (["--jwt-jwks", "http://id.example/keys", "--model", "offline"], 2, "https://"),
    ],
)
def test_wrong_usage_is_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    found, out, err = run(capsys, *arguments, "--port", "0")
    assert (found != 0, out) == (True, "")
    assert said in err
    assert found == code


def test_a_port_that_is_taken_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "--port", str(port), "--model", "offline")
    assert code == 2
    assert err == (
        f"llm-fsm: error: cannot listen on 127.0.0.1:{port}: address already in use; "
        "choose another --port\n"
    )


def test_a_token_is_made_and_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.json"
    code, out, _ = run(capsys, "--add-token", "ada", "--token-file", str(file))
    assert code == 0
    kept: Any = json.loads(file.read_text())
    assert [one["name"] for one in kept["tokens"]] == ["ada"]
    assert out.strip() not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert run(capsys, "--add-token", "ada", "--token-file", str(file))[0] == 2


def test_more_connections_than_descriptors_do_not_end_the_process(
    tmp_path: Path, flow: Path
) -> None:
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)); "
    )
    limited += "sys.argv[0] = 'llm-fsm'; runpy.run_module('llm_fsm', run_name='__main__')"
    command = (
        sys.executable,
        "-c",
        limited,
        "serve",
        "--port",
        "0",
        str(flow),
        "--model",
        "offline",
    )
    with serving(tmp_path, command=command) as (process, client), ExitStack() as stack:
        place = (client.base_url.host, client.base_url.port)
        for _ in range(600):
            stack.enter_context(socket.create_connection(place, 20))
        begun = client.post("/conversations", json={"definition": "greeter", "greet": False})
        assert begun.status_code == 201
        assert process.poll() is None


def test_a_token_is_made_with_rights_and_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.json"
    options = ("--rights", "talk,seed", "--all-conversations", "--expires", "2999-01-31")
    assert run(capsys, "--add-token", "ada", "--token-file", str(file), *options)[0] == 0
    (kept,) = json.loads(file.read_text())["tokens"]
    assert sorted(kept["rights"]) == ["seed", "talk"]
    assert (kept["own"], kept["expires"][:10]) == (False, "2999-01-31")


def test_every_worker_takes_changed_tokens_and_json_web_tokens(tmp_path: Path, flow: Path) -> None:
    file, secret = tmp_path / "tokens.json", tmp_path / "secret"
    file.write_text('{"tokens": []}')
    secret.write_text("s" * 32)
    options = (
        "--token-file",
        str(file),
        "--jwt-secret-file",
        str(secret),
        "--workers",
        "2",
        "--db",
        "sqlite:///bots.db",
    )
    with serving(tmp_path, flow.name, "--model", "offline", *options) as (_, client):
        claims = {"sub": "ada", "aud": "llm-fsm", "exp": time.time() + 60}
        signed = jwt.encode(claims, "s" * 32, algorithm="HS256")
        made = add_token(file, "web")
        time.sleep(2)
        for token, status in ((signed, 200), (made, 200), ("no", 401)):
            for _ in range(8):  # each by a connection of its own, which any worker takes
                headers = {"Authorization": f"Bearer {token}"}
                answer = httpx.get(
                    f"{client.base_url}/definitions", headers=headers, trust_env=False
                )
                assert answer.status_code == status


def test_sinks_webhooks_and_channels_come_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    (tmp_path / "flow.json").write_text(json.dumps(GREETER), "utf-8")
    told = tmp_path / "told.jsonl"
    source = f"""
def note(delivery):
    with open({str(told)!r}, "a", encoding="utf-8") as file:
        file.write(delivery.event["type"] + "\\n")

SINKS = [note]
"""
    (tmp_path / "notes.py").write_text(source, "utf-8")
    channel = """
from fastapi import APIRouter

def routes(service):
    router = APIRouter()

    @router.get("")
    async def hello():
        return {"definitions": len(service.machines.every())}

    return router
"""
    (tmp_path / "echo.py").write_text(channel, "utf-8")
    arguments = (
        "flow.json",
        "--model",
        "offline",
        "--db",
        "memory",
        "--sink",
        "notes.py",
        "--mount",
        "echo.py",
        "--channel",
        "telegram",
    )
    with serving(tmp_path, *arguments) as (_, client):
        assert client.get("/channels/echo").json() == {"definitions": 1}
        message = {"from": {"id": 5}, "chat": {"id": 7}, "text": "Hello"}
        answer = client.post(
            "/channels/telegram",
            json={"update_id": 1, "message": message},
            headers={"X-Telegram-Bot-Api-Secret-Token": "s3cret"},
        )
        assert answer.json()["chat_id"] == 7
        client.post("/conversations", json={"definition": "greeter"})
        deadline = time.monotonic() + 30
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert told.read_text("utf-8").splitlines()[0] == "Started"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sink", "nothing.py"), "--sink names a Python file"),
        (("--sink", "empty.py"), "it has no SINKS"),
        (("--mount", "empty.py"), "it has no function routes(service)"),
        (("--mount", "broken.py"), "broken.py:1: it could not be run: KeyError"),
        (("--channel", "slack"), "SLACK_SIGNING_SECRET is empty"),
        (("--channel", "pigeon"), "'pigeon' is not one of 'slack', 'telegram', 'whatsapp'"),
        (("--webhook", "nowhere"), "http:// or https:// address"),
        (
            ("--webhook", "http://localhost/x", "--webhook-secret-file", "nothing"),
            "nothing: no such file",
        ),
        (
            ("--webhook", "http://localhost/x", "--webhook-secret-file", "empty.py"),
            "the secret of a webhook is empty",
        ),
    ],
)
def test_wrong_sinks_webhooks_and_channels_are_said_in_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flow.json").write_text(json.dumps(GREETER), "utf-8")
    Path("empty.py").write_text("", "utf-8")
    Path("broken.py").write_text("import os; os.environ['NOT_SET_ANYWHERE']", "utf-8")
    assert (
        main(
            [
                "serve",
                "flow.json",
                "--model",
                "offline",
                "--db",
                "memory",
                "--port",
                "0",
                *arguments,
            ]
        )
        != 0
    )
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_line_is_plain_with_json_logs(tmp_path: Path, workers: str) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(GREETER))
    (tmp_path / "tools.py").write_text("print('odd line')\nTOOLS = []\nFUNCTIONS = [print]\n")
    command = [sys.executable, "-m", "llm_fsm", "serve", "flow.json", "--port", "0"]
    command += ["--model", "offline", "--log", "json", "--tools", "tools.py"]
    command += ["--workers", workers, "--db", f"sqlite:///{tmp_path}/bots.db"]
    with warm_parent.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        place = json.loads(lines[1])
        with client_at(place["chat"]) as client:
            until_ready(client)
            assert client.get("nowhere").status_code == 404
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    told = [json.loads(line) for line in (*lines, *err.splitlines())]
    assert out == ""
    assert place["event"] == "listening"
    assert {"output", "request"} <= {line["event"] for line in told}


def test_the_last_words_of_a_server_are_json_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "llm_fsm", "serve", "nowhere.json", "--log", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nowhere.json" in json.loads(done.stderr)["message"]
    assert done.stdout == ""
