"""The adapter over litellm, against a loopback server. Importing litellm takes seconds, once."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import subprocess
import sys

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.litellm import adapter
from llm_fsm.llm.litellm.adapter import LiteLLM
from llm_fsm.llm.openai.request import marked, takes_marks
from llm_fsm.llm.retry import RetryPolicy
from llm_fsm.session.messages import LLMMessage, ModelReply, ToolCall
from llm_fsm.testing import calls
from llm_fsm.testing.server.server import HttpReply, serve_scripted
from llm_requests import LOOK, REPLY_SCHEMA, SCHEMA, Slept, request

pytestmark = [pytest.mark.anyio]


async def ask(replies, asked=None, *, refuse=(), **options):
    with serve_scripted(replies, refuse=refuse) as server:
        options = {"api_key": "sk-secret-1", "pacing": Slept().pacing, **options}
        llm = LiteLLM("openai/fake", api_base=server.base_url, **options)
        return await llm.complete(asked or request()), server


def test_it_is_an_llm_and_is_made_without_litellm():
    code = (
        "import sys; from llm_fsm.llm.litellm.adapter import LiteLLM; LiteLLM('openai/x'); "
        "print([name for name in ('litellm', 'aiohttp', 'openai') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")
    assert isinstance(LiteLLM("openai/x"), LLM)


async def test_further_settings_are_sent():
    further = {"top_p": 0.5, "seed": 7, "response_format": {"type": "json_object"}}
    _, server = await ask(["{}"], request(options=further))
    seen = server.requests[0].body
    assert {key: seen[key] for key in further} == further


FRESH = """
import asyncio, logging, os, sys, warnings
from llm_fsm.llm.litellm.adapter import LiteLLM
from llm_fsm.llm.litellm.lazy_import import import_litellm
from llm_fsm.errors import ModelError
from llm_fsm.session.messages import LLMMessage, LLMRequest

def world():
    loggers = {name: logging.getLogger(name).level for name in ("", "httpx", "openai", "httpcore")}
    return dict(os.environ), loggers, list(logging.root.handlers), list(warnings.filters)

async def main():
    before = world()
    request = LLMRequest(messages=(LLMMessage("user", "hi"),))
    for module in ("litellm", "openai"):
        try:
            await LiteLLM("openai/gpt-4o-mini").complete(request)
        except ModelError as error:
            print(error.status, error.retryable, str(error))
        print(module in sys.modules)
        await asyncio.to_thread(import_litellm)
    print(world() == before)

