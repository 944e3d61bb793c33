from __future__ import annotations

import json
import resource

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.cassette import RecordingLLM, ReplayLLM, read_cassette
from llm_fsm.llm.registry import resolve
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.session.messages import LLMMessage, ModelReply
from llm_fsm.testing import calls, reply
from llm_requests import request, view

pytestmark = pytest.mark.anyio


def said(user: str | None, state: str = "ask_name", prompt: str = "p"):
    messages = (LLMMessage("system", prompt), LLMMessage("user", str(user)))
    return request(messages=messages, view=view(state=state, user=user, speak=user is None))


async def record(path, *pairs) -> None:
    llm = RecordingLLM(ScriptedLLM([reply for _, reply in pairs]), path)
    for asked, _ in pairs:
        await llm.complete(asked)
    await llm.aclose()


async def test_what_was_recorded_is_played_back(tmp_path):
    path = tmp_path / "tape.jsonl"
    await record(path, (said(None), "hello"), (said("I'm Ada \ud800"), {"message": "hi"}))
    llm = resolve(f"replay:{path}", environ={})
    replies = [await llm.complete(asked) for asked in (said("I'm Ada \ud800"), said(None))]
    assert [reply.text for reply in replies] == ['{"message":"hi"}', "hello"]
    assert (replies[0].model, isinstance(llm, LLM)) == ("scripted", True)


async def test_a_line_holds_the_request_and_the_reply_and_no_more(tmp_path):
    path = tmp_path / "tape.jsonl"
    await record(path, (said("x"), "hello"))
    line = json.loads(path.read_text())
    assert list(line) == ["fingerprint", "state", "user", "reply"]
    assert (len(line["fingerprint"]), line["state"], line["user"]) == (64, "ask_name", "x")
    assert line["reply"] == {
        "text": "hello",
        "model": "scripted",
        "mode": "scripted",
        "finish_reason": "stop",
        "input_tokens": 0,
        "cached_tokens": 0,
        "output_tokens": 0,
        "seconds": 0.0,
        "cost": 0.0,
    }


async def test_what_came_from_a_cache_is_played_back(tmp_path):
    path = tmp_path / "tape.jsonl"
    asked = said("x")

    class Cached:
        async def complete(self, request):
            return ModelReply(text="hello", input_tokens=812, cached_tokens=640)

    recorded = await RecordingLLM(Cached(), path).complete(asked)
    played = await ReplayLLM.from_file(path).complete(asked)
    assert (
        (played.input_tokens, played.cached_tokens)
        == (recorded.input_tokens, recorded.cached_tokens)
        == (812, 640)
    )


async def test_a_conversation_is_played_back_on_another_day(tmp_path):
    path = tmp_path / "tape.jsonl"
    document = {
        "name": "greeter",
        "initial_state": "hello",
        "states": {
            "hello": {"purpose": "What is your name?", "transitions": [{"target_state": "bye"}]},
            "bye": {"purpose": "Goodbye!"},
        },
    }
    llm = RecordingLLM(
        ScriptedLLM([reply("hello", "And your name?"), reply("bye", "Goodbye, Ada!")]), path
    )
    for model, time in ((llm, 1e9), (f"replay:{path}", 2e9)):
        async with AsyncMachine.from_dict(
            document, model=model, clock=lambda time=time: time
        ) as machine:
            chat = await machine.start(greet=False)
            assert [(await chat.send(said)).text for said in ("Hi", "Ada")] == [
                "And your name?",
                "Goodbye, Ada!",
            ]


async def test_the_same_request_gets_its_replies_in_order_and_then_the_last(tmp_path):
    path = tmp_path / "tape.jsonl"
    await record(path, (said("x"), "1"), (said("y"), "other"), (said("x"), "2"))
    llm = ReplayLLM.from_file(path)
    assert [(await llm.complete(said("x"))).text for _ in range(3)] == ["1", "2", "2"]


async def test_exact_matching_tells_prompts_apart_and_words_do_not(tmp_path):
    path = tmp_path / "tape.jsonl"
    await record(path, (said("x", prompt="old"), "hello"))
    assert (
        await ReplayLLM.from_file(path, match="words").complete(said("x", prompt="new"))
    ).text == "hello"
    with pytest.raises(
        ModelError, match="with another prompt or history: record again, or use match='words'"
    ):
        await ReplayLLM.from_file(path).complete(said("x", prompt="new"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            said("z"),
            r'tape.jsonl has no reply to "z" in state \'ask_name\'; for that state it has the greeting, "x"',
        ),
        (said("x", state="bye"), r'no reply to "x" in state \'bye\'; it has the states ask_name'),
        (said(None, state="bye"), r"no reply to the greeting in state 'bye'"),
        (said("z" * 100), 'no reply to "z{59}…"'),
    ],
)
async def test_a_missing_reply_says_what_was_asked_and_what_there_is(tmp_path, asked, says):
    path = tmp_path / "tape.jsonl"
    await record(path, (said(None), "hello"), (said("x"), "hi"))
    with pytest.raises(ModelError, match=says) as caught:
        await ReplayLLM.from_file(path, match="words").complete(asked)
    assert not caught.value.retryable


