from __future__ import annotations

import asyncio
import json
import math
import socket

import pytest

from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.openai.response import MAX_ANSWER
from llm_fsm.llm.retry import Pacing, RetryPolicy
from llm_fsm.session.messages import LLMMessage, ToolCall
from llm_fsm.session.reply_schema import MOST_ITEMS, reply_schema
from llm_fsm.testing import calls
from llm_fsm.testing.server.server import HttpReply, serve_scripted
from llm_requests import LOOK, REPLY_SCHEMA, SCHEMA, Slept, request

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(attempts=1)


async def ask(replies, asked=None, *, refuse=(), model="m", **options):
    """One reply from a server that follows the script; also the server, for what it saw."""
    async with serve_scripted(replies, refuse=refuse) as server:
        llm = CompatLLM(model, base_url=server.base_url, **{"pacing": Slept().pacing, **options})
        try:
            return await llm.complete(asked or request()), server
        finally:
            await llm.aclose()


async def fault(replies, asked=None, **options) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(replies, asked, **options)
    return caught.value


def test_it_is_an_llm():
    assert isinstance(CompatLLM("m", base_url="http://localhost"), LLM)


async def test_the_request_carries_messages_and_settings_and_nothing_else():
    asked = request("héllo \ud800", temperature=0.5, max_tokens=9)
    reply, server = await ask(["hi"], asked, api_key=" sk-1\n", headers={"X-Team": "a"})
    seen = server.requests[0]
    assert seen.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You serve a machine."},
            {"role": "user", "content": "héllo \ud800"},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
    }
    assert seen.headers["authorization"] == "Bearer sk-1"
    assert seen.headers["x-team"] == "a"
    assert "x-conversation-id" not in seen.headers
    assert (reply.text, reply.model, reply.mode, reply.attempts, reply.finish_reason) == (
        "hi",
        "m",
        "prompt",
        1,
        "stop",
    )
    assert reply.input_tokens > 0
    assert reply.seconds > 0


FURTHER = {"top_p": 0.5, "seed": 7, "stop": ["END"], "response_format": {"type": "json_object"}}


async def test_further_settings_are_sent_and_replace_nothing_that_the_engine_sends():
    options = {**FURTHER, "model": "other", "messages": [], "temperature": 2}
    _, server = await ask(["{}"], request("hi", temperature=0.5, options=options))
    seen = server.requests[0].body
    assert {key: seen[key] for key in FURTHER} == FURTHER
    assert (seen["model"], seen["temperature"], len(seen["messages"])) == ("m", 0.5, 2)


async def test_the_form_of_the_reply_is_that_of_the_request():
    asked = request(schema=SCHEMA, options={"response_format": {"type": "text"}})
    _, server = await ask(['{"message": "hi"}'], asked)
    assert server.requests[0].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("value", [ModelError, {1, 2}, object()], ids=["class", "set", "object"])
async def test_a_setting_that_is_no_json_is_one_clear_error(value):
    said = str(await fault(["hi"], request(options={"seed": 7, "response_format": value})))
    assert "takes settings as JSON; one of seed, response_format is none" in said


async def test_without_a_key_no_authorization_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    _, server = await ask(["hi"])
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("m", None, "m"),
        ("openai/gpt-4o", None, "openai/gpt-4o"),
        ("org/m:8b", None, "org/m:8b"),
        ("m", "other", "other"),
    ],
)
async def test_the_models_name_is_sent_as_given(model, asked, sent):
    _, server = await ask(["hi"], request(model=asked), model=model)
    assert server.requests[0].body["model"] == sent


@pytest.mark.parametrize("text", ["", "{}", "<html>", "not json", "\ud83d", "x" * 100_000])
async def test_any_text_of_the_model_is_a_reply(text):
    reply, _ = await ask([text])
    assert reply.text == text


async def test_a_schema_is_sent_as_strict_json_schema():
    reply, server = await ask([{"message": "hi"}], request(schema=SCHEMA))
    wanted = {"name": "reply", "strict": True, "schema": REPLY_SCHEMA}
    assert server.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": wanted,
    }
    assert (reply.mode, reply.text, reply.attempts) == ("schema", '{"message":"hi"}', 1)


@pytest.mark.parametrize(
    ("refuse", "mode"),
    [
        (("schema",), "tool"),
        (("schema", "tool"), "json_object"),
        (("schema", "tool", "json_object"), "prompt"),
    ],
)
async def test_a_rejected_form_is_stepped_down_once_and_for_all(refuse, mode):
    async with serve_scripted(["a", "b"], refuse=refuse) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        first = await llm.complete(request(schema=SCHEMA))
        second = await llm.complete(request(schema=SCHEMA))
        await llm.aclose()
    assert (first.text, first.mode, first.attempts) == ("a", mode, len(refuse) + 1)
    assert (second.text, second.mode, second.attempts) == ("b", mode, 1)