asyncio.run(main())
"""


def test_the_first_call_leaves_the_process_as_it_was_and_names_the_missing_key(tmp_path):
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-env-file\n")
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    ran = subprocess.run(
        [sys.executable, "-c", FRESH],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environ,
    )
    before, not_imported, after, imported, unchanged = ran.stdout.splitlines()
    assert before.startswith("401 False no key for model 'openai/gpt-4o-mini': set OPENAI_API_KEY")
    assert "False openai/gpt-4o-mini: the key is missing or refused" in after
    assert "; set OPENAI_API_KEY" in after
    assert "`offline`" in before
    assert "`offline`" in after
    assert (not_imported, imported, unchanged, ran.stderr) == ("False", "True", "True", "")


async def test_a_reply_comes_with_its_figures(capfd):
    asked = request("héllo", temperature=0.5, max_tokens=9, schema=SCHEMA)
    reply, server = await ask([{"message": "hi"}], asked)
    body = server.requests[0].body
    assert body["messages"][-1] == {"role": "user", "content": "héllo"}
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("fake", 0.5, 9)
    assert body["response_format"]["json_schema"] == {
        "name": "reply",
        "strict": True,
        "schema": REPLY_SCHEMA,
    }
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret-1"
    assert (reply.text, reply.mode, reply.attempts, reply.cost) == (
        '{"message":"hi"}',
        "schema",
        1,
        0.0,
    )
    assert reply.input_tokens > 0
    assert capfd.readouterr() == ("", "")


async def test_key_and_address_stay_with_their_provider_where_a_state_names_another_one(
    monkeypatch,
):
    with serve_scripted(["a", "b"]) as ours, serve_scripted(["c"]) as theirs:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", theirs.base_url)
        llm = LiteLLM(
            "openai/fake", api_key="sk-secret-1", api_base=ours.base_url, pacing=Slept().pacing
        )
        names = (None, "openai/other", "hosted_vllm/small")
        replies = [(await llm.complete(request(model=name))).text for name in names]
    assert replies == ["a", "b", "c"]
    assert [seen.headers["authorization"] for seen in ours.requests] == ["Bearer sk-secret-1"] * 2
    assert "sk-secret-1" not in theirs.requests[0].headers.get("authorization", "")


@pytest.mark.parametrize(
    ("model", "named", "takes"),
    [
        ("command-r-08-2024", "command-r-08-2024", True),
        ("command-r-08-2024", "jamba-1.5-large", False),
        ("gpt-4o", "openai/gpt-4o-mini", True),
    ],
)
async def test_a_key_is_for_no_other_model_of_which_only_litellm_knows_the_provider(
    monkeypatch, model, named, takes
):
    sent = []

    async def send(self, litellm, fields, *_):
        sent.append(fields.get("api_key"))
        return ModelReply(text="a")

    monkeypatch.setattr(LiteLLM, "_send", send)
    monkeypatch.setenv("OPENAI_API_KEY", "o")
    await LiteLLM(model, api_key="k").complete(request(model=named))
    assert sent == ["k" if takes else None]


async def test_a_rejected_form_is_stepped_down_and_remembered():
    with serve_scripted(["a", "b"], refuse=("schema",)) as server:
        llm = LiteLLM("openai/fake", api_key="k", api_base=server.base_url, pacing=Slept().pacing)
        replies = [await llm.complete(request(schema=SCHEMA)) for _ in range(2)]
    seen = [(reply.text, reply.mode, reply.attempts) for reply in replies]
    assert seen == [("a", "tool", 2), ("b", "tool", 1)]


async def test_calls_of_tools_go_to_and_fro():
    asked = request(
        tools=(LOOK,),
        schema=SCHEMA,
        messages=(
            LLMMessage("user", "hi"),
            LLMMessage("assistant", "", (ToolCall(id="c1", name="look", arguments='{"a": 1}'),)),
            LLMMessage("tool", "7", (), "c1"),
        ),
    )
    reply, server = await ask([calls(("look", {"a": 2}), text="wait")], asked)
    body = server.requests[0].body
    assert body["tools"][0]["function"]["name"] == "look"
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert body["messages"][2] == {"role": "tool", "content": "7", "tool_call_id": "c1"}
    assert not {"response_format", "_skip_mcp_handler"} & body.keys()
    assert (reply.text, reply.mode) == ("wait", "prompt")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("look", '{"a": 2}')]


WITHOUT_MCP = """
import asyncio, sys
sys.modules["mcp"] = None
from llm_fsm.llm.litellm.adapter import LiteLLM
from llm_fsm.llm.openai.request import marked, takes_marks
from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolSpec
from llm_fsm.testing import calls, serve_scripted

with serve_scripted([calls(("look", {}))]) as server:
    llm = LiteLLM("openai/fake", api_key="k", api_base=server.base_url)
    spec = ToolSpec(name="look", description="", parameters={"type": "object", "properties": {}})
    request = LLMRequest(messages=(LLMMessage("user", "hi"),), tools=(spec,))
    print(asyncio.run(llm.complete(request)).tool_calls[0].name)
