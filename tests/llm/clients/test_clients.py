from __future__ import annotations

import asyncio
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from llm_fsm import ConfigurationError, LLMMessage, LLMRequest, ModelError
from llm_fsm.llm.clients import base
from llm_fsm.llm.clients.base import BaseLLMClient, create_llm_client, register_llm_client
from llm_fsm.llm.clients.bridge import ClientModel, read_reply
from llm_fsm.llm.clients.messages import LLMResponse, Message, ToolCall, read_tools
from llm_fsm.session.messages import ToolSpec
from llm_fsm.testing import HttpReply, ScriptedLLM, calls, serve_scripted

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
ROUND = [
    Message(role="system", content="Be short."),
    Message(role="assistant", tool_calls=[ToolCall("c1", "look", {"at": "the sea"})]),
    Message(role="tool", content="wet", tool_call_id="c1", name="look"),
    {"role": "user", "content": "Well?"},
]


class Echo(BaseLLMClient):
    def chat(self, messages, tools=None, temperature=0.7, max_tokens=None, **kwargs):
        return LLMResponse(content=f"{messages[-1].content} {temperature} {sorted(kwargs)}")


@pytest.fixture(params=["openai", "litellm"])
def make(request, thread_loop) -> Any:
    def client(base_url: str, key: str = "sk-secret-1") -> BaseLLMClient:
        model = "gpt-4" if request.param == "openai" else "openai/gpt-4"
        options: dict[str, Any] = {"max_retries": 0}
        return create_llm_client(
            request.param, model=model, api_key=key, base_url=base_url, **options
        )

    return client


def test_a_client_sends_messages_and_tools_and_reads_the_reply(make) -> None:
    with serve_scripted([calls(("look", {"at": "the sky"})), "Grey."]) as server:
        client = make(server.base_url)
        first = client.chat(ROUND, tools=[TOOL], temperature=0.2, max_tokens=50)
        second = client.chat([Message(role="user", content="And?")])
    [call] = first.tool_calls
    assert (call.name, call.arguments, call["function"]["name"]) == (
        "look",
        {"at": "the sky"},
        "look",
    )
    assert (second.content, str(second), second.finish_reason) == ("Grey.", "Grey.", "stop")
    body = server.requests[0].body
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4", 0.2, 50)
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "assistant",
        "tool",
        "user",
    ]
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"at": "the sea"}'
    assert body["tools"][0]["function"]["name"] == "look"
    assert "tools" not in server.requests[1].body


@pytest.mark.parametrize(
    ("status", "retryable"), [(401, False), (429, True), (503, True), (400, False)]
)
def test_an_error_is_raised_and_never_comes_back_as_text(make, status, retryable) -> None:
    reply = HttpReply(status=status, body={"error": {"message": "sk-secret-1 is an odd key"}})
    with serve_scripted([reply]) as server, pytest.raises(ModelError) as raised:
        make(server.base_url).chat(ROUND)
    assert (raised.value.status, raised.value.retryable) == (status, retryable)
    assert "odd" in str(raised.value)
    assert "sk-secret-1" not in str(raised.value)


def test_a_key_of_one_letter_takes_no_letters_out_of_an_error(make) -> None:
    reply = HttpReply(status=400, body={"error": {"message": "no such model"}})
    with serve_scripted([reply]) as server, pytest.raises(ModelError, match="no such model"):
        make(server.base_url, "o").chat(ROUND)


@pytest.mark.usefixtures("thread_loop")
def test_litellm_counts_what_its_replies_cost() -> None:
    with serve_scripted(["One.", "Two."]) as server:
        client = create_llm_client(
            "litellm", model="openai/gpt-4", api_key="sk-secret-1", base_url=server.base_url
        )
        client.chat(ROUND)
        once = client.total_cost
        client.chat(ROUND)
    assert client.total_cost == pytest.approx(2 * once)
    assert once > 0


def test_an_unknown_provider_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown LLM provider 'opnai'; did you mean 'openai'"):
        create_llm_client("opnai")
    with pytest.raises(ValueError, match="there are openai, litellm, smolagents, adk"):
        create_llm_client("zzz")


def test_the_factory_is_open_to_others(monkeypatch) -> None:
    monkeypatch.setattr(base, "_registered", {})
    register_llm_client("echo", Echo)
    register_llm_client("echo", Echo)
    assert isinstance(create_llm_client("echo"), Echo)
    for name in ("echo", "openai"):
        with pytest.raises(ValueError, match=f"a client '{name}' already"):
            register_llm_client(name, lambda **_: Echo())


@pytest.mark.parametrize("package", ["openai", "smolagents"])
def test_a_missing_sdk_names_its_install_line(monkeypatch, package) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'llm-fsm-runtime\[{package}\]'"):
        create_llm_client(package)


def test_an_own_client_estimates_tokens_unless_it_knows_better() -> None:
    assert Echo().count_tokens("some words of a text") > 0
    with pytest.raises(TypeError, match="abstract"):
        BaseLLMClient()  # type: ignore[abstract]


def asked(client: Any, **changes: Any) -> Any:
    request = LLMRequest(messages=(LLMMessage("user", "Hello"),), **changes)
    return asyncio.run(ClientModel(lambda request: client).complete(request))


def test_the_engine_asks_a_client_with_what_the_request_says() -> None:
    assert asked(Echo(), temperature=0.5, options={"top_p": 1}).text == "Hello 0.5 ['top_p']"
    assert asked(Echo()).text == "Hello 0.7 []"


def test_the_engine_asks_a_mock_a_model_and_a_client_that_awaits() -> None:
    mock = Mock()
    mock.chat.return_value = LLMResponse(content="mocked", tool_calls=None)
    assert asked(mock).text == "mocked"
    assert asked(ScriptedLLM(["scripted"])).text == "scripted"

    class Awaits:
        async def chat(self, messages):
            return "awaited"

    assert asked(Awaits()).text == "awaited"


def test_a_client_gets_tools_in_its_own_form_or_in_that_of_chat_completions() -> None:
    seen: list[Any] = []

    class Own:
        def format_tools(self, tools):
            return [tool.name for tool in tools]

        def chat(self, messages, tools):
            seen.append(tools)
            return LLMResponse(
                tool_calls=[{"id": "1", "function": {"name": "look", "arguments": "{}"}}]
            )

    spec = ToolSpec(
        name="look", description="Look.", parameters={"type": "object", "properties": {}}
    )
    [call] = asked(Own(), tools=(spec,)).tool_calls
    assert (seen, call.name) == ([["look"]], "look")
    assert read_tools([TOOL])[0].name == "look"


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (None, "no model was given"),
        (object(), "object has no method chat"),
        (type("Bad", (), {"chat": lambda self, messages: 7})(), "chat returned int"),
        (type("Bad", (), {"chat": lambda self, messages: 1 / 0})(), "ZeroDivisionError"),
    ],
)
def test_what_is_no_client_or_fails_is_said(client, words) -> None:
    with pytest.raises((ModelError, ConfigurationError), match=words):
        asked(client)


def test_a_client_that_hangs_is_given_up_in_time() -> None:
    class Hangs:
        async def chat(self, messages):
            await asyncio.sleep(60)

    with pytest.raises(ModelError, match="gave no answer within"):
        asked(Hangs(), timeout=0.05)


def test_counts_and_cost_of_a_reply_are_read() -> None:
    reply = read_reply(
        LLMResponse("x", usage={"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5})
    )
    assert (reply.input_tokens, reply.output_tokens, reply.cost) == (3, 2, 0.5)