@pytest.mark.parametrize(
    ("reply", "status", "retryable", "says"),
    [
        (
            HttpReply(status=400, body={"error": {"message": "bad"}}),
            400,
            False,
            "answered 400: bad",
        ),
        (
            HttpReply(status=401, body={"error": "no sk-1"}),
            401,
            False,
            r"refuses the key \(401: no \*\*\*\); set LLM_FSM_API_KEY",
        ),
        (HttpReply(status=403, body=""), 403, False, "set LLM_FSM_API_KEY"),
        (
            HttpReply(status=404, body={"error": "no model m"}),
            404,
            False,
            "404: no model m; is the model's name right",
        ),
        (HttpReply(status=422, body={"detail": "bad"}), 422, False, "answered 422: bad"),
        (
            HttpReply(status=307, headers={"location": "http://x/"}),
            307,
            False,
            "redirect to http://x/",
        ),
        (HttpReply(status=204), 204, False, "answered 204"),
        (HttpReply(status=408), 408, True, "answered 408"),
        (HttpReply(status=409), 409, True, "answered 409"),
        (HttpReply(status=429, body={"error": "slow"}), 429, True, "answered 429: slow"),
        (HttpReply(status=500, body="<html>oops</html>"), 500, True, "answered 500: an HTML page"),
        (HttpReply(status=503), 503, True, "answered 503: nothing"),
        (HttpReply(status=500, body=b"\xff" * 100_000), 500, True, "answered 500"),
        (HttpReply(body="<html>hello</html>"), 200, True, "200 with HTML, not a chat completion"),
        (HttpReply(body=b""), 200, True, "an empty body"),
        (HttpReply(body={"choices": []}), 200, True, "without choices"),
        (HttpReply(body='{"choices": [{"mess'), 200, True, "broken or truncated JSON"),
        (HttpReply(body="x" * (MAX_ANSWER + 1)), 200, True, "more than 2097152 bytes"),
        (HttpReply(body={"choices": []}, cut_after=5), None, True, "the connection to .* broke"),
        (
            HttpReply(
                body="", headers={"content-encoding": "gzip", "content-length": "9"}, cut_after=0
            ),
            None,
            True,
            "broke",
        ),
        (HttpReply(body="no gzip", headers={"content-encoding": "gzip"}), None, True, "broke"),
        (HttpReply(body="x", headers={"content-length": "many"}), None, True, "broke"),
        (HttpReply(delay=math.inf), None, True, r"gave no answer within 0\.1 s"),
    ],
)
async def test_each_fault_of_a_server_has_one_outcome(reply, status, retryable, says):
    error = await fault([reply], api_key="sk-1", retry=ONCE, timeout=0.1 if reply.delay else 30.0)
    assert (error.status, error.retryable, error.format_rejected) == (status, retryable, False)
    with pytest.raises(ModelError, match=says):
        raise error


async def test_faults_that_may_pass_are_tried_again():
    slept = Slept()
    faults = [
        HttpReply(status=429, headers={"retry-after": "3"}),
        HttpReply(body="<html>"),
        HttpReply(cut_after=0, body="x"),
    ]
    reply, server = await ask([*faults, "hi"], pacing=slept.pacing)
    assert (reply.text, reply.attempts, len(server.requests)) == ("hi", 4, 4)
    assert slept.waits == [3.0, 1.0, 2.0]


async def test_faults_for_good_are_not_tried_again():
    slept = Slept()
    await fault([HttpReply(status=400)], pacing=slept.pacing)
    assert slept.waits == []


async def test_steps_down_and_retries_count_as_attempts_together():
    reply, _ = await ask([HttpReply(status=500), "hi"], request(schema=SCHEMA), refuse=("schema",))
    assert (reply.mode, reply.attempts) == ("tool", 3)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_marks_for_a_cache_are_sent_where_they_are_asked_for(streams):
    history = '<conversation_history>\n[{"user":"a","system":"b"},{"user":"c","system":"d"}]\n</conversation_history>\n'
    messages = (LLMMessage("system", "You serve."), LLMMessage("user", f"{history}<user_input>…"))

    async def sent(**options):
        async with serve_scripted(["hi"]) as server:
            llm = CompatLLM("claude", base_url=server.base_url, **options)
            asked = request(messages=messages)
            reply = (
                [item async for item in llm.stream(asked)][-1]
                if streams
                else await llm.complete(asked)
            )
            await llm.aclose()
        assert reply.text == "hi"
        return [message["content"] for message in server.requests[0].body["messages"]]

    mark = {"cache_control": {"type": "ephemeral"}}
    plain = [message.content for message in messages]
    assert await sent() == plain
    system, user = await sent(cache_marks=True)
    assert system == [{"type": "text", "text": "You serve.", **mark}]
    assert "".join(part["text"] for part in user) == plain[1]
    assert [part["text"][-4:] for part in user if "cache_control" in part] == ['"d"}']