"""


def test_tools_need_no_further_package():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_MCP], capture_output=True, text=True, check=False
    )
    assert (ran.stdout.strip(), ran.stderr) == ("look", "")


async def test_faults_that_may_pass_are_tried_again_by_our_policy_alone():
    slept = Slept()
    faults = [
        HttpReply(status=429, body={"error": {"message": "slow"}}, headers={"retry-after": "3"}),
        HttpReply(status=500),
    ]
    reply, server = await ask([*faults, "hi"], pacing=slept.pacing)
    assert (reply.text, reply.attempts, len(server.requests), slept.waits) == (
        "hi",
        3,
        3,
        [3.0, 1.0],
    )


@pytest.mark.parametrize(
    ("reply", "status", "retryable", "says"),
    [
        (
            HttpReply(status=400, body={"error": {"message": "bad"}}),
            400,
            False,
            "BadRequestError: .*bad",
        ),
        (
            HttpReply(status=401, body={"error": {"message": "no sk-secret-1"}}),
            401,
            False,
            "set OPENAI_API_KEY",
        ),
        (
            HttpReply(status=403, body={"error": {"message": "no"}}),
            403,
            False,
            "set OPENAI_API_KEY",
        ),
        (
            HttpReply(status=404, body={"error": {"message": "no model fake"}}),
            404,
            False,
            "no model fake",
        ),
        (HttpReply(status=422, body={"error": {"message": "bad"}}), 422, False, "bad"),
        (HttpReply(status=429, body={"error": {"message": "slow"}}), 429, True, "slow"),
        (HttpReply(status=503, body={"error": {"message": "busy"}}), 503, True, "busy"),
        (HttpReply(body="<html>hello</html>"), None, True, "fake"),
        (HttpReply(body={"choices": []}), None, True, "without choices"),
        (HttpReply(body={"choices": []}, cut_after=3), None, True, "fake"),
        (HttpReply(delay=math.inf), None, True, "within|Timeout"),
    ],
)
async def test_each_fault_of_a_provider_has_one_outcome(reply, status, retryable, says):
    with pytest.raises(ModelError, match=says) as caught:
        await ask([reply], retry=RetryPolicy(attempts=1), timeout=0.2 if reply.delay else 30.0)
    assert caught.value.retryable is retryable
    assert status is None or caught.value.status == status
    assert "sk-secret-1" not in str(caught.value)


@pytest.mark.parametrize("model", ["openai/fake", "anthropic/claude-3-haiku-20240307"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_server_that_is_not_there_is_told_with_its_address(model, streams):
    with serve_scripted([]) as server:
        base = server.base_url
    llm = LiteLLM(
        model, api_key="k", api_base=f"{base}/v1?key=s3cret", retry=RetryPolicy(attempts=1)
    )
    address = "/".join(base.split("/")[:3])
    with pytest.raises(
        ModelError, match=f"^{model}: cannot connect to {address}: .*; is the server running"
    ) as caught:
        await (anext(aiter(llm.stream(request()))) if streams else llm.complete(request()))
    assert caught.value.retryable
    assert "s3cret" not in str(caught.value)


async def test_a_name_that_litellm_does_not_know(capfd):
    with pytest.raises(
        ModelError, match="litellm knows no model 'no-such-model'; write provider/model"
    ) as caught:
        await LiteLLM("no-such-model", retry=RetryPolicy(attempts=1)).complete(request())
    assert not caught.value.retryable
    assert capfd.readouterr() == ("", "")


async def test_the_requests_timeout_bounds_everything():
    with pytest.raises(ModelError, match=r"within the 0\.2 s left for it"):
        await ask([HttpReply(delay=math.inf)], request(timeout=0.2))


def test_other_loggers_are_untouched():
    assert logging.getLogger("httpx").level == logging.NOTSET


REPLY = '{"message": "Hello there, who are you?"}'


async def streamed(replies, asked=None, *, refuse=()):
    with serve_scripted(replies, refuse=refuse) as server:
        llm = LiteLLM("openai/fake", api_base=server.base_url, api_key="k", pacing=Slept().pacing)
        return [item async for item in llm.stream(asked or request())], server


LITELLM_WARNS = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""litellm reads fields that its pydantic calls old."""


