"""A completion put together from its chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.openai.completion import ReplySettings, read_completion
from llm_fsm.llm.openai.stream import BEGINNING, Chunks, EventLines, gathered, is_events


def text_of(*deltas: dict[str, Any]) -> str:
    """The reply that these chunks make, which is what was given piece by piece where anything was."""
    chunks = Chunks(ReplySettings("m", "tool", tools=False))
    pieces = "".join(chunks.take({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas)
    chunks.done = True
    reply = read_completion(chunks.completion(), ReplySettings("m", "tool", tools=False))
    assert pieces in ("", reply.text)
    return reply.text


def called(arguments: object, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "reply", "arguments": arguments}, **more}]}


@pytest.mark.parametrize(
    ("deltas", "text"),
    [
        ([called({"a": "é"})], '{"a": "\\u00e9"}'),
        ([called("", id="x"), called('{"a"', id="y"), called(": 1}", id="z")], '{"a": 1}'),
        ([called('{"a"', index=0), called(": 1}", index=0)], '{"a": 1}'),
        (
            [{"reasoning_content": ' {"a"'}, {"reasoning_content": ": 1}"}, {"content": ""}],
            ' {"a": 1}',
        ),
        ([{"reasoning": '{"a": 1}'}, {"content": "Hi"}], "Hi"),
        ([{"reasoning": "Hm. "}, {"reasoning": '{"a": 1}'}], ""),
        ([{"reasoning": '{"a"'}], ""),
    ],
    ids=[
        "object",
        "new-ids",
        "names",
        "thought",
        "thought-and-words",
        "real-thought",
        "half-a-thought",
    ],
)
def test_a_reply_comes_where_servers_put_it(deltas: list[dict[str, Any]], text: str) -> None:
    assert text_of(*deltas) == text


@pytest.mark.parametrize("content", ["", '{"a": 1}'])
def test_a_call_that_is_cut_is_no_whole_reply_whatever_stands_beside_it(content: str) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=True))
    for delta in (
        {"content": content},
        called('{"a": 1}', id="x", index=0),
        called('{"b', id="y", index=1),
    ):
        chunks.take({"choices": [{"index": 0, "delta": delta}]})
    with pytest.raises(ModelError, match="breaks off"):
        chunks.completion()


def part(name: str = "", arguments: str = "", **more: Any) -> dict[str, Any]:
    return {**more, "function": {**({"name": name} if name else {}), "arguments": arguments}}


A, B = '{"path": "a"}', '{"path": "b"}'


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([[part("read", A), part("read", B)]], [("read", A), ("read", B)]),
        ([[part("read", A)], [part("read", B)]], [("read", A), ("read", B)]),
        ([[part("read", A, index=0)], [part("read", B, index=0)]], [("read", A), ("read", B)]),
        ([[part("read", A, index=0), part("stock", B, index=0)]], [("read", A), ("stock", B)]),
        ([[part("read", A, index="0")], [part("stock", B, index="1")]], [("read", A), ("stock", B)]),
        ([[part("clock"), part("date")]], [("clock", ""), ("date", "")]),
        ([[part("clock", id="x")], [part("date", id="y")]], [("clock", ""), ("date", "")]),
        ([[part("read", A)], [part("clock", "")]], [("read", A), ("clock", "")]),
        ([[part("read", A[:5])], [part(arguments=A[5:])], [part("read", B[:5])], [part(arguments=B[5:])]],
         [("read", A), ("read", B)]),
        ([[part("read", A[:5], id="x")], [part("read", B[:5], id="y")],
          [part(arguments=A[5:], id="x")], [part(arguments=B[5:], id="y")]],
         [("read", A), ("read", B[:5] + B[5:])]),
        ([[part("read", "", index=0, id="x")], [part("", A, index=0)], [part("read", "", index=0, id="y")],
          [part("", B, index=0)]],
         [("read", A), ("read", B)]),
        ([[part("read", A[:5], index=0)], [part("read", A[5:], index=0)]], [("read", A)]),
        ([[part("read", A[:5], id="x")], [part("read", A[5:], id="x")]], [("read", A)]),
        ([[part("read", A)], [part("read", "")]], [("read", A)]),
        ([[part("re")], [part("ad", A)]], [("read", A)]),
        ([[part("read", A, index=1)], [part("stock", B, index=0)]], [("read", A), ("stock", B)]),
    ],
)  # fmt: skip
def test_calls_are_told_apart_by_index_or_id_or_name_whatever_is_there(
    deltas: list[list[dict[str, Any]]], calls: list[tuple[str, str]]
) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=True))
    for parts in deltas:
        chunks.take({"choices": [{"index": 0, "delta": {"tool_calls": parts}}]})
    chunks.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    made = chunks.completion()["choices"][0]["message"]["tool_calls"]
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in made] == calls


@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (None, None)])
@pytest.mark.parametrize("together", [False, True])
def test_calls_are_told_apart_by_their_ids_where_their_indexes_do_not(
    indexes: Any, together: bool
) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=True))
    parts = [
        {
            "id": id,
            "function": {"name": name, "arguments": "{}"},
            **({} if index is None else {"index": index}),
        }
        for id, name, index in zip("ab", ("look", "look"), indexes, strict=True)
    ]
    for calls in [parts] if together else [[part] for part in parts]:
        chunks.take({"choices": [{"delta": {"tool_calls": calls}}]})
    chunks.done = True
    found = chunks.completion()["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["name"]) for call in found] == [
        ("a", "look"),
        ("b", "look"),
    ]


@pytest.mark.parametrize("text", ['{"a"', ""])
def test_an_error_after_the_first_words_is_an_error(text: str) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=False))
    chunks.take({"choices": [{"delta": {"content": text}}]})
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    with pytest.raises(ModelError, match="reports an error: gone") as caught:
        chunks.take({"error": {"code": 502, "message": "gone"}, "choices": [choice]})
    assert (caught.value.status, caught.value.retryable) == (502, True)


@pytest.mark.parametrize("text", ['{"a"', ""])
def test_an_error_in_the_place_of_a_chunk_is_an_error(text: str) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=False))
    chunks.take({"choices": [{"delta": {"content": text}}]})
    with pytest.raises(ModelError, match="reports an error: gone") as caught:
        chunks.take(
            {"object": "error", "message": "gone", "type": "InternalServerError", "code": 502}
        )
    assert caught.value.status == 502


def test_an_error_after_the_whole_reply_takes_nothing_of_it() -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=False))
    chunks.take({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    chunks.take({"error": {"message": "too late"}})
    assert chunks.completion()["choices"][0]["message"]["content"] == "Hi"


def data(value: Any) -> str:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"


def beside(fault: Any, finish: str | None = None, **choice: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": finish, **choice}],
        "error": fault,
    }


GONE: dict[str, tuple[str, int]] = {
    "openai": (data({"error": {"message": "gone", "code": "429"}}), 429),
    "text": (data({"error": "gone"}), 200),
    "detail": (data({"detail": "gone"}), 200),
    "details": (data({"detail": [{"loc": ["body"], "msg": "gone"}]}), 200),
    "gateway": (data({"statusCode": 503, "message": "gone"}), 503),
    "minimax": (
        data({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "gone"}}),
        200,
    ),
    "google": (data([{"error": {"code": 503, "message": "gone"}}]), 503),
    "json-text": (data('"gone"'), 200),
    "event": ("event: error\n" + data({"message": "gone", "code": 500}), 500),
    "event-in-words": ("event: error\n" + data("gone"), 200),
    "event-named-last": ('data: "gone"\nevent: error\n\n', 200),
    "anthropic": (
        "event: error\n" + data({"type": "error", "error": {"type": "x", "message": "gone"}}),
        200,
    ),
    "llama.cpp": ('error: {"code": 500, "message": "gone"}\n\n', 500),
    "ollama": ('{"error": {"message": "gone", "code": null}}\n', 200),
    "pretty": (json.dumps({"error": {"message": "gone"}}, indent=1) + "\n", 200),
    "google-pretty": (
        json.dumps([{"error": {"message": "gone", "code": 503}}], indent=1) + "\n",
        503,
    ),
    "line": ("gone\n", 200),
    "beside": (data(beside({"message": "gone"})), 200),
    "beside-stop": (data(beside({"message": "gone"}, "stop")), 200),
    "in-choice": (data(beside(None, error={"message": "gone", "status": 502})), 502),
    "other-choice": (data(beside("gone", index=1)), 200),
    "finish": (data(beside(None, "error") | {"message": "gone"}), 200),
}


def received(*sent: str) -> Chunks:
    events, chunks = EventLines(), Chunks(ReplySettings("m", "prompt", tools=False))
    for found in (*events.feed("".join(sent).encode()), *events.end()):
        chunks.read(found)
    return chunks


CUT = data({"choices": [{"index": 0, "delta": {"content": '{"a": {"b": 1}'}}]})


@pytest.mark.parametrize("after", ["", data("[DONE]")])
@pytest.mark.parametrize("before", ["", CUT])
@pytest.mark.parametrize("told", GONE)
def test_the_reason_of_a_stream_that_breaks_off_is_told_however_it_came(
    told: str, before: str, after: str
) -> None:
    sent, status = GONE[told]
    with pytest.raises(ModelError, match=r"^the provider reports an error: gone$") as caught:
        received(before, sent, after).completion()
    assert caught.value.status == status


@pytest.mark.parametrize("told", [*(sent for sent, _ in GONE.values()), data("junk"), data("1")])
def test_whatever_follows_the_whole_reply_takes_nothing_of_it(told: str) -> None:
    chunks = received(
        CUT,
        data({"choices": [{"index": 0, "delta": {"content": "}"}, "finish_reason": "stop"}]}),
        told,
    )
    choice = chunks.completion()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ('{"a": {"b": 1}}', "stop")


@pytest.mark.parametrize(
    "aside", [{"message": "looking"}, beside({"message": "", "code": 0}), {"detail": "looking"}]
)
def test_what_stands_beside_a_whole_reply_is_no_error(aside: dict[str, Any]) -> None:
    sent = (
        data(aside),
        data(
            {"choices": [{"index": 0, "delta": {"content": '{"a": 1}'}, "finish_reason": "stop"}]}
        ),
    )
    assert received(*sent).completion()["choices"][0]["message"]["content"] == '{"a": 1}'


def test_what_came_before_more_of_the_reply_is_no_reason_for_its_end() -> None:
    with pytest.raises(ModelError, match="a stream that breaks off"):
        received(data({"message": "looking"}), CUT).completion()
    with pytest.raises(ModelError, match="a stream that breaks off"):
        received(CUT, '{"choices": [{"delta": {"content": "sec\n').completion()


def test_a_chunk_in_words_is_told_and_one_in_json_is_not() -> None:
    with pytest.raises(ModelError, match=r"a chunk that is not JSON \(gone away\), not"):
        received(data("gone  away"))
    with pytest.raises(ModelError, match="a chunk that is not JSON, not"):
        received(data('{"choices": [{"delta": {"content": "sec'))


@pytest.mark.parametrize("mode", ["prompt", "tool"])
@pytest.mark.parametrize(
    ("text", "whole"),
    [('{"a": 1}\n', True), ('{"a": {"b": 1}', True), ('{"a": "b', False), ("Hi", True), ("", True)],
)
def test_a_stream_that_never_says_why_it_ended_is_as_whole_as_its_object(
    mode: Any, text: str, whole: bool
) -> None:
    chunks = Chunks(ReplySettings("m", mode, tools=False))
    chunks.take({"choices": [{"delta": called(text) if mode == "tool" else {"content": text}}]})
    assert chunks.read("[DONE]") == ""
    if whole:
        assert chunks.completion()["choices"][0]["finish_reason"] is None
    else:
        with pytest.raises(ModelError, match="a stream that breaks off"):
            chunks.completion()


USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
OTHER = {"prompt_tokens": 1, "completion_tokens": 1}


@pytest.mark.parametrize(
    ("last", "counts"),
    [
        ({"x_groq": {"id": "r", "usage": USAGE}}, USAGE),
        ({"x_groq": {"id": "r"}}, None),
        ({"usage": USAGE, "x_groq": {"usage": OTHER}}, USAGE),
        ({"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]}, USAGE),
    ],
    ids=["groq", "groq-without", "both", "moonshot"],
)
def test_tokens_are_counted_where_servers_tell_them(
    last: dict[str, Any], counts: dict[str, int] | None
) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=False))
    chunks.take({"choices": [{"delta": {"content": "Hi"}}], "x_groq": {"id": "r"}})
    chunks.take({"choices": [{"delta": {}, "finish_reason": "stop"}], **last})
    assert chunks.completion()["usage"] == counts


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_of_several_choices_the_one_that_came_first_is_the_reply(numbers: tuple[int, int]) -> None:
    chunks = Chunks(ReplySettings("m", "prompt", tools=False))
    for words in ("Hello", " you"):
        for number in numbers:
            said = words if number == numbers[0] else "Others"
            chunks.take({"choices": [{"index": number, "delta": {"content": said}}]})
    chunks.take({"choices": [{"index": numbers[0], "delta": {}, "finish_reason": "stop"}]})
    assert chunks.completion()["choices"][0]["message"]["content"] == "Hello you"


CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
EVENT = f"data: {json.dumps(CHUNK)}"


@pytest.mark.parametrize(
    "body",
    [
        f"{EVENT}\n\ndata: [DONE]\n\n",
        f": ping\n\n{EVENT}",
        f"\ufeff\n{EVENT}",
        f"event: chunk\n{EVENT}\n",
    ],
)
def test_chunks_that_nobody_asked_for_are_put_together(body: str) -> None:
    assert gathered(body.encode())["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.parametrize(
    "body", ["", "hello", "[1", " " * BEGINNING + EVENT, "database: no", "data: no\n\n", '{"a": {}']
)
def test_what_is_no_completion_is_none(body: str) -> None:
    with pytest.raises(ModelError, match="not a chat completion"):
        gathered(body.encode())


def test_blanks_of_any_length_take_no_time_to_look_through() -> None:
    assert not is_events(b" " * 10_000_000 + b"x")


def test_a_line_of_any_length_is_not_looked_at_again_with_each_piece() -> None:
    """What took the square of this length would outlast the time that a test has."""
    events, told = EventLines(), list[str]()
    line = b"data: " + b"x" * 30_000_000 + b"\n\n"
    for at in range(0, len(line), 1000):
        told += events.feed(line[at : at + 1000])
    assert [len(data) for data in told] == [30_000_000]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_end_in_any_way_wherever_they_are_cut(size: int) -> None:
    events, told = EventLines(), list[str]()
    stream = b"data: a\r\rdata: b\r\n\r\ndata: c\ndata: d\n\n: e\r\n\r\ndata: f\r"
    for at in range(0, len(stream), size):
        told += events.feed(stream[at : at + size])
    assert [*told, *events.end()] == ["a", "b", "c\nd", "f"]
