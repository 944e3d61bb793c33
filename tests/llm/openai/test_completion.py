from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.completion import (
    ReplySettings,
    error_line,
    parse_payload,
    read_completion,
    rejected_words,
)
from llm_fsm.session.messages import ModelReply


def parse(body, mode="prompt") -> ModelReply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_completion(
        parse_payload(data), ReplySettings("asked", mode, tools=False), attempts=2, seconds=0.5
    )


def answer(message, **more) -> dict:
    return {"choices": [{"message": message, "finish_reason": "stop"}], **more}


def call(name: str, arguments) -> dict:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_usual_answer_gives_words_and_figures():
    body = answer(
        {"content": "hi"},
        model="m-1",
        usage={"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.25},
    )
    assert parse(body) == ModelReply(
        text="hi",
        model="m-1",
        mode="prompt",
        finish_reason="stop",
        attempts=2,
        input_tokens=9,
        output_tokens=2,
        seconds=0.5,
        cost=0.25,
    )


@pytest.mark.parametrize(
    ("message", "mode", "text"),
    [
        ({"content": ""}, "prompt", ""),
        ({"content": None}, "prompt", ""),
        ({}, "prompt", ""),
        ({"content": "\ud800"}, "prompt", "\ud800"),
        ({"content": "<html>"}, "schema", "<html>"),
        (
            {
                "content": [
                    "a",
                    {"type": "text", "text": "b"},
                    {"type": "thinking", "text": "no"},
                    7,
                ]
            },
            "prompt",
            "ab",
        ),
        ({"content": [{"type": "text", "text": None}]}, "prompt", ""),
        ({"content": {"message": "m"}}, "schema", '{"message": "m"}'),
        ({"content": 7}, "schema", "7"),
        ({"content": None, "refusal": "I cannot"}, "schema", "I cannot"),
        ({"content": None, "refusal": 7}, "schema", ""),
        ({"content": None, "tool_calls": [call("reply", "{}")]}, "tool", "{}"),
        ({"content": "thinking", "tool_calls": [call("reply", "{}")]}, "tool", "{}"),
        ({"content": "words", "tool_calls": [call("reply", "{}")]}, "schema", "words"),
        ({"content": " ", "tool_calls": [call("reply", "{}")]}, "schema", "{}"),
        ({"content": None, "tool_calls": [call("x", "1"), call("reply", "2")]}, "tool", "2"),
        ({"content": None, "tool_calls": [call("x", "1")]}, "tool", "1"),
        ({"content": None, "tool_calls": [call("reply", {"a": 1})]}, "tool", '{"a": 1}'),
        ({"content": "words", "tool_calls": [7, {}, {"function": 3}]}, "tool", "words"),
        ({"content": "words", "tool_calls": "no"}, "tool", "words"),
        ({"content": "words", "tool_calls": []}, "tool", "words"),
        ({"content": None, "function_call": {"name": "reply", "arguments": "{}"}}, "tool", "{}"),
    ],
)
def test_whatever_the_model_wrote_is_a_reply(message, mode, text):
    assert parse(answer(message), mode).text == text


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, (0, 0)),
        ([], (0, 0)),
        ({}, (0, 0)),
        ({"prompt_tokens": "9", "completion_tokens": True}, (0, 0)),
        ({"prompt_tokens": -9, "completion_tokens": 1e300}, (0, 0)),
        ({"prompt_tokens": math.nan, "completion_tokens": math.inf}, (0, 0)),
        ({"prompt_tokens": 9.0, "completion_tokens": 10**30}, (9, 0)),
        ({"input_tokens": 3, "output_tokens": 4}, (3, 4)),
    ],
)
def test_figures_that_make_no_sense_count_as_none(usage, tokens):
    reply = parse(answer({"content": "x"}, usage=usage))
    assert (reply.input_tokens, reply.output_tokens) == tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"input_tokens_details": {"cached_tokens": 7}}, 7),
        (
            {
                "prompt_tokens_details": None,
                "prompt_cache_hit_tokens": 7,
                "prompt_cache_miss_tokens": 2,
            },
            7,
        ),
        ({"prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 7}, 7),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 7}, 0),
        ({"prompt_tokens_details": [7]}, 0),
        ({"prompt_tokens_details": {"cached_tokens": "7"}}, 0),
        ({"cached_tokens": -7}, 0),
        ({}, 0),
    ],
)
def test_tokens_from_a_cache_are_counted_wherever_providers_tell_them(usage, tokens):
    assert (
        parse(answer({"content": "x"}, usage={"prompt_tokens": 9, **usage})).cached_tokens == tokens
    )


@pytest.mark.parametrize("cost", ["1", -1, math.nan, math.inf, True, None, 10**400])
def test_a_cost_that_makes_no_sense_is_none(cost):
    body = json.dumps(answer({"content": "x"}, usage={"cost": cost})) if cost != 10**400 else None
    data = body or '{"choices":[{"message":{"content":"x"}}],"usage":{"cost":1' + "0" * 400 + "}}"
    assert parse(data.encode()).cost == 0.0


