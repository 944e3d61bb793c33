"""Bounds of a reply: a limit of tokens, a temperature, what can be picked, and time that a stream
renews.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.registry import resolve
from llm_fsm.testing import HttpReply, reply, serve_scripted

FORM: dict[str, Any] = {
    "name": "form",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        }
    },
    "states": {
        "ask": {
            "purpose": "What is your name?",
            "required_context_keys": ["name"],
            "transitions": [
                {
                    "target_state": "done",
                    "description": "The name is known",
                    "conditions": [{"requires_context_keys": ["name"]}],
                }
            ],
        },
        "other": {"purpose": "Another?", "transitions": [{"target_state": "done"}]},
        "done": {"purpose": "Thank you."},
    },
}


def body_of(definition: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The first request of a conversation as the server got it."""
    with serve_scripted([reply("ask", "Your name?")], loop=True) as server:
        made = {"model": "m", "base_url": server.base_url, **settings}
        with Machine.from_dict(definition, timeout=20, **made) as machine:
            machine.start(greet=False).send("hi")
    body: dict[str, Any] = server.requests[0].body
    return body


def test_every_reply_has_a_limit_that_grows_with_the_keys() -> None:
    few = body_of(FORM)
    more = {f"k{number}": {"type": "string"} for number in range(10)}
    schema = {"properties": {**FORM["context_schema"]["properties"], **more}}
    many = body_of({**FORM, "context_schema": schema})
    assert 400 < few["max_tokens"] < 700
    assert many["max_tokens"] - few["max_tokens"] == 30 * len(more)


def test_the_definition_has_the_last_word_on_limit_and_temperature() -> None:
    assert body_of(FORM)["temperature"] == 0
    own = body_of({**FORM, "model": {"max_tokens": 77, "temperature": 0.5}})
    assert (own["max_tokens"], own["temperature"]) == (77, 0.5)


@pytest.mark.parametrize("model", ["qwen3:8b", "deepseek-r1", "org/gpt-oss-20b"])
def test_a_model_that_thinks_has_room_for_its_thoughts(model: str) -> None:
    assert body_of(FORM, model=model)["max_tokens"] > 8000
    own = {**FORM, "model": {"max_tokens": 77}}
    assert body_of(own, model=model)["max_tokens"] == 77