async def test_an_empty_cassette_says_so():
    with pytest.raises(ModelError, match="it is empty"):
        await ReplayLLM([]).complete(said("x"))


async def test_a_failure_is_not_recorded(tmp_path):
    path = tmp_path / "tape.jsonl"
    with pytest.raises(ModelError, match="busy"):
        await record(path, (said("x"), ModelError("busy", retryable=True)))
    assert not path.exists()


async def test_a_line_cut_off_by_a_crash_is_left_out_and_recording_goes_on(tmp_path):
    path = tmp_path / "tape.jsonl"
    await record(path, (said("x"), "1"), (said("y"), "2"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [entry.reply.text for entry in read_cassette(path)] == ["1"]
    await record(path, (said("z"), "3"))
    assert [entry.reply.text for entry in read_cassette(path)] == ["1", "3"]


async def test_a_cassette_that_cannot_be_written_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="cannot write"):
        await record(tmp_path / "none" / "tape.jsonl", (said("x"), "1"))


async def test_a_line_that_the_disk_takes_only_in_part_is_a_model_error(tmp_path):
    path = tmp_path / "tape.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
    try:
        with pytest.raises(ModelError, match=r"cannot write .*: No space left"):
            await record(path, (said("x"), "1"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == 60
    await record(path, (said("y"), "2"))
    assert [entry.reply.text for entry in read_cassette(path)] == ["2"]


async def test_without_a_view_the_last_message_counts(tmp_path):
    path = tmp_path / "tape.jsonl"
    asked = request("hi", view=None, state="s")
    await record(path, (asked, "hello"))
    assert [(entry.state, entry.user) for entry in read_cassette(path)] == [("s", "hi")]


async def test_a_json_list_is_a_cassette_too(tmp_path):
    path = tmp_path / "tape.json"
    path.write_text(
        json.dumps([{"state": "ask_name", "user": "x", "reply": {"text": "hello"}}], indent=1)
    )
    assert (await ReplayLLM.from_file(path, match="words").complete(said("x"))).text == "hello"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff", "cannot read"),
        (b"[", "not JSON"),
        (b"{}\n", "tape.jsonl:1 is no entry"),
        (b"7\n", "is no entry"),
        (b'[{"reply": {"text": 7}}]', "is no entry"),
        (b"nonsense\n{}\n", "tape.jsonl:1 is not JSON"),
    ],
)
def test_a_file_that_is_no_cassette_is_one_clear_error(tmp_path, content, says):
    path = tmp_path / "tape.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=says):
        read_cassette(path)


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot read"):
        resolve(f"replay:{tmp_path / 'none.jsonl'}", environ={})


@pytest.mark.parametrize("match", ["exact", "words"])
async def test_calls_of_tools_are_recorded_too(tmp_path, match):
    path = tmp_path / "tape.jsonl"
    await record(path, (said("x"), calls(("look", {"a": 1}), text="wait")), (said("x"), "done"))
    llm = ReplayLLM.from_file(path, match=match)
    first, second = await llm.complete(said("x")), await llm.complete(said("x"))
    assert [(call.id, call.name, call.arguments) for call in first.tool_calls] == [
        ("call_1_1", "look", '{"a": 1}')
    ]
    assert (first.text, second.text, second.tool_calls) == ("wait", "done", ())


def test_calls_in_another_form_are_no_entry(tmp_path):
    path = tmp_path / "tape.jsonl"
    path.write_text('{"reply": {"text": "", "tool_calls": [{"name": "look"}]}}\n')
    with pytest.raises(ConfigurationError, match=r"tape\.jsonl:1 is no entry"):
        read_cassette(path)


async def test_a_cassette_asks_for_replies_in_the_form_that_was_recorded(tmp_path):
    path = tmp_path / "tape.jsonl"
    document = {
        "name": "greeter",
        "initial_state": "hello",
        "context_schema": {"properties": {"name": {"type": "string"}}},
        "states": {
            "hello": {"purpose": "Your name?", "transitions": [{"target_state": "bye"}]},
            "bye": {},
        },
    }
    listed = [{"key": "name", "value": "Ada"}]

    class Strict(ScriptedLLM):
        reply_form = None

    text = json.dumps(
        {"transition": {"target_state": "bye", "context_update": listed}, "message": "Bye!"}
    )
    for made in (lambda: RecordingLLM(Strict([text]), path), lambda: ReplayLLM.from_file(path)):
        async with AsyncMachine.from_dict(document, model=made()) as machine:
            turn = await (await machine.start(greet=False)).send("Ada")
            assert (turn.state, turn.context) == ("bye", {"name": "Ada"})
    assert json.loads(path.read_text())["form"] == "list"