def test_odd_names_are_replaced():
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": 3}], "model": None}
    assert (parse(body).model, parse(body).finish_reason) == ("asked", "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "an empty body"),
        (b" \n", "an empty body"),
        (b"<!doctype html><p>hi", "HTML"),
        (b'{"choices": [{"mess', "broken or truncated JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"OK", "not JSON"),
        (b"data: {}\n\n", "not JSON"),
        (b"[" * 100_000, "broken or truncated JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "broken or truncated JSON"),
        ([], "a JSON list"),
        (None, "a JSON null"),
        ("text", "a JSON string"),
        (7, "a JSON number"),
        ({}, "without choices"),
        ({"choices": None}, "without choices"),
        ({"choices": []}, "without choices"),
        ({"choices": {}}, "without choices"),
        ({"choices": ["x"]}, "without choices"),
        ({"message": {"role": "assistant", "content": "hi"}}, "without choices"),
        ({"choices": [{}]}, "no message"),
        ({"choices": [{"message": "hi"}]}, "no message"),
    ],
)
def test_what_is_no_completion_is_an_error_that_may_pass(body, says):
    with pytest.raises(
        ModelError, match=rf"answered 200 with .*{says}.*, not a chat completion"
    ) as caught:
        parse(body)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("fault", "retryable", "status"),
    [
        ("overloaded", True, 200),
        ({"message": "overloaded", "code": 502}, True, 502),
        ({"message": "no credit", "code": 402}, False, 402),
        ({"message": "odd", "code": "odd"}, True, 200),
    ],
)
def test_an_error_in_an_answer_of_status_200_is_an_error(fault, retryable, status):
    with pytest.raises(ModelError, match=r"reports an error: (overloaded|no credit|odd)") as caught:
        parse({"error": fault})
    assert (caught.value.retryable, caught.value.status) == (retryable, status)


@pytest.mark.parametrize(
    "body",
    [
        {
            "choices": [{"message": {"content": "half"}, "finish_reason": "error"}],
            "error": {"message": "odd"},
        },
        {"choices": [{"message": {}, "finish_reason": "error", "error": {"message": "odd"}}]},
        {"choices": [{"message": {"content": ""}}], "error": {"message": "odd"}},
        {"choices": [{"message": {"content": None}, "finish_reason": "stop", "error": "odd"}]},
        [{"error": {"message": "odd", "code": 503}}],
        {"detail": "odd"},
        {"object": "error", "message": "odd", "code": 500},
        {"choices": None, "base_resp": {"status_code": 1004, "status_msg": "odd"}},
    ],
)
def test_words_that_end_with_an_error_are_an_error(body):
    with pytest.raises(ModelError, match="reports an error: odd") as caught:
        parse(body)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "reasoning_content": ' {"a": 1}\n'}, ' {"a": 1}\n'),
        ({"content": "", "reasoning": '{"a": 1}'}, '{"a": 1}'),
        ({"content": "", "reasoning_content": "Hm. {}"}, ""),
        ({"content": "", "reasoning_content": '{"a": 1'}, ""),
        ({"content": "Hi", "reasoning_content": '{"a": 1}'}, "Hi"),
        ({"content": "", "reasoning_content": "", "reasoning": None}, ""),
    ],
)
def test_a_thought_is_the_reply_only_where_it_is_an_object_and_alone(message, text):
    assert parse(answer(message)).text == text


def test_bytes_that_are_no_character_are_replaced():
    assert (
        parse(json.dumps(answer({"content": "Th@nks"})).encode().replace(b"@", b"\xff")).text
        == "Th\ufffdnks"
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"error": {"code": "json_validate_failed", "failed_generation": "Sure!"}}', "Sure!"),
        ('GroqException - {"error": {"failed_generation": ""}}', ""),
        ('{"error": {"message": "failed_generation"}}', None),
        ('{"error": {"failed_generation": 5}}', None),
        ('{"error": "no"}', None),
        ("[1]", None),
        ("{", None),
        ("no", None),
        ("{" * 100_000, None),
    ],
)
def test_words_that_a_provider_rejects_are_found_in_its_error(said, words):
    found = rejected_words(said)
    assert (None if found is None else found["choices"][0]["message"]["content"]) == words


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "tool_calls", "function"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["schema", "tool"]))
def test_any_json_is_a_reply_or_a_model_error(payload, mode):
    for body in (
        payload,
        answer(payload),
        answer({"content": payload}),
        answer({"tool_calls": payload}),
    ):
        try:
            assert isinstance(parse(body, mode).text, str)
        except ModelError:
            pass


@given(st.binary(max_size=40))
def test_any_bytes_are_a_reply_or_a_model_error(body):
    with pytest.raises(ModelError):
        parse(body)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('{"error": {"message": "no\\nsuch model"}}', "no such model"),
        ('{"error": "short"}', "short"),
        ('[{"error": {"code": 429, "message": "no quota left"}}]', "no quota left"),
        ('{"message": "top"}', "top"),
        ('{"detail": [{"msg": "bad"}]}', "bad"),
        ("plain words", "plain words"),
        ("<html>", "an HTML page"),
        ("", "nothing"),
        ("{}", "{}"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_an_error_is_told_in_one_line(body, line):
    assert error_line(body) == line