@LITELLM_WARNS
@pytest.mark.parametrize("refuse", [(), ("schema",), ("schema", "tool", "json_object")])
async def test_a_reply_arrives_in_pieces(refuse):
    (*pieces, reply), _ = await streamed([REPLY], refuse=refuse)
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text == REPLY
    assert reply.output_tokens > 0


@LITELLM_WARNS
async def test_calls_of_tools_arrive_whole_at_the_end():
    asked = request(tools=(LOOK,))
    [reply], _ = await streamed([calls(("look", {"at": "sky"}))], asked)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("look", '{"at": "sky"}')]


@LITELLM_WARNS
async def test_a_stream_is_asked_for_again_before_its_first_piece():
    (*pieces, reply), server = await streamed(
        [HttpReply(status=503, body={"error": "busy"}), REPLY]
    )
    assert "".join(pieces) == reply.text
    assert len(server.requests) == 2
    with pytest.raises(ModelError, match="key is missing or refused"):
        await streamed([HttpReply(status=401, body={"error": "no"})])


def sent(*chunks, done=True, **options):
    """Chunks of a stream as they stand."""
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n" * done
    headers = {"content-type": "text/event-stream", **options.pop("headers", {})}
    return HttpReply(body=body, headers=headers, **options)


def words(text, finish=None):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


@LITELLM_WARNS
@pytest.mark.parametrize("done", [False, True])
async def test_a_reply_that_ends_in_the_middle_and_nobody_says_why_is_broken_off(done):
    with pytest.raises(ModelError, match="a stream that breaks off") as caught:
        await streamed([sent(words(REPLY[:20]), done=done)])
    assert (caught.value.retryable, caught.value.attempts) == (True, 1)
    for whole in (words(REPLY), words(REPLY[:20], "length")):
        (*pieces, reply), _ = await streamed([sent(whole, done=done)])
        assert "".join(pieces) == reply.text


@LITELLM_WARNS
@pytest.mark.parametrize("error", ["gone", {"message": "gone"}])
async def test_an_error_in_the_middle_of_a_stream_tells_the_providers_reason(error):
    with pytest.raises(ModelError, match=r"failed with \w+: gone") as caught:
        await streamed([sent(words('{"a"'), {"error": error})] * 4)
    assert caught.value.retryable


@LITELLM_WARNS
async def test_a_rejection_of_the_form_that_comes_in_a_stream_is_one():
    fault = {"error": {"code": 400, "message": "response_format is not supported"}}

    def answer(body):
        return sent(fault) if "response_format" in body else REPLY

    (*_, reply), server = await streamed(answer, request(schema=SCHEMA))
    assert (reply.text, len(server.requests)) == (REPLY, 2)


@LITELLM_WARNS
@pytest.mark.parametrize(("code", "requests"), [(422, 1), ("422", 1), (503, 4), ("overloaded", 4)])
async def test_what_is_refused_in_a_stream_is_not_asked_for_again(code, requests):
    asked = []

    def answer(body):
        asked.append(body)
        return sent({"error": {"code": code, "message": "no"}})

    with pytest.raises(ModelError, match="failed with APIConnectionError: no"):
        await streamed(answer)
    assert len(asked) == requests


async def test_a_stream_that_is_left_in_the_middle_lets_go_of_its_connection():
    """Not only where litellm's objects happen to be freed: with the collector off they are not."""
    gone, head = asyncio.Semaphore(0), b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + f"data: {json.dumps(words(REPLY[:20]))}\n\n".encode())
        while await reader.read(4096):
            pass
        writer.close()
        await writer.wait_closed()
        gone.release()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    llm = LiteLLM("openai/fake", api_base=url, api_key="k", pacing=Slept().pacing)
    gc.disable()
    try:
        for _ in range(4):
            stream = llm.stream(request())
            await anext(stream)
            await stream.aclose()
        async with asyncio.timeout(20):
            for _ in range(4):
                await gone.acquire()
    finally:
        gc.enable()
        listening.close()


