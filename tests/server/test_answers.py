"""What every answer of the server has, whoever asks for it: a browser, a probe, a client of another
alphabet.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from llm_fsm import AsyncMachine, ModelError
from llm_fsm.cli.commands.mcp import mcp
from llm_fsm.cli.fleet import Brought, Fleet
from llm_fsm.server import create_app
from llm_fsm.server.encoding import from_header, in_header
from llm_fsm.server.logs import log_json
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served

PAGE = "https://app.example"


def greeter(*replies: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)))


@contextmanager
def client_of(machine: AsyncMachine, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(machine, closes=True, due_seconds=None, **options)
    with served(app) as url, client_at(url) as client:
        yield client


@pytest.mark.parametrize(
    "place", ["/healthz", "/readyz", "/definitions", "/conversations", "/", "/openapi.json"]
)
def test_head_has_the_status_and_headers_of_get_and_no_body(place: str) -> None:
    with client_of(greeter(reply("hello", "Name?"))) as client:
        whole, head = client.get(place), client.head(place)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert client.head("/conversations/none").status_code == 404


def test_a_page_of_an_allowed_origin_can_read_refusals_too(tmp_path: Any) -> None:
    file = tmp_path / "tokens.json"
    add_token(str(file), "web")
    with client_of(greeter(), tokens=Tokens.from_file(str(file)), cors=[PAGE]) as client:
        for place in ("/conversations", "/v1/models", "/nowhere", "/mcp"):
            refused = client.get(place, headers={"Origin": PAGE})
            assert refused.status_code in (401, 404)
            assert refused.headers["access-control-allow-origin"] == PAGE
        foreign = client.get("/v1/models", headers={"Origin": "https://x.example"})
        assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize("place", ["/v1/chat/completions", "/mcp", "/conversations"])
def test_a_browser_may_send_the_headers_of_the_openai_sdk_and_of_mcp(place: str) -> None:
    wanted = "authorization,content-type,x-stainless-os,x-stainless-retry-count,mcp-protocol-version,mcp-session-id"
    with client_of(greeter(), cors=[PAGE]) as client:
        asked = {
            "Origin": PAGE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": wanted,
        }
        allowed = client.options(place, headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-headers"] == wanted


def test_an_error_says_when_to_ask_again_in_its_document_and_in_a_stream() -> None:
    failing = [ModelError("busy", retry_after=7.2) for _ in range(2)]
    with client_of(AsyncMachine.from_dict(GREETER, model=ScriptedLLM(failing))) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        place = "/conversations/c/messages"
        whole = client.post(place, json={"text": "a"})
        assert (whole.json()["retry_after"], whole.headers["retry-after"]) == (8, "8")
        told = client.post(place, json={"text": "a"}, headers={"Accept": "text/event-stream"})
        data = [
            line.removeprefix("data: ")
            for line in told.text.splitlines()
            if line.startswith("data: ")
        ]
        assert json.loads(data[-1])["retry_after"] == 8


def test_each_turn_has_its_own_state_context_and_outcome() -> None:
    with client_of(
        greeter(reply("hello", "Your name?"), reply("bye", "Bye Ada.", name="Ada"))
    ) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        for text in ("Hi", "I am Ada"):
            client.post("/conversations/c/messages", json={"text": text})
        turns = client.get("/conversations/c/turns").json()["turns"]
        found = [
            (turn["state"], turn["context"], turn["ended"], turn["outcome"]) for turn in turns[-2:]
        ]
        assert found == [("hello", {}, False, ""), ("bye", {"name": "Ada"}, True, "passed")]
        client.post("/conversations/c/undo")
        turns = client.get("/conversations/c/turns").json()["turns"]
        assert [turn["state"] for turn in turns[-2:]] == ["bye", "hello"]


@pytest.mark.parametrize("name", ["кот 7", "猫", "café", "50% off", "a%41", "plain-7"])
@pytest.mark.parametrize("streams", [False, True])
def test_an_id_in_any_alphabet_works_in_headers(name: str, streams: bool) -> None:
    with client_of(greeter(reply("hello", "Your name?"), reply("hello", "Well?"))) as client:
        wish = {
            "model": "greeter",
            "messages": [{"role": "user", "content": "Hi"}],
            "stream": streams,
        }
        first = client.post(
            "/v1/chat/completions", json={**wish, "metadata": {"conversation_id": name}}
        )
        assert first.status_code == 200
        told = first.headers["x-conversation-id"]
        assert unquote(told) == name
        again = client.post("/v1/chat/completions", json=wish, headers={"X-Conversation-Id": told})
        assert again.status_code == 200
        assert [one["id"] for one in client.get("/conversations").json()["conversations"]] == [name]


def test_an_id_in_a_header_may_be_plain_utf_8_or_latin_1() -> None:
    for name in ("кот", "café"):
        assert from_header(name.encode().decode("latin-1")) == name
        assert from_header(in_header(name)) == name
    assert from_header("café") == "café"
    assert from_header(None) is None


def test_a_key_of_an_answer_that_failed_is_free_again() -> None:
    model = ScriptedLLM([ModelError("down"), reply("hello", "Your name?")])
    headers = {"Accept": "text/event-stream", "Idempotency-Key": "k"}
    with client_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        client.post("/conversations", json={"definition": "greeter", "greet": False, "id": "c"})
        place = "/conversations/c/messages"
        assert "event: error" in client.post(place, json={"text": "Hx"}, headers=headers).text
        assert "event: turn" in client.post(place, json={"text": "Hi"}, headers=headers).text


def test_warnings_are_json_lines_in_a_json_log() -> None:
    written = io.StringIO()
    with redirect_stderr(written), warnings.catch_warnings():
        warnings.simplefilter("always")
        end = log_json()
        try:
            warnings.warn("the disk\nis slow", RuntimeWarning, stacklevel=1)
        finally:
            end()
    (line,) = [json.loads(text) for text in written.getvalue().splitlines()]
    assert (line["message"], line["level"], line["category"]) == (
        "the disk\nis slow",
        "WARNING",
        "RuntimeWarning",
    )


# -- definitions that are loaded again


def write(path: Any, name: str, version: str) -> None:
    path.write_text(json.dumps({**GREETER, "name": name, "version": version}), encoding="utf-8")


def fleet_of(*paths: str) -> Fleet:
    given = mcp.make_context("mcp", [*paths, "--model", "offline"]).params
    return Fleet(Brought(**given), MemoryStore())


def loaded(fleet: Fleet) -> list[tuple[str, str | None]]:
    return [(machine.definition.name, machine.definition.version) for machine in fleet.changed()]


@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_file_that_is_away_for_a_moment_is_loaded_when_it_is_back(
    tmp_path: Any, named: str
) -> None:
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    write(file, "a", "1")
    write(other, "b", "1")
    paths = (str(file), str(other)) if named == "file" else (str(tmp_path),)
    fleet = fleet_of(*paths)
    assert len(fleet.machines()) == 2
    file.unlink()
    write(other, "b", "2.0")
    assert loaded(fleet) == [("b", "2.0")]
    write(file, "a", "3.00")
    assert loaded(fleet) == [("a", "3.00")]
    assert loaded(fleet) == []


def test_a_second_file_of_a_taken_name_is_refused(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    write(file, "a", "1")
    fleet = fleet_of(str(tmp_path))
    fleet.machines()
    write(other, "a", "2.0")
    assert loaded(fleet) == []
    assert "the name 'a' is the one of" in " ".join(capsys.readouterr().err.split())
    file.unlink()
    write(other, "a", "3.00")
    assert loaded(fleet) == [("a", "3.00")]