def renaming(body) -> str | HttpReply:
    """A server that wants the limit of tokens under its newer name."""
    if "max_tokens" in body:
        said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
        return HttpReply(status=400, body={"error": {"message": said}})
    return f"{body.get('max_completion_tokens')}"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_limit_of_tokens_is_sent_under_the_name_that_the_server_asks_for(streams):
    async with serve_scripted(renaming, delay=0.02) as server:
        llm = CompatLLM("m", base_url=server.base_url, pacing=Slept().pacing)

        async def one(**changes):
            asked = request(max_tokens=9, **changes)
            return (
                [item async for item in llm.stream(asked)][-1]
                if streams
                else await llm.complete(asked)
            )

        at_once = await asyncio.gather(one(), one(), one())
        later, other = await one(), await one(model="other")
        await llm.aclose()
    assert [(reply.text, reply.attempts) for reply in (*at_once, later, other)] == [
        *[("9", 2)] * 3,
        ("9", 1),
        ("9", 2),
    ]


def untempered(body) -> str | HttpReply:
    """A server whose model `m` reasons: it takes the default temperature alone."""
    if "temperature" in body and body["model"] == "m":
        said = "Unsupported value: 'temperature' does not support 0.2 with this model. Only 1 is supported."
        return HttpReply(status=400, body={"error": {"message": said, "param": "temperature"}})
    return f"{body.get('temperature')}"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_temperature_that_a_model_refuses_is_left_out_and_that_is_remembered(streams):
    async with serve_scripted(untempered, delay=0.02) as server:
        llm = CompatLLM("m", base_url=server.base_url, pacing=Slept().pacing)

        async def one(**changes):
            asked = request(schema=SCHEMA, temperature=0.2, **changes)
            return (
                [item async for item in llm.stream(asked)][-1]
                if streams
                else await llm.complete(asked)
            )

        at_once = await asyncio.gather(one(), one(), one())
        later, other = await one(), await one(model="other")
        await llm.aclose()
    assert [(reply.text, reply.mode, reply.attempts) for reply in (*at_once, later, other)] == [
        *[("None", "schema", 2)] * 3,
        ("None", "schema", 1),
        ("0.2", "schema", 1),
    ]


async def test_a_temperature_out_of_range_is_told_and_not_left_out():
    said = HttpReply(status=400, body={"error": {"message": "temperature must be between 0 and 2"}})
    assert "between 0 and 2" in str(await fault([said, "hi"], request(temperature=9.0)))


async def test_streams_at_once_learn_that_a_server_cannot_count_in_them():
    def plain(body):
        refused = {"error": {"message": "unknown field stream_options"}}
        return HttpReply(status=400, body=refused) if "stream_options" in body else "hi"

    async with serve_scripted(plain, delay=0.02) as server:
        llm = CompatLLM("m", base_url=server.base_url, pacing=Slept().pacing)

        async def one() -> tuple[str, int]:
            *_, reply = [item async for item in llm.stream(request())]
            return reply.text, reply.attempts

        assert await asyncio.gather(one(), one(), one()) == [("hi", 2)] * 3
        assert await one() == ("hi", 1)
        await llm.aclose()


async def test_a_501_for_the_form_is_a_step_down_and_no_retry():
    slept = Slept()
    said = HttpReply(status=501, body={"error": "response_format is not implemented"})
    reply, _ = await ask([said, "hi"], request(schema=SCHEMA), pacing=slept.pacing)
    assert (reply.mode, reply.attempts, slept.waits) == ("tool", 2, [])


async def test_the_requests_timeout_bounds_everything():
    error = await fault(
        [HttpReply(delay=math.inf)], request(timeout=0.1), pacing=Pacing(chance=lambda: 1.0)
    )
    assert error.retryable
    with pytest.raises(ModelError, match=r"within the 0\.1 s left for it \(1 attempt"):
        raise error