@LITELLM_WARNS
@pytest.mark.parametrize(
    "answer", [REPLY.encode(), b"", b"<html>no</html>"], ids=["whole", "nothing", "page"]
)
async def test_an_answer_that_is_no_stream_is_asked_for_as_a_whole(answer):
    chunk = {"choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}]}
    body = chunk if answer == REPLY.encode() else answer
    (*pieces, reply), server = await streamed([HttpReply(body=body), REPLY])
    assert (pieces, reply.text, reply.attempts) == ([], REPLY, 2)
    assert [seen.body.get("stream", False) for seen in server.requests] == [True, False]


@LITELLM_WARNS
async def test_a_provider_that_cannot_count_in_streams_is_not_asked_again_to():
    def plain(body):
        refused = {"error": {"message": "unknown field stream_options"}}
        return HttpReply(status=400, body=refused) if "stream_options" in body else REPLY

    with serve_scripted(plain, delay=0.02) as server:
        llm = LiteLLM("openai/fake", api_base=server.base_url, api_key="k", pacing=Slept().pacing)

        async def one() -> tuple[str, str, int]:
            *_, reply = [item async for item in llm.stream(request(schema=SCHEMA))]
            return reply.text, reply.mode, reply.attempts

        assert await asyncio.gather(one(), one()) == [(REPLY, "schema", 2)] * 2
        assert await one() == (REPLY, "schema", 1)
    assert len(server.requests) == 5


@LITELLM_WARNS
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["fake", "gpt-5"])
async def test_a_temperature_that_a_model_refuses_is_left_out_and_that_is_remembered(
    model, streams
):
    def untempered(body):
        said = "Unsupported value: 'temperature' does not support 0.2 with this model. Only 1 is supported."
        return (
            HttpReply(status=400, body={"error": {"message": said}})
            if "temperature" in body
            else REPLY
        )

    with serve_scripted(untempered) as server:
        llm = LiteLLM(
            f"openai/{model}", api_base=server.base_url, api_key="k", pacing=Slept().pacing
        )

        async def one():
            asked = request(schema=SCHEMA, temperature=0.2)
            return (
                [item async for item in llm.stream(asked)][-1]
                if streams
                else await llm.complete(asked)
            )

        replies = [await one(), await one()]
    assert [(reply.text, reply.mode, reply.attempts) for reply in replies] == [
        (REPLY, "schema", 2),
        (REPLY, "schema", 1),
    ]


@LITELLM_WARNS
@pytest.mark.parametrize("status", [400, 501])
async def test_a_provider_that_gives_no_streams_is_asked_for_whole_replies_and_remembered(status):
    fault = {
        "message": "you may not stream this model yet",
        "param": "stream",
        "code": "unsupported_value",
    }
    with serve_scripted([HttpReply(status=status, body={"error": fault}), REPLY, REPLY]) as server:
        llm = LiteLLM("openai/fake", api_base=server.base_url, api_key="k", pacing=Slept().pacing)
        given = [[item async for item in llm.stream(request(schema=SCHEMA))] for _ in range(2)]
    assert [[(item.text, item.mode, item.attempts) for item in items] for items in given] == [
        [(REPLY, "schema", 2)],
        [(REPLY, "schema", 1)],
    ]
    assert [seen.body.get("stream", False) for seen in server.requests] == [True, False, False]


@LITELLM_WARNS
async def test_the_failure_of_a_stream_that_was_asked_for_as_a_whole_tells_both_requests():
    with pytest.raises(ModelError) as caught:
        await streamed([HttpReply(body=b""), HttpReply(status=401)])
    assert caught.value.attempts == 2