@pytest.mark.parametrize("streamed", [False, True])
def test_thoughts_that_took_all_tokens_are_given_room_and_the_model_is_remembered(
    streamed: bool,
) -> None:
    limits: list[int] = []

    def answer(body: dict[str, Any]) -> Any:
        limits.append(body["max_tokens"])
        if body["max_tokens"] > 8000:
            return reply("ask", "Your name?")
        message = {"role": "assistant", "content": None, "reasoning_content": "Let me see"}
        if not body.get("stream"):
            return HttpReply(
                body={"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
            )
        parts = [
            {"delta": message, "finish_reason": None},
            {"delta": {}, "finish_reason": "length"},
        ]
        lines = [f"data: {json.dumps({'choices': [{'index': 0, **part}]})}\n\n" for part in parts]
        return HttpReply(
            body="".join((*lines, "data: [DONE]\n\n")),
            headers={"content-type": "text/event-stream"},
        )

    with (
        serve_scripted(answer) as server,
        Machine.from_dict(FORM, model="m", base_url=server.base_url) as machine,
    ):
        chat = machine.start(greet=False)
        for message in ("hi", "well"):
            if streamed:
                stream = chat.stream(message)
                list(stream)
                assert stream.turn is not None
                assert stream.turn.text == "Your name?"
            else:
                assert chat.send(message).text == "Your name?"
    assert [limit > 8000 for limit in limits] == [False, True, True]


def test_a_limit_that_the_server_refuses_is_left_out_and_that_is_remembered() -> None:
    def answer(body: dict[str, Any]) -> Any:
        if "max_tokens" in body:
            fault = {
                "error": {"message": "max_tokens is too large: this model's window has 512 tokens"}
            }
            return HttpReply(status=400, body=fault)
        return reply("ask", "Your name?")

    with (
        serve_scripted(answer) as server,
        Machine.from_dict(FORM, model="m", base_url=server.base_url) as machine,
    ):
        chat = machine.start(greet=False)
        assert [chat.send("hi").text, chat.send("well").text] == ["Your name?", "Your name?"]
    assert ["max_tokens" in request.body for request in server.requests] == [True, False, False]


HALF = '{"context_update": {"name": "Ada"}, "target_state": "done", "message": "Thank you, A'


@pytest.mark.parametrize("cut", [HALF, HALF[:12], "x"])
def test_a_reply_cut_by_its_limit_is_no_reply_and_the_second_try_is_told_so(cut: str) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if len(body["messages"]) > 2:
            return reply("ask", "Your name?")
        message = {"role": "assistant", "content": cut}
        return HttpReply(
            body={"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
        )

    with (
        serve_scripted(answer) as server,
        Machine.from_dict(FORM, model="m", base_url=server.base_url) as machine,
    ):
        turn = machine.start(greet=False).send("hi")
    assert (turn.state, turn.text, turn.usage.calls) == ("ask", "Your name?", 2)
    told = server.requests[1].body["messages"][-1]["content"]
    assert "cut off at its limit of tokens; send a shorter one" in told


def test_a_whole_reply_that_ends_at_its_limit_is_taken() -> None:
    message = {"role": "assistant", "content": json.dumps(reply("ask", "Your name?")) + "\n" * 40}
    cut = HttpReply(body={"choices": [{"index": 0, "message": message, "finish_reason": "length"}]})
    with (
        serve_scripted([cut]) as server,
        Machine.from_dict(FORM, model="m", base_url=server.base_url) as machine,
    ):
        turn = machine.start(greet=False).send("hi")
    assert (turn.text, turn.usage.calls) == ("Your name?", 1)


def schema_of(body: dict[str, Any]) -> dict[str, Any]:
    """The schema of a reply in a request."""
    schema: dict[str, Any] = body["response_format"]["json_schema"]["schema"]
    return schema


def test_a_server_near_by_is_asked_only_for_what_can_be_picked() -> None:
    properties = schema_of(body_of(FORM))["properties"]
    assert list(properties) == ["target_state", "context_update", "message", "question"]
    assert properties["target_state"]["enum"] == ["done", "ask"]
    update = properties["context_update"]["properties"]
    assert "_clear" not in update  # nothing is known that could be taken back
    assert update["tags"]["maxItems"] > 0


def test_where_only_staying_is_left_no_state_is_asked_for() -> None:
    closed = {
        "target_state": "done",
        "conditions": [
            {"logic": {"==": [{"var": "vip"}, True]}, "description": "The guest is known"}
        ],
    }
    schema = {"properties": {"vip": {"type": "boolean", "x-source": "host"}}}
    states = {**FORM["states"], "ask": {"purpose": "Who is it?", "transitions": [closed]}}
    document = {**FORM, "states": states, "context_schema": schema}
    said = {"context_update": {}, "message": "Who is it?"}
    with (
        serve_scripted([said]) as server,
        Machine.from_dict(document, model="m", base_url=server.base_url) as machine,
    ):
        turn = machine.start(greet=False).send("hi")
    properties = schema_of(server.requests[0].body)["properties"]
    assert list(properties) == ["context_update", "message", "question"]
    assert (turn.state, turn.text, turn.usage.calls) == ("ask", "Who is it?", 1)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("ollama/qwen3:8b", "qwen3:8b"),
        ("vllm/org/model", "org/model"),
        ("lmstudio/m", "m"),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("org/model", "org/model"),
    ],
)
def test_a_name_is_sent_as_given_but_for_the_prefix_of_a_local_provider(
    given: str, sent: str
) -> None:
    assert body_of(FORM, model=given)["model"] == sent


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_the_gateway_of_openai_is_taken_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_scripted([reply("ask", "Your name?")]) as server:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "LLM_FSM_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        with Machine.from_dict(FORM, model="openai/gpt-4o-mini", store="memory") as machine:
            machine.start(greet=False).send("hi")
    assert server.requests[0].body["model"] == "gpt-4o-mini"
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"


def test_other_providers_keep_their_address() -> None:
    environ = {"GROQ_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    llm: Any = resolve("groq/m", environ=environ)
    made = llm.default
    assert isinstance(made, CompatLLM)
    assert made.where == "https://api.groq.com/openai/v1"


def test_the_time_of_a_streamed_turn_runs_from_its_last_sign_of_life() -> None:
    words = [*json.dumps(reply("ask", "Your name?"))]
    pieces = ["".join(words[start : start + 8]) for start in range(0, len(words), 8)]
    lines = [
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': piece}}]})}\n\n"
        for piece in pieces
    ]
    whole = "".join((*lines, "data: [DONE]\n\n"))
    slow = HttpReply(
        body=whole, headers={"content-type": "text/event-stream"}, pace=2.0 / len(whole)
    )
    with serve_scripted([slow]) as server:
        settings: dict[str, Any] = {"model": "m", "base_url": server.base_url, "timeout": 1.0}
        with Machine.from_dict(FORM, store="memory", **settings) as machine:
            stream = machine.start(greet=False).stream("hi")
            list(stream)
    assert stream.turn is not None
    assert stream.turn.text == "Your name?"
    assert stream.turn.usage.attempts == 1


def test_an_error_of_time_says_which_option_gives_longer() -> None:
    with serve_scripted([HttpReply(delay=30)], loop=True) as server:
        settings: dict[str, Any] = {"model": "m", "base_url": server.base_url, "timeout": 0.2}
        with Machine.from_dict(FORM, store="memory", **settings) as machine:
            chat = machine.start(greet=False)
            with pytest.raises(
                ModelError, match=r"timeout= gives it longer \(--timeout on the command line\)"
            ):
                chat.send("hi")
