"""A message with calls goes back to the model that wrote it as it came, and to no other one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.engine.journal import entry_reply, reply_entry
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.openai.native import merged
from llm_fsm.session.messages import ModelReply, ToolCall
from llm_fsm.testing import HttpReply, reply, serve_scripted

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "help",
    "tools": {"stock": {"registered": "stock"}},
    "states": {
        "help": {
            "purpose": "What are you looking for?",
            "tools": ["stock"],
            "transitions": [{"target_state": "bye", "description": "done"}],
        },
        "bye": {"reply": "Bye"},
    },
}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "stock", "arguments": '{ "item":"lamp" }'},
}


def call(**more: Any) -> dict[str, Any]:
    return {**CALL, **more}


def function(**more: Any) -> dict[str, Any]:
    return {**CALL, "function": {**CALL["function"], **more}}


MESSAGES = [
    {"tool_calls": [call(extra_content={"google": {"thought_signature": "c2ln"}})]},
    {"tool_calls": [function(thought_signature="c2ln")]},
    {"tool_calls": [call(provider_specific_fields={"signature": "x"}), {**CALL, "id": "c2"}]},
    {"tool_calls": [CALL], "reasoning_content": "I look it up."},
    {
        "tool_calls": [CALL],
        "reasoning": "So.",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "a"}],
    },
    {
        "tool_calls": [CALL],
        "thinking_blocks": [{"type": "thinking", "thinking": "So.", "signature": "s"}],
    },
    {"tool_calls": [CALL], "of_tomorrow": {"deep": [{"er": 1}]}, "flag": False, "count": 0},
]


def answered(message: dict[str, Any], body: dict[str, Any]) -> HttpReply:
    if not body.get("stream"):
        whole = {"role": "assistant", "content": None, **message}
        return HttpReply(
            body={"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}]}
        )
    calls = [{"index": place, **one} for place, one in enumerate(message["tool_calls"])]
    chunk = {
        "choices": [{"index": 0, "delta": {**message, "tool_calls": calls}, "finish_reason": None}]
    }
    body_of_events = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    return HttpReply(body=body_of_events, headers={"content-type": "text/event-stream"})


def stock(item: str) -> int:
    """How many there are."""
    return len(item)


def sent_back(message: dict[str, Any], *, streamed: bool) -> dict[str, Any]:
    bodies: list[dict[str, Any]] = []

    def server(body: dict[str, Any]) -> Any:
        bodies.append(body)
        return reply("help", "Three.") if len(bodies) > 1 else answered(message, body)

    with (
        serve_scripted(server) as running,
        Machine.from_dict(SHOP, model="m", base_url=running.base_url) as machine,
    ):
        machine.tool(stock)
        chat = machine.start(greet=False)
        if streamed:
            for _ in chat.stream("lamps?"):
                pass
        else:
            chat.send("lamps?")
    return next(item for item in bodies[-1]["messages"] if item["role"] == "assistant")


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_goes_back_as_it_came(message: dict[str, Any], way: str) -> None:
    found = sent_back(message, streamed=way == "stream")
    assert {key: value for key, value in found.items() if key not in ("role", "content")} == message


def test_no_other_model_gets_what_one_has_signed() -> None:
    bodies: list[dict[str, Any]] = []

    def first(body: dict[str, Any]) -> Any:
        if any(message["role"] == "tool" for message in body["messages"]):
            return HttpReply(status=400, body={"error": {"message": "no"}})
        return answered(MESSAGES[3], body)

    def second(body: dict[str, Any]) -> Any:
        bodies.append(body)
        return reply("help", "Three.")

    with serve_scripted(first) as one, serve_scripted(second) as other:
        fallbacks = [CompatLLM("m", base_url=other.base_url)]
        with Machine.from_dict(
            SHOP, model="m", base_url=one.base_url, fallbacks=fallbacks
        ) as machine:
            machine.tool(stock)
            machine.start(greet=False).send("lamps?")
    found = next(item for item in bodies[-1]["messages"] if item["role"] == "assistant")
    assert found.keys() == {"role", "content", "tool_calls"}


def test_what_was_signed_survives_the_journal() -> None:
    calls = (ToolCall(id="c", name="n", arguments="{}"),)
    signed = ModelReply(
        text="", tool_calls=calls, native={"by": "m", "calls": {"c": {"sign": "x"}}}
    )
    assert entry_reply(json.loads(json.dumps(reply_entry(signed)))) == signed


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["I ", "see"], "I see"),
        ([{"a": "x"}, {"a": "y", "b": None}], {"a": "xy", "b": None}),
        ([[1], [2]], [1, 2]),
        ([[{"index": 0, "type": "t", "text": "a"}], [{"index": 0, "type": "t", "text": "b"}]],
         [{"index": 0, "type": "t", "text": "ab"}]),
        ([[{"index": 0, "text": "a"}], [{"index": 1, "text": "b"}]],
         [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]),
        ([[{"text": "a"}], [{"text": "a"}]], [{"text": "a"}, {"text": "a"}]),
        ([3, 4], 4),
        (["a", None], "a"),
    ],
)  # fmt: skip
def test_pieces_of_a_stream_are_joined(pieces: list[Any], whole: Any) -> None:
    joined: Any = pieces[0]
    for piece in pieces[1:]:
        joined = merged(joined, piece)
    assert joined == whole