@LITELLM_WARNS
async def test_what_comes_after_the_whole_reply_or_does_not_takes_nothing_of_it(monkeypatch):
    monkeypatch.setattr(adapter, "LAST", 0.05)
    late = {"error": {"message": "too late", "code": 500}}
    (*_, reply), _ = await streamed([sent(words(REPLY), words("", "stop"), late)])
    assert (reply.text, reply.finish_reason) == (REPLY, "stop")
    open_end = sent(words(REPLY), words("", "stop"), done=False, headers={"content-length": "9999"})
    with serve_scripted([open_end]) as server:
        llm = LiteLLM(
            "openai/fake", api_base=server.base_url, api_key="k", retry=RetryPolicy(attempts=1)
        )
        *_, reply = [item async for item in llm.stream(request())]
    assert reply.text == REPLY


CACHED = {
    "prompt_tokens": 1000,
    "completion_tokens": 20,
    "total_tokens": 1020,
    "prompt_tokens_details": {"cached_tokens": 900},
}


def whole_and_streamed(usage):
    """The same answer of a provider, whole and as a stream, with what the provider says of its
    tokens.
    """
    head = {"id": "a", "created": 0, "model": "gpt-4o-mini"}
    said = {"role": "assistant", "content": REPLY}
    body = {**head, "object": "chat.completion", "usage": usage}
    events = [
        {"choices": [{"index": 0, "delta": said, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    lines = [json.dumps({**head, "object": "chat.completion.chunk", **event}) for event in events]
    text = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return (
        HttpReply(
            body={**body, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
        ),
        HttpReply(body=text, headers={"content-type": "text/event-stream"}),
    )


@LITELLM_WARNS
@pytest.mark.parametrize(
    "usage", [CACHED, {**CACHED, "prompt_tokens_details": None}], ids=["cached", "none cached"]
)
async def test_a_streamed_reply_costs_what_it_costs_otherwise_cached_tokens_included(usage):
    with serve_scripted(whole_and_streamed(usage)) as server:
        llm = LiteLLM("openai/gpt-4o-mini", api_base=server.base_url, api_key="k")
        whole = await llm.complete(request())
        *_, arrived = [item async for item in llm.stream(request())]
    assert arrived.cached_tokens == whole.cached_tokens == (900 if usage is CACHED else 0)
    assert arrived.cost == pytest.approx(whole.cost)
    assert arrived.cost == pytest.approx(
        900 * 0.075e-6 + 100 * 0.15e-6 + 20 * 0.6e-6 if usage is CACHED else 162e-6
    )


MARK = {"type": "ephemeral"}
FIRST = (
    '<conversation_history>\n[{"system":"Hi"},{"user":"\\"},{\\"user\\":\\""},{"system":"Name?"}'
)
LATER = ',{"user":"Ada"},{"system":"Age?"}'
END = "]\n</conversation_history>\n<now>x</now>\n"


@pytest.mark.parametrize(
    ("role", "text", "parts"),
    [
        ("system", "Serve.", [("Serve.", MARK)]),
        ("user", FIRST + END, [(FIRST[:39], None), (FIRST[39:], MARK), (END, None)]),
        (
            "user",
            FIRST + LATER + END,
            [(FIRST[:39], None), (FIRST[39:], None), (LATER, MARK), (END, None)],
        ),
        ("user", "<now>x</now>\n", None),
    ],
)
def test_claude_is_told_what_of_a_prompt_can_be_cached(role, text, parts):
    content = marked({"role": role, "content": text})["content"]
    if parts is None:
        assert content == text
    else:
        assert [(part["text"], part.get("cache_control")) for part in content] == parts


def test_only_claude_is_told():
    assert takes_marks("anthropic/claude-x")
    assert takes_marks("bedrock/anthropic.claude-x")
    assert not takes_marks("openai/gpt-4o-mini")