async def test_a_server_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    llm = CompatLLM("m", base_url=f"http://127.0.0.1:{port}/v1", retry=ONCE)
    with pytest.raises(
        ModelError, match=rf"cannot connect to http://127.0.0.1:{port}/v1: .*is the server running"
    ) as caught:
        await llm.complete(request())
    assert caught.value.retryable
    await llm.aclose()


async def test_cancelling_is_not_swallowed():
    async with serve_scripted([HttpReply(delay=math.inf)]) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await llm.complete(request())
        await llm.aclose()


async def test_many_calls_at_once_and_again_after_aclose():
    async with serve_scripted(lambda body: body["messages"][-1]["content"]) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        replies = await asyncio.gather(*(llm.complete(request(str(n))) for n in range(150)))
        await llm.aclose()
        again = await llm.complete(request("again"))
        await llm.aclose()
        await llm.aclose()
    assert [reply.text for reply in replies] == [str(n) for n in range(150)]
    assert again.text == "again"


async def test_a_message_of_many_megabytes_is_sent():
    big = "ü" * 2**20
    _, server = await ask(["ok"], request(messages=(LLMMessage("user", big),)))
    assert server.requests[0].body["messages"][0]["content"] == big


def test_each_event_loop_has_its_own_session():
    async def turn(llm: CompatLLM) -> str:
        try:
            return (await llm.complete(request())).text
        finally:
            await llm.aclose()

    with serve_scripted(["a", "b"]) as server:
        llm = CompatLLM("m", base_url=server.base_url)
        assert [asyncio.run(turn(llm)) for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize("tail", ["", "/", "//", "/chat/completions"])
async def test_the_end_of_the_address_is_free(tail):
    async with serve_scripted(["hi"]) as server:
        llm = CompatLLM("m", base_url=f" {server.base_url}{tail} ")
        assert (await llm.complete(request())).text == "hi"
        await llm.aclose()


@pytest.mark.parametrize(
    ("base_url", "says"),
    [
        ("localhost:11434/v1", "no http:// or https:// address, such as http://localhost:11434/v1"),
        ("ftp://localhost/v1", "no http"),
        ("http://", "no http"),
        ("http://localhost:99999/v1", "no http"),
        ("http://[::1/v1", "no http"),
        ("http://user:secret@localhost/v1", "LLM_FSM_API_KEY"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_clear_error(base_url, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        CompatLLM("m", base_url=base_url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00"])
def test_a_key_that_no_header_can_carry_is_one_clear_error(key):
    with pytest.raises(ConfigurationError, match="LLM_FSM_API_KEY"):
        CompatLLM("m", base_url="http://localhost", api_key=key)


def test_the_key_is_not_shown():
    assert "sk-1" not in repr(CompatLLM("m", base_url="http://localhost", api_key="sk-1"))


async def test_a_body_in_many_small_pieces_is_read_whole():
    answer = json.dumps({"choices": [{"message": {"content": "x" * 300_000}}]})
    reply, _ = await ask([HttpReply(body=answer)])
    assert len(reply.text) == 300_000


def called(*listed, **message):
    """An answer with these entries as its `tool_calls`."""
    said = {"role": "assistant", "content": None, "tool_calls": list(listed), **message}
    return HttpReply(body={"choices": [{"message": said, "finish_reason": "tool_calls"}]})


async def test_tools_and_their_results_are_sent_beside_the_messages():
    messages = (
        LLMMessage("user", "hi"),
        LLMMessage("assistant", "", (ToolCall(id="c1", name="look", arguments='{"a": "é"}'),)),
        LLMMessage("tool", "7", (), "c1"),
    )
    reply, server = await ask(
        [calls(("look", {"a": 2}), text="wait")], request(messages=messages, tools=(LOOK,))
    )
    body = server.requests[0].body
    function = {"name": "look", "description": "Löok.", "parameters": LOOK.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "tool_choice" not in body
    assert body["messages"] == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"a": "é"}'},
                }
            ],
        },
        {"role": "tool", "content": "7", "tool_call_id": "c1"},
    ]
    assert reply.tool_calls == (ToolCall(id="call_1_1", name="look", arguments='{"a": 2}'),)
    assert (reply.text, reply.finish_reason) == ("wait", "tool_calls")


async def test_where_tools_are_offered_the_form_is_asked_for_in_words():
    reply, server = await ask([{"message": "hi"}], request(schema=SCHEMA, tools=(LOOK,)))
    assert "response_format" not in server.requests[0].body
    assert (reply.mode, reply.text, reply.tool_calls) == ("prompt", '{"message":"hi"}', ())


@pytest.mark.parametrize(
    ("answer", "name", "arguments"),
    [
        (called({"id": "c", "function": {"name": "look", "arguments": '{"ha'}}), "look", '{"ha'),
        (
            called({"id": "c", "function": {"name": "look", "arguments": {"a": 1}}}),
            "look",
            '{"a": 1}',
        ),
        (called({"id": "c", "function": {"name": "look"}}), "look", ""),
        (called({"id": None, "function": {"name": "look", "arguments": "{}"}}), "look", "{}"),
        (called({"function": {"name": "look", "arguments": "{}"}}, content="words"), "look", "{}"),
        (called(function_call={"name": "look", "arguments": "{}"}), "look", "{}"),
        (called({"id": "c", "function": {"arguments": "{}"}}), "malformed_call", None),
        (called("look"), "malformed_call", '{"call": "look"}'),
    ],
)
async def test_calls_in_odd_shapes_are_read(answer, name, arguments):
    reply, _ = await ask([answer], request(tools=(LOOK,)))
    (call,) = reply.tool_calls
    assert call.id
    assert call.name == name
    assert arguments is None or call.arguments == arguments


async def test_calls_have_ids_of_their_own():
    twice = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
    reply, _ = await ask(
        [called(twice, twice, {"function": {"name": "look"}})], request(tools=(LOOK,))
    )
    assert len({call.id for call in reply.tool_calls}) == 3
    assert reply.tool_calls[0].id == "c"


async def test_calls_that_nobody_offered_are_words():
    reply, _ = await ask([called({"id": "c", "function": {"name": "x", "arguments": "said"}})])
    assert (reply.text, reply.tool_calls) == ("said", ())


async def test_broken_arguments_are_sent_back_as_json():
    broken = LLMMessage("assistant", "", (ToolCall(id="c", name="", arguments='{"ha'),))
    _, server = await ask(
        ["ok"],
        request(messages=(LLMMessage("user", "u"), broken, LLMMessage("tool", "no", (), "c"))),
    )
    function = server.requests[0].body["messages"][1]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (
        "malformed_call",
        {"malformed": '{"ha'},
    )


async def test_a_server_that_takes_no_tools_is_one_clear_error():
    error = await fault(["never"], request(schema=SCHEMA, tools=(LOOK,)), refuse=("tools",))
    assert "does not support tools" in str(error)
    assert "use a model and a server that take them" in str(error)
    assert (error.retryable, error.status) == (False, 400)


LISTS = reply_schema(
    targets=("a", "b"),
    keys={"tags": {"type": "array", "items": {"type": "string"}}},
    reasoning="none",
    name="lists",
)


def _list_lengths(schema: object) -> list[object]:
    """Return the longest length of each list in a schema; None if it has none."""
    found: list[object] = []
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            found.append(schema.get("maxItems"))
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        found += _list_lengths(part)
    return found


@pytest.mark.parametrize(
    ("provider", "model", "length"),
    [
        ("openai", "m", MOST_ITEMS),
        ("gemini", "m", MOST_ITEMS),
        ("openai", "ft:m", None),
        ("mistral", "m", None),
        ("cerebras", "m", None),
    ],
)
async def test_lists_have_a_longest_length_where_the_provider_takes_one(provider, model, length):
    _, server = await ask(
        ["{}"], request(schema=LISTS, targets=("a",)), model=model, provider=provider
    )
    sent = server.requests[0].body["response_format"]["json_schema"]["schema"]
    assert set(_list_lengths(sent)) == {length}
    assert sent["properties"]["target_state"]["enum"] == ["a", "b"]


async def _streamed(replies, asked, *, refuse=(), **options):
    """Return the server that a stream was asked of."""
    async with serve_scripted(replies, refuse=refuse) as server:
        llm = CompatLLM("m", base_url=server.base_url, **{"pacing": Slept().pacing, **options})
        try:
            _ = [piece async for piece in llm.stream(asked)]
        finally:
            await llm.aclose()
        return server


async def test_a_local_server_is_asked_how_much_of_the_prompt_it_has_read_if_somebody_listens():
    heard = await _streamed(["{}"], request(reading=lambda read, total: None))
    silent = await _streamed(["{}"], request())
    named = await _streamed(["{}"], request(reading=lambda read, total: None), provider="ollama")
    asked = [server.requests[0].body.get("return_progress") for server in (heard, silent, named)]
    assert asked == [True, None, None]


async def test_a_server_that_refuses_to_tell_its_progress_is_asked_without():
    fault = HttpReply(status=400, body='{"error": {"message": "Unknown field: return_progress"}}')
    server = await _streamed([fault, "{}"], request(reading=lambda read, total: None))
    assert [seen.body.get("return_progress") for seen in server.requests] == [True, None]
