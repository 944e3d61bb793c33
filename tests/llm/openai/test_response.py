"""An answer on its way: whatever its headers say of it, and however its connection ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.openai import response as arrival
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.retry import RetryPolicy
from llm_fsm.session.messages import ModelReply
from llm_fsm.testing.server.server import HttpReply, serve_scripted
from llm_requests import SCHEMA, request

pytestmark = pytest.mark.anyio
ONCE = RetryPolicy(attempts=1)


def event(content: str, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


WORDS = event("Hello") + event(" you")
OVER = event("", "stop")
DONE = "data: [DONE]\n\n"
WHOLE = json.dumps({"choices": [{"message": {"content": "Hello you"}, "finish_reason": "stop"}]})


def sent(body: str, kind: str | None = "text/event-stream", **options: Any) -> HttpReply:
    headers = {} if kind is None else {"Content-Type": kind}
    return HttpReply(body=body, headers=headers | options.pop("headers", {}), **options)


def cut(body: str) -> HttpReply:
    """An answer whose connection breaks after this."""
    return sent(body + "\n" * 9, cut_after=len(body))


async def replied(answer: HttpReply, *, streams: bool) -> str:
    with serve_scripted([answer]) as server:
        llm = CompatLLM("m", base_url=server.base_url, retry=ONCE)
        try:
            if not streams:
                return (await llm.complete(request())).text
            *pieces, reply = [item async for item in llm.stream(request())]
            assert isinstance(reply, ModelReply)
            assert "".join(pieces) in ("", reply.text)
            return reply.text
        finally:
            await llm.aclose()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "kind", ["text/event-stream", "application/json", "text/plain", "application/octet-stream"]
)
@pytest.mark.parametrize(
    "body",
    [WORDS + OVER + DONE, f": ping\n\n{WORDS}{DONE}", f"\n\n{WORDS}{OVER}", WHOLE, f"\n {WHOLE}"],
)
async def test_an_answer_is_what_it_is_whatever_its_headers_say(
    body: str, kind: str, streams: bool
) -> None:
    assert await replied(sent(body, kind), streams=streams) == "Hello you"


@pytest.mark.parametrize("before", ["", "\ufeff", "\n", "event: chunk\n"])
async def test_a_stream_that_no_header_calls_one_is_told_by_its_beginning_wherever_that_is_cut(
    before: str,
) -> None:
    answer = sent(before + event("Hello you", "stop"), "text/plain", pace=0.0001)
    assert await replied(answer, streams=True) == "Hello you"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_page_that_is_called_a_stream_is_named(streams: bool) -> None:
    with pytest.raises(ModelError, match=r"^http://127\.0\.0\.1:\d+/v1 answered 200 with HTML"):
        await replied(sent("<html>Log in</html>"), streams=streams)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("before", ["", WORDS])
async def test_an_error_in_an_answer_is_told_with_the_address_and_without_the_key(
    before: str, streams: bool
) -> None:
    with serve_scripted([sent(before + 'data: {"error": "sk-12345 is used up"}\n\n')]) as server:
        llm = CompatLLM("m", base_url=server.base_url, api_key="sk-12345", retry=ONCE)
        with pytest.raises(
            ModelError, match=rf'^{server.base_url} reports an error: "?\*\*\* is used up'
        ):
            _ = (
                [item async for item in llm.stream(request())]
                if streams
                else await llm.complete(request())
            )
        await llm.aclose()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("before", ["", WORDS])
@pytest.mark.parametrize("after", ["", DONE])
async def test_an_error_in_a_line_of_its_own_is_told(
    before: str, after: str, streams: bool
) -> None:
    with pytest.raises(ModelError, match=r"reports an error: used up$"):
        await replied(
            sent(before + '{"error": {"message": "used up", "code": 402}}\n' + after),
            streams=streams,
        )


async def test_a_connection_that_breaks_after_an_error_tells_that() -> None:
    told = '{"detail": "used up"}\n\n'
    with pytest.raises(ModelError, match=r"^http://127\.0\.0\.1:\d+/v1 reports an error: used up"):
        await replied(cut(WORDS + told), streams=True)
    with pytest.raises(ModelError, match=r"^http://127\.0\.0\.1:\d+/v1 reports an error: used up"):
        await replied(cut(told.join((": ping\n", ""))), streams=True)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [201, 202, 203, 206])
async def test_a_completion_counts_with_any_status_of_success(status: int, streams: bool) -> None:
    for body in (WORDS + OVER + DONE, WHOLE):
        assert await replied(sent(body, status=status), streams=streams) == "Hello you"
    for body, what in (
        ("", "an empty body|a stream that breaks off"),
        ("<p>", "HTML"),
        ('{"id": 1}', "JSON without"),
    ):
        with pytest.raises(ModelError, match=rf"/v1 answered {status} with ({what})"):
            await replied(sent(body, status=status), streams=streams)
    with pytest.raises(ModelError, match="answered 204: nothing"):
        await replied(sent("", status=204), streams=streams)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_events_that_no_empty_line_parts_are_taken_apart(streams: bool) -> None:
    assert (
        await replied(sent((WORDS + OVER + DONE).replace("\n\n", "\n")), streams=streams)
        == "Hello you"
    )


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_words_that_are_no_answer_are_told_and_bytes_are_not(
    kind: str, streams: bool
) -> None:
    with pytest.raises(ModelError, match=r"\(?The model is loading\)?"):
        await replied(sent("The model is  loading\n", kind), streams=streams)
    with pytest.raises(ModelError, match=r"(breaks off|not JSON), not a chat completion \(after"):
        await replied(sent("\x1f\ufffd(e\n", kind), streams=streams)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_chunks_that_are_lines_of_json_are_put_together(streams: bool) -> None:
    lines = (WORDS + OVER).replace("data: ", "").replace("\n\n", "\n")
    for end in ("", "[DONE]\n"):
        assert (
            await replied(sent(lines + end, "application/x-ndjson"), streams=streams) == "Hello you"
        )


@pytest.mark.parametrize(
    "body", [WORDS + OVER + DONE, WORDS + DONE, WORDS + OVER, WORDS + OVER + 'data: {"usa']
)
async def test_a_connection_that_breaks_after_the_whole_reply_takes_nothing_of_it(
    body: str,
) -> None:
    assert await replied(cut(body), streams=True) == "Hello you"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_stream_that_ends_without_a_word_is_whole_where_its_object_is(
    streams: bool,
) -> None:
    assert await replied(sent(event('{"a": ') + event('"b"}\n')), streams=streams) == '{"a": "b"}\n'
    for cut_off in (event('{"a": {"b": 1}'), WORDS, "", event("{ } }")):
        with pytest.raises(ModelError, match="not a chat completion"):
            await replied(sent(cut_off), streams=streams)


async def test_a_stream_that_stays_open_after_the_whole_reply_takes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrival, "LAST", 0.05)
    body = WORDS + OVER
    headers = {"Content-Type": "text/event-stream", "Content-Length": str(len(body) + 9)}
    assert await replied(HttpReply(body=body, headers=headers), streams=True) == "Hello you"


async def test_a_stream_that_is_kept_alive_after_the_whole_reply_takes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrival, "LAST", 0.5)
    alive = HttpReply(
        body=WORDS + OVER + ":\n" * 100_000,
        headers={"Content-Type": "text/event-stream"},
        pace=0.001,
    )
    async with asyncio.timeout(20):
        assert await replied(alive, streams=True) == "Hello you"


@pytest.mark.parametrize("ping", [":\n\n", 'event: ping\ndata: {"type": "ping"}\n\n'])
async def test_a_stream_that_is_only_kept_alive_ends_with_the_time_for_one_request(
    ping: str,
) -> None:
    alive = sent(WORDS + ping * 100_000, pace=0.001)
    with serve_scripted([alive]) as server:
        llm = CompatLLM("m", base_url=server.base_url, retry=ONCE, timeout=0.5)
        async with asyncio.timeout(20):
            with pytest.raises(
                ModelError, match=rf"^{server.base_url} stopped in the middle of its reply"
            ):
                [item async for item in llm.stream(request())]
        await llm.aclose()


async def test_a_connection_that_breaks_before_the_end_of_the_reply_is_an_error() -> None:
    with pytest.raises(ModelError, match="broke"):
        await replied(cut(WORDS), streams=True)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_how_a_connection_broke_is_told_in_one_line(streams: bool) -> None:
    answer = sent("not gzip", headers={"Content-Encoding": "gzip"})
    with pytest.raises(ModelError, match=r"broke: .*gzip") as caught:
        await replied(answer, streams=streams)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_connection_that_breaks_is_told_without_a_status_that_nobody_answered(
    streams: bool,
) -> None:
    with pytest.raises(ModelError, match="broke: Not enough data") as caught:
        await replied(cut(WORDS), streams=streams)
    # before it stands the server's port
    assert "400" not in str(caught.value).partition(" broke: ")[2]


@pytest.mark.parametrize("status", [400, 501])
async def test_a_server_that_gives_no_streams_is_asked_for_whole_replies_and_remembered(
    status: int,
) -> None:
    refusal = HttpReply(
        status=status, body={"error": {"message": "this model cannot stream", "param": "stream"}}
    )
    with serve_scripted([refusal, "Hello", "you"]) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        given = [[item async for item in llm.stream(request(schema=SCHEMA))] for _ in range(2)]
        await llm.aclose()
    assert [[(item.text, item.mode, item.attempts) for item in items] for items in given] == [  # type: ignore[union-attr]
        [("Hello", "schema", 2)],
        [("you", "schema", 1)],
    ]
    assert ["stream" in seen.body for seen in server.requests] == [True, False, False]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["response_format", "stream"])
async def test_a_rejection_that_comes_after_the_head_of_an_answer_is_one(
    name: str, streams: bool
) -> None:
    about = {"raw": f'{{"error": {{"message": "{name} is not supported"}}}}'}
    fault = {"code": 400, "message": "Provider returned error", "metadata": about}

    def answer(body: dict[str, Any]) -> str | HttpReply:
        return (
            sent(f": wait\n\ndata: {json.dumps({'error': fault})}\n\n")
            if name in body
            else "Hello you"
        )

    with serve_scripted(answer) as server:
        llm = CompatLLM("m", base_url=server.base_url, retry=ONCE)
        asked = request(schema=SCHEMA)
        for _ in range(2):
            items = (
                [item async for item in llm.stream(asked)]
                if streams
                else [await llm.complete(asked)]
            )
            assert items[-1].text == "Hello you"
        await llm.aclose()
    assert len(server.requests) == 2 + (name in server.requests[0].body)


async def test_the_failure_of_a_whole_reply_that_no_stream_was_given_for_tells_both_requests() -> (
    None
):
    refusal = HttpReply(status=400, body={"error": {"message": "this model cannot stream"}})
    with serve_scripted(
        [refusal, HttpReply(status=404, body={"error": "no such model"})]
    ) as server:
        llm = CompatLLM("m", base_url=server.base_url, retry=ONCE)
        with pytest.raises(ModelError, match="no such model") as caught:
            [item async for item in llm.stream(request())]
        await llm.aclose()
    assert caught.value.attempts == 2


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_words_that_a_provider_takes_for_no_json_are_the_reply(streams: bool) -> None:
    error = {
        "message": "Failed to validate JSON against its schema",
        "failed_generation": "Hello you",
    }
    answer = HttpReply(status=400, body={"error": {**error, "code": "json_validate_failed"}})
    assert await replied(answer, streams=streams) == "Hello you"


async def test_the_progress_of_a_prompt_is_told_before_the_first_word() -> None:
    told = [
        {"prompt_progress": {"total": 1000, "cache": 0, "processed": read}} for read in (512, 1000)
    ]
    begun = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}], **one}
        for one in told
    ]
    body = (
        "".join(f"data: {json.dumps(one)}\n\n" for one in begun)
        + event("Hi", "stop")
        + "data: [DONE]\n\n"
    )
    heard: list[tuple[int, int]] = []
    asked = request(reading=lambda read, total: heard.append((read, total)))
    async with serve_scripted([sent(body)]) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        try:
            last = [piece async for piece in llm.stream(asked)][-1]
        finally:
            await llm.aclose()
    assert heard[-1] == (1000, 1000)
    assert last.text == "Hi"
