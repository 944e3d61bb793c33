from __future__ import annotations

import json

import pytest

from llm_fsm.documents import files as reading
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.registry import resolve
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.session.messages import ToolCall
from llm_requests import request

pytestmark = pytest.mark.anyio


async def test_texts_dicts_and_callables_are_answered_in_order():
    llm = ScriptedLLM(
        ["plain", {"message": "é"}, lambda asked: {"said": asked.messages[-1].content}]
    )
    texts = [(await llm.complete(request(f"say {n}"))).text for n in range(3)]
    assert texts == ["plain", '{"message":"é"}', '{"said":"say 2"}']
    assert [seen.messages[-1].content for seen in llm.requests] == ["say 0", "say 1", "say 2"]


async def test_an_exception_is_raised_as_it_stands_and_counts_as_a_call():
    fault = ModelError("busy", retryable=True, status=503)
    llm = ScriptedLLM([fault, "after"])
    with pytest.raises(ModelError) as caught:
        await llm.complete(request())
    assert caught.value is fault
    assert (await llm.complete(request())).text == "after"


async def test_remaining_counts_down_and_loop_starts_again():
    llm = ScriptedLLM(["a", "b"], loop=True)
    counts = [llm.remaining]
    texts = []
    for _ in range(5):
        texts.append((await llm.complete(request())).text)
        counts.append(llm.remaining)
    assert (texts, counts) == (["a", "b", "a", "b", "a"], [2, 1, 2, 1, 2, 1])


@pytest.mark.parametrize("loop", [True, False])
async def test_an_empty_script_has_no_reply(loop: bool):
    with pytest.raises(ModelError, match="0 replies"):
        await ScriptedLLM([], loop=loop).complete(request())


async def test_running_out_names_the_number_of_replies_and_the_state():
    llm = ScriptedLLM(["only"])
    await llm.complete(request())
    with pytest.raises(ModelError, match=r"has 1 reply, and call 2 in state 'ask_email'") as caught:
        await llm.complete(request(state="ask_email", view=None))
    assert not caught.value.retryable
    assert llm.remaining == 0


@pytest.mark.parametrize("replies", [[3], ["ok", None], "one text", {"a": 1}])
def test_other_things_than_replies_are_refused_when_the_script_is_made(replies):
    with pytest.raises(TypeError):
        ScriptedLLM(replies)


@pytest.mark.parametrize(
    "content", [["hi", {"message": "x"}], {"replies": ["hi", {"message": "x"}]}]
)
async def test_a_file_holds_a_list_of_replies(tmp_path, content):
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    llm = ScriptedLLM.from_file(path)
    assert [(await llm.complete(request())).text for _ in range(2)] == ["hi", '{"message":"x"}']


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "no list"),
        (b"[1]", "reply 1 of"),
    ],
)
def test_a_file_that_is_no_script_is_one_clear_error(tmp_path, content, says):
    path = tmp_path / "replies.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=says):
        ScriptedLLM.from_file(path)


@pytest.mark.parametrize("name", ["scripted", "replay"])
def test_a_file_that_never_ends_is_one_clear_error(name, monkeypatch):
    monkeypatch.setattr(reading, "MAX_REPLIES", 2_000_000)
    with pytest.raises(ConfigurationError, match="cannot read /dev/zero: it is longer than 2 MB"):
        resolve(f"{name}:/dev/zero", environ={})


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot read .*none\.json"):
        ScriptedLLM.from_file(tmp_path / "none.json")


def test_a_view_is_wanted_only_where_a_callable_may_read_it():
    assert [ScriptedLLM(["x"]).reads_view, ScriptedLLM(["x", lambda asked: "y"]).reads_view] == [
        False,
        True,
    ]


def test_it_is_an_llm():
    assert isinstance(ScriptedLLM([]), LLM)


async def test_calls_of_tools_are_scripted_with_ids_that_stay_the_same():
    script = [
        calls(("look", {"a": "é"}), ("look", '{"ha'), text="wait"),
        lambda asked: calls(("look", {})),
    ]
    for _ in range(2):
        llm = ScriptedLLM(script)
        first, second = [await llm.complete(request()) for _ in script]
        assert first.tool_calls == (
            ToolCall(id="call_1_1", name="look", arguments='{"a": "é"}'),
            ToolCall(id="call_1_2", name="look", arguments='{"ha'),
        )
        assert (first.text, first.finish_reason) == ("wait", "tool_calls")
        assert [call.id for call in second.tool_calls] == ["call_2_1"]


@pytest.mark.parametrize("listed", ["look", [{"arguments": {}}], [3], None])
def test_what_is_no_list_of_calls_is_refused(listed):
    with pytest.raises(TypeError, match="scripted reply 1"):
        ScriptedLLM([{"tool_calls": listed}])
