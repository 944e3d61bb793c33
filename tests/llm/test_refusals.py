"""The table of refusals: each row is one of form, reply, account and moment, whatever the provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm import Machine, ModelError
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.openai.request import without_system
from llm_fsm.llm.refusals import context_in, kind_of, may_pass, rejects_system
from llm_fsm.session.messages import LLMMessage
from llm_fsm.testing import HttpReply, reply, serve_scripted


def fault(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


ACCOUNT = [
    (
        429,
        fault(
            "You exceeded your current quota, please check your plan.", type="insufficient_quota"
        ),
    ),
    (429, fault("Rate limited", code="insufficient_quota")),
    (429, fault("You exceeded your current quota, please check your plan and billing details.")),
    (402, fault("Insufficient Balance", type="unknown_error")),
    (429, fault("Insufficient balance or no resource package. Please recharge.", code="1113")),
    (
        429,
        fault(
            "Your account is suspended, please check your plan", type="exceeded_current_quota_error"
        ),
    ),
    (400, fault("Your credit balance is too low to access the API.", type="invalid_request_error")),
    (402, fault("Insufficient credits. Add more using the settings page")),
    (403, fault("Your team has used all available credits or reached its monthly spending limit")),
    (
        400,
        fault(
            "Access denied, please make sure your account is in good standing.", code="Arrearage"
        ),
    ),
    (400, fault("Billing hard limit has been reached", code="billing_hard_limit_reached")),
    (500, fault("pre-consume failed: insufficient user quota", type="new_api_error")),
    (402, json.dumps({"detail": "Payment required"})),
    (403, fault("\u8d26\u6237\u4f59\u989d\u4e0d\u8db3")),
]
MOMENT = [
    (
        429,
        fault(
            "Rate limit reached for m on tokens per min. Please try again in 6ms. See the billing page."
        ),
    ),
    (
        429,
        fault(
            "You exceeded your current quota, check your plan and billing details. Please retry in 34.07s."
        ),
    ),
    (
        429,
        json.dumps(
            [{"error": {"message": "quota, see billing", "details": [{"retryDelay": "34s"}]}}]
        ),
    ),
    (
        429,
        fault("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more requests"),
    ),
    (529, fault("Overloaded", type="overloaded_error")),
    (403, fault("Too many requests, slow down")),
]
REPLY = [
    (
        400,
        fault("Failed to validate JSON. Please adjust your prompt.", code="json_validate_failed"),
    ),
    (400, fault("Generated JSON does not match the expected schema. Please adjust your prompt.")),
    (400, fault("Failed to call a function. Please adjust your prompt.", code="tool_use_failed")),
    (500, fault("Failed to parse tool call arguments as JSON")),
    (400, fault("MALFORMED_FUNCTION_CALL")),
    (502, fault("The model output could not be parsed")),
]
SIZE = [
    (400, fault("request (5000 tokens) exceeds the available context size (4096 tokens)"), 4096),
    (400, fault("it exceeds the available context size", type="exceed_context_size_error"), None),
    (400, fault("maximum context length is 8192 tokens", code="context_length_exceeded"), 8192),
    (400, fault("prompt is too long: 210000 tokens > 200000 maximum"), 200000),
    (400, fault("The input token count (12) exceeds the maximum number of tokens allowed"), None),
    (413, fault("Request too large: too many tokens"), None),
    (400, fault("the context overflows, loaded with 4096. Context length exceeded"), None),
    (400, fault("Please reduce the length of the messages or completion."), None),
    (500, fault("input is too long for the context window of 2048 tokens"), 2048),
    (413, fault("Request too large"), None),
    (413, json.dumps({"message": "Request Entity Too Large"}), None),
    (413, json.dumps({"detail": "payload too large"}), None),
    (422, json.dumps({"error": "`inputs` must have less than 4096 tokens. Given: 5000"}), None),
    (422, fault("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"), None),
]
NEITHER = [
    (400, fault("response_format is not supported")),
    (429, fault("slow down")),
    (503, fault("the load balancer is away")),
    (400, fault("System role not supported")),
    (404, fault("The model does not exist")),
    (500, ""),
    (400, "[" * 100_000),
    (422, json.dumps({"error": "Input validation error: `best_of` must be <= 2"})),
]


@pytest.mark.parametrize(("status", "body"), ACCOUNT)
def test_an_account_that_must_pay_is_asked_no_more(status: int, body: str) -> None:
    assert kind_of(status, body) == "account"
    assert not may_pass(status, body)


@pytest.mark.parametrize(("status", "body"), MOMENT)
def test_too_much_at_a_moment_passes_whatever_page_it_names(status: int, body: str) -> None:
    assert kind_of(status, body) == "moment"
    assert may_pass(status, body)


@pytest.mark.parametrize(("status", "body"), REPLY)
def test_a_reply_that_its_server_cannot_read_is_asked_for_again(status: int, body: str) -> None:
    assert kind_of(status, body) == "reply"
    assert may_pass(status, body)


@pytest.mark.parametrize(("status", "body", "room"), SIZE)
def test_a_prompt_that_is_too_long_is_refused_for_its_size(
    status: int, body: str, room: int | None
) -> None:
    assert kind_of(status, body) == "size"
    assert not may_pass(status, body)
    assert context_in(body) == room


@pytest.mark.parametrize(("status", "body"), NEITHER)
def test_other_answers_are_judged_by_their_status(status: int, body: str) -> None:
    assert kind_of(status, body) is None
    assert may_pass(status, body) == (status in (429, 503, 500))


@pytest.mark.parametrize(
    "said",
    [
        "System role not supported",
        "Jinja Exception: System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "After the optional system message, conversation roles must alternate",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "System messages are not supported by this model",
        "This model does not support system prompts",
        "Only user and assistant roles are supported!",
        "Input should be 'user' or 'assistant'",
        "invalid role: system",
    ],
)
def test_a_model_without_a_system_role_is_known_by_its_words(said: str) -> None:
    assert rejects_system(400, fault(said))
    assert rejects_system(500, said)


@pytest.mark.parametrize(
    "said",
    [
        "response_format is not supported by this system",
        "The system is not available",
        "the file system is full",
        "Unsupported value: 'temperature' does not support 0.7",
        "This model does not support tools",
        "the system message is too long: maximum context length is 8192 tokens",
    ],
)
def test_other_words_about_a_system_are_no_such_refusal(said: str) -> None:
    assert not rejects_system(400, fault(said))


def test_the_words_of_the_system_go_before_those_of_the_user() -> None:
    system, user = LLMMessage("system", "Be kind."), LLMMessage("user", "Hi")
    assert without_system([system, user]) == (LLMMessage("user", "Be kind.\n\nHi"),)
    assert without_system([system]) == (LLMMessage("user", "Be kind."),)
    assert without_system([system, user, LLMMessage("assistant", "Yes"), user]) == (
        LLMMessage("user", "Be kind.\n\nHi"),
        LLMMessage("assistant", "Yes"),
        user,
    )


SIMPLE: dict[str, Any] = {
    "name": "d",
    "initial_state": "a",
    "states": {
        "a": {"purpose": "?", "transitions": [{"target_state": "b", "description": "x"}]},
        "b": {"reply": "b"},
    },
}


@pytest.mark.parametrize("way", ["send", "stream"])
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "System role not supported"),
        (500, "Jinja Exception: System role not supported"),
        (422, "roles must alternate"),
    ],
)
def test_a_model_without_a_system_role_is_asked_without_it_and_this_is_remembered(
    status: int, said: str, way: str
) -> None:
    roles: list[list[str]] = []

    def server(body: dict[str, Any]) -> Any:
        roles.append([message["role"] for message in body["messages"]])
        if "system" in roles[-1]:
            return HttpReply(status=status, body={"error": {"message": said, "code": status}})
        return reply("a", "ok")

    with (
        serve_scripted(server) as running,
        Machine.from_dict(SIMPLE, model="gemma", base_url=running.base_url, timeout=20) as machine,
    ):
        chat = machine.start(greet=False)
        for text in ("x", "y"):
            if way == "send":
                assert chat.send(text).text.startswith("ok")
            else:
                stream = chat.stream(text)
                for _ in stream:
                    pass
                assert stream.turn.text.startswith("ok")
    assert roles == [["system", "user"], ["user"], ["user"]]


@pytest.mark.parametrize(("status", "body"), ACCOUNT)
def test_a_spent_account_is_asked_once_and_the_next_model_at_once(status: int, body: str) -> None:
    asked: list[str] = []

    def server(request: dict[str, Any]) -> Any:
        asked.append(request["model"])
        return HttpReply(status=status, body=json.loads(body))

    with serve_scripted(server) as running, serve_scripted([reply("a", "ok")]) as other:
        with (
            Machine.from_dict(SIMPLE, model="m", base_url=running.base_url, timeout=20) as machine,
            pytest.raises(ModelError, match="quota or credit is spent; pay") as caught,
        ):
            machine.start(greet=False).send("x")
        assert not caught.value.retryable
        assert caught.value.refusal == "account"
        assert asked == ["m"]
        spare = [CompatLLM("other", base_url=other.base_url)]
        with Machine.from_dict(
            SIMPLE, model="m", base_url=running.base_url, fallbacks=spare
        ) as machine:
            assert machine.start(greet=False).send("x").text.startswith("ok")
    assert asked == ["m", "m"]


@pytest.mark.parametrize(("status", "body"), [row for row in REPLY if row[0] == 400])
def test_a_refused_reply_is_asked_for_again_in_the_same_form_and_nothing_is_remembered(
    status: int, body: str
) -> None:
    forms: list[Any] = []

    def server(request: dict[str, Any]) -> Any:
        forms.append(request.get("response_format"))
        if len(forms) == 1:
            return HttpReply(status=status, body=json.loads(body))
        return reply("a", "ok")

    with (
        serve_scripted(server) as running,
        Machine.from_dict(SIMPLE, model="m", base_url=running.base_url, timeout=20) as machine,
    ):
        chat = machine.start(greet=False)
        chat.send("x")
        chat.send("y")
    assert len(forms) == 3
    assert forms[0] == forms[1] == forms[2]


def test_parts_that_a_model_s_own_server_refuses_are_left_out() -> None:
    bodies: list[dict[str, Any]] = []
    call = {"id": "c", "type": "function", "function": {"name": "stock", "arguments": "{}"}}

    def server(body: dict[str, Any]) -> Any:
        bodies.append(body)
        own = [message for message in body["messages"] if message["role"] == "assistant"]
        if not own:
            message = {
                "role": "assistant",
                "content": None,
                "reasoning": "So.",
                "tool_calls": [call],
            }
            return HttpReply(
                body={"choices": [{"message": message, "finish_reason": "tool_calls"}]}
            )
        if "reasoning" in own[0]:
            return HttpReply(
                status=400,
                body={"error": {"message": "property 'messages.2.reasoning' is unsupported"}},
            )
        return reply("a", "ok")

    tools = {"tools": {"stock": {"registered": "stock"}}}
    states = {**SIMPLE["states"], "a": {**SIMPLE["states"]["a"], "tools": ["stock"]}}
    definition = {**SIMPLE, **tools, "states": states}
    with (
        serve_scripted(server) as running,
        Machine.from_dict(definition, model="m", base_url=running.base_url) as machine,
    ):

        @machine.tool
        def stock() -> int:
            """How many there are."""
            return 3

        chat = machine.start(greet=False)
        assert chat.send("x").text.startswith("ok")
        chat.send("y")
    assert len(bodies) == 5
