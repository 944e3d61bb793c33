"""The OpenAI form, spoken by the stock SDK over a real loopback server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

import ten_turns
from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER
from served import client_at, served


@contextmanager
def sdk_of(*machines: AsyncMachine, **options: Any) -> Iterator[openai.OpenAI]:
    app = create_app(machines, closes=True, due_seconds=None, **options)
    with (
        served(app) as url,
        client_at() as http,
        openai.OpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http
        ) as client,
    ):
        yield client


def greeter(*replies: Any, **options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(GREETER, model=ScriptedLLM(list(replies)), **options)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def place_of(answer: Any) -> tuple[str, dict[str, Any]]:
    """State and context, which this server adds to the form."""
    extra = answer.llm_fsm
    return extra["state"], extra["context"]


@pytest.mark.parametrize("streamed", [False, True])
def test_ten_turns_by_the_transcript_alone(streamed: bool) -> None:
    with sdk_of(ten_turns.machine()) as client:
        messages: list[Any] = [{"role": "system", "content": "be nice"}]
        found = []
        for message in ten_turns.MESSAGES:
            if isinstance(message, str):
                messages.append(user(message))
            else:
                call = messages[-1]["tool_calls"][0]
                messages.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(message)}
                )
            if streamed:
                text, calls, last = "", [], None
                for chunk in client.chat.completions.create(
                    model="ten", messages=messages, stream=True
                ):
                    text += chunk.choices[0].delta.content or ""
                    calls += chunk.choices[0].delta.tool_calls or []
                    last = chunk
                said = {"role": "assistant", "content": text}
                if calls:
                    said["tool_calls"] = [call.model_dump(exclude={"index"}) for call in calls]
                messages.append(said)
                found.append(place_of(last))
            else:
                answer = client.chat.completions.create(model="ten", messages=messages)
                messages.append(answer.choices[0].message.model_dump(exclude_none=True))
                found.append(place_of(answer))
        assert found == ten_turns.reference()


def test_ten_turns_of_responses() -> None:
    with sdk_of(ten_turns.machine()) as client:
        found, previous, call = [], None, ""
        for message in ten_turns.MESSAGES:
            given: Any = message
            if not isinstance(message, str):
                given = [
                    {"type": "function_call_output", "call_id": call, "output": json.dumps(message)}
                ]
            answer = client.responses.create(
                model="ten", input=given, previous_response_id=previous
            )
            previous = answer.id
            call = next(
                (item.call_id for item in answer.output if item.type == "function_call"), ""
            )
            found.append(place_of(answer))
        assert found == ten_turns.reference()


def test_definitions_are_models() -> None:
    with sdk_of(greeter()) as client:
        assert [model.id for model in client.models.list()] == ["greeter"]
        assert client.models.retrieve("greeter").owned_by == "llm-fsm"
        with pytest.raises(openai.NotFoundError, match="no definition"):
            client.models.retrieve("nobody")


def test_a_completion_has_usage_and_the_conversation_by_its_header() -> None:
    with sdk_of(greeter(reply("hello", "Hm?"), reply("bye", "Bye.", name="Ada"))) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="greeter", messages=[user("hi")]
        )
        name = raw.headers["x-conversation-id"]
        answer = raw.parse()
        assert answer.choices[0].finish_reason == "stop"
        assert (
            answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        )
        named = client.chat.completions.create(
            model="greeter", messages=[user("Ada")], extra_headers={"X-Conversation-Id": name}
        )
        assert place_of(named) == ("bye", {"name": "Ada"})


def test_an_edited_message_forks_where_it_was_said_and_an_unknown_answer_does_not_count() -> None:
    model = ScriptedLLM(
        [
            reply("hello", "One."),
            reply("hello", "Two."),
            reply("bye", "Edited.", name="Ada"),
            reply("hello", "Go on."),
        ]
    )
    with sdk_of(AsyncMachine.from_dict(GREETER, model=model)) as client:

        def ask(*messages: Any) -> Any:
            return client.chat.completions.with_raw_response.create(
                model="greeter", messages=list(messages)
            )

        one, first = {"role": "assistant", "content": "One."}, user("a")
        head = ask(first).headers["x-conversation-id"]
        assert ask(first, one, user("b")).headers["x-conversation-id"] == head
        forked = ask(first, one, user("c"))
        assert forked.headers["x-conversation-id"] != head
        assert place_of(forked.parse()) == ("bye", {"name": "Ada"})
        other = ask(first, {"role": "assistant", "content": "never said"}, user("d"))
        assert other.headers["x-conversation-id"] not in (head, forked.headers["x-conversation-id"])
        assert other.parse().llm_fsm["number"] == 2


def test_a_transcript_is_known_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    messages = [user("a"), {"role": "assistant", "content": "One."}]
    with sdk_of(greeter(reply("hello", "One."), store=store)) as client:
        client.chat.completions.create(model="greeter", messages=messages[:1])
    with sdk_of(greeter(reply("bye", "Two.", name="Ada"), store=store)) as client:
        answer = client.chat.completions.create(model="greeter", messages=[*messages, user("b")])
        assert answer.llm_fsm["number"] == 2


def test_a_retry_of_the_sdk_gets_the_recorded_answer() -> None:
    model = ScriptedLLM([reply("hello", "One."), reply("hello", "Two."), reply("hello", "Three.")])
    with sdk_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        messages = [user("a"), {"role": "assistant", "content": "One."}, user("b")]
        client.chat.completions.create(model="greeter", messages=messages[:1])
        client.chat.completions.create(model="greeter", messages=messages)
        again = client.chat.completions.create(
            model="greeter", messages=messages, extra_headers={"X-Stainless-Retry-Count": "1"}
        )
        assert again.choices[0].message.content == "Two."
        assert len(model.requests) == 2


def test_a_response_that_is_streamed_or_goes_on_from_an_earlier_one() -> None:
    model = ScriptedLLM(
        [reply("hello", "One."), reply("hello", "Two."), reply("bye", "Other.", name="Ada")]
    )
    with sdk_of(AsyncMachine.from_dict(GREETER, model=model)) as client:
        with client.responses.stream(model="greeter", input="a") as stream:
            kinds = [event.type for event in stream]
            first = stream.get_final_response()
        assert first.output_text == "One."
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        second = client.responses.create(model="greeter", input="b", previous_response_id=first.id)
        other = client.responses.create(model="greeter", input="c", previous_response_id=first.id)
        assert second.conversation_id == first.conversation_id
        assert other.conversation_id != first.conversation_id
        assert other.llm_fsm["number"] == 2


def test_wrong_requests_say_what_is_wrong() -> None:
    with sdk_of(greeter()) as client:
        picture = [{"type": "image_url", "image_url": {"url": "data:,"}}]
        with pytest.raises(openai.UnprocessableEntityError, match="only parts with text"):
            client.chat.completions.create(
                model="greeter", messages=[{"role": "user", "content": picture}]
            )
        with pytest.raises(openai.UnprocessableEntityError, match="the last message"):
            client.chat.completions.create(
                model="greeter", messages=[{"role": "assistant", "content": "x"}]
            )
        with pytest.raises(openai.NotFoundError, match="no response"):
            client.responses.create(model="greeter", input="x", previous_response_id="resp_no")


def test_the_size_of_a_transcript_is_a_setting() -> None:
    three = [user("a"), {"role": "assistant", "content": "b"}, user("c")]
    with sdk_of(
        greeter(*[reply("hello", "Hi.")] * 4), limits=Limits(transcript_messages=3)
    ) as client:
        client.chat.completions.create(model="greeter", messages=three)
        client.responses.create(model="greeter", input=three)
        with pytest.raises(
            openai.UnprocessableEntityError, match=r"at most 3 .* this one has 4"
        ) as wrong:
            client.chat.completions.create(model="greeter", messages=[user("z"), *three])
        assert wrong.value.response.json()["errors"][0]["pointer"] == "/messages"
        with pytest.raises(openai.UnprocessableEntityError, match="at most 3 messages") as wrong:
            client.responses.create(model="greeter", input=[user("z"), *three])
        assert wrong.value.response.json()["errors"][0]["pointer"] == "/input"
    many = [{"role": "system", "content": "x"}] * 10_001
    with sdk_of(
        greeter(reply("hello", "Hi.")), limits=Limits(transcript_messages=20_000)
    ) as client:
        client.chat.completions.create(model="greeter", messages=[*many, user("c")])
