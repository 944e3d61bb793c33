from __future__ import annotations

import http.client
import json
import math
import threading
from urllib.parse import urlsplit

import pytest

from llm_fsm.testing import calls
from llm_fsm.testing.server.server import HttpReply, ScriptedServer, serve_scripted

TOOL = {"type": "function", "function": {"name": "answer", "parameters": {}}}
FORCED = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "answer"}}}


def ask(server: ScriptedServer, path: str = "/chat/completions", method: str = "POST", **body):
    """Status and text of one answer; the body of a completion request is given by keyword."""
    address = urlsplit(server.base_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=5)
    try:
        connection.request(method, address.path + path, json.dumps({"messages": [], **body}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def words(answer: tuple[int, str]) -> str:
    return json.loads(answer[1])["choices"][0]["message"]["content"]


def test_texts_and_dicts_are_the_words_of_completions():
    with serve_scripted(["hi", {"message": "é"}]) as server:
        assert words(ask(server, model="m")) == "hi"
        assert words(ask(server)) == '{"message":"é"}'
        assert server.remaining == 0
    assert [seen.body.get("model") for seen in server.requests] == ["m", None]
    assert server.requests[0].headers["content-length"] == "30"


def test_a_completion_says_what_it_used():
    with serve_scripted(["x" * 40]) as server:
        body = json.loads(ask(server, messages=[{"role": "user", "content": "y" * 400}])[1])
    assert body["usage"]["completion_tokens"] == 11
    assert 100 < body["usage"]["prompt_tokens"] < 120
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 11


def test_a_policy_sees_each_request():
    with serve_scripted(lambda body: f"you said {body['messages'][0]['content']}") as server:
        said = [words(ask(server, messages=[{"role": "user", "content": text}])) for text in "ab"]
    assert said == ["you said a", "you said b"]


OPENAI = {"id": "c9", "type": "function", "function": {"name": "look", "arguments": '{"id": 7}'}}


def test_calls_may_stand_in_the_form_of_openai():
    with serve_scripted(
        [{"role": "assistant", "content": "wait", "tool_calls": [OPENAI]}]
    ) as server:
        message = json.loads(ask(server, tools=[TOOL])[1])["choices"][0]["message"]
    assert (message["tool_calls"], message["content"]) == ([OPENAI], "wait")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (
            {"tool_calls": [{"function": {"arguments": "{}"}}]},
            "call 1 is no object with a name and arguments",
        ),
        ({"tool_calls": "look"}, "tool_calls is a list"),
        ({"message": {1, 2}}, "not JSON serializable"),
    ],
)
def test_a_reply_that_is_none_is_refused_by_name(said, fault):
    with serve_scripted([said, "then"]) as server:
        status, body = ask(server)
        assert (status, fault in json.loads(body)["error"]["message"]) == (400, True)
        assert words(ask(server)) == "then"


def test_a_callable_in_the_list_stands_for_one_reply_and_may_give_a_fault():
    with serve_scripted([lambda body: HttpReply(status=503, body="busy"), "then"]) as server:
        assert ask(server) == (503, "busy")
        assert words(ask(server)) == "then"


def test_a_policy_that_raises_is_told_to_the_client():
    with serve_scripted(lambda body: body["nothing"]) as server:
        status, text = ask(server)
    assert (status, json.loads(text)["error"]["message"]) == (
        400,
        "the scripted reply raised KeyError: 'nothing'",
    )


def test_a_script_that_is_used_up_answers_400_and_a_loop_starts_again():
    with serve_scripted(["a"]) as server:
        ask(server)
        status, text = ask(server)
    assert (status, "the script has 1 replies" in text) == (400, True)
    with serve_scripted(["a", "b"], loop=True) as server:
        assert [words(ask(server)) for _ in range(3)] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("schema", {"response_format": {"type": "json_schema"}}),
        ("json_object", {"response_format": {"type": "json_object"}}),
        ("tool", FORCED),
        ("tools", {"tools": [TOOL]}),
        ("prompt", {}),
    ],
)
def test_a_form_can_be_refused_without_using_up_a_reply(form, body):
    if form == "prompt":
        with serve_scripted(["a"], refuse=("schema", "tool", "json_object")) as server:
            assert words(ask(server, **body)) == "a"
        return
    with serve_scripted(["a"], refuse=(form,)) as server:
        status, text = ask(server, **body)
        assert (status, "support" in text, server.remaining) == (400, True, 1)


def test_a_forced_tool_is_answered_by_a_call():
    with serve_scripted([{"message": "m"}]) as server:
        message = json.loads(ask(server, **FORCED)[1])["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {
        "name": "answer",
        "arguments": '{"message":"m"}',
    }


def test_tools_that_are_offered_are_called_only_if_the_script_says_so():
    script = [
        "words",
        calls(("answer", {"a": 1}), ("answer", '{"half')),
        calls(("answer", {}), text="let me see"),
    ]
    with serve_scripted(script) as server:
        said = [json.loads(ask(server, tools=[TOOL])[1])["choices"][0] for _ in script]
    assert said[0]["message"] == {"role": "assistant", "content": "words"}
    assert said[1]["finish_reason"] == "tool_calls"
    assert said[1]["message"]["content"] is None
    assert said[1]["message"]["tool_calls"] == [
        {
            "id": "call_2_1",
            "type": "function",
            "function": {"name": "answer", "arguments": '{"a": 1}'},
        },
        {
            "id": "call_2_2",
            "type": "function",
            "function": {"name": "answer", "arguments": '{"half'},
        },
    ]
    assert said[2]["message"]["content"] == "let me see"


def test_calls_are_streamed_in_pieces():
    script = [calls(("look", {"text": "x" * 40}), ("other", {}), text="wait " * 10)]
    with serve_scripted(script) as server:
        _, sent = ask(server, stream=True, tools=[TOOL])
    lines = [line.removeprefix("data: ") for line in sent.split("\n\n") if line]
    choices = [json.loads(line)["choices"][0] for line in lines[:-1]]
    pieces = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    first = "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == 0)
    names = [(piece["id"], piece["function"]["name"]) for piece in pieces if "id" in piece]
    assert (text, json.loads(first)) == ("wait " * 10, {"text": "x" * 40})
    assert names == [("call_1_1", "look"), ("call_1_2", "other")]
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("tool", [False, True])
def test_a_stream_carries_the_same_words_in_chunks(tool):
    text = "a longer text with ümlauts " * 5
    body = {"stream": True, "stream_options": {"include_usage": True}, **(FORCED if tool else {})}
    with serve_scripted([text]) as server:
        status, sent = ask(server, **body)
    lines = [line.removeprefix("data: ") for line in sent.split("\n\n") if line]
    events = [json.loads(line) for line in lines[:-1]]
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    if tool:
        parts = [
            call["function"]["arguments"]
            for delta in deltas
            for call in delta.get("tool_calls", [])
        ]
    else:
        parts = [delta.get("content", "") for delta in deltas]
    assert (status, lines[-1], "".join(parts)) == (200, "[DONE]", text)
    assert len(parts) > 5
    assert events[-1]["usage"]["completion_tokens"] > 0


def test_models_are_listed_and_other_addresses_are_unknown():
    with serve_scripted([]) as server:
        assert json.loads(ask(server, "/models", "GET")[1])["data"][0]["id"] == "scripted"
        assert ask(server, "/embeddings")[0] == 404
        assert ask(server, method="GET")[0] == 404
        assert server.requests == []


def test_an_http_reply_is_sent_as_it_says():
    with serve_scripted(
        [HttpReply(status=429, body={"error": "slow down"}, headers={"Retry-After": "7"})]
    ) as server:
        address = urlsplit(server.base_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=5)
        connection.request("POST", "/v1/chat/completions", "{}")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("retry-after")) == (429, "7")
        assert json.loads(answer.read()) == {"error": "slow down"}
        connection.close()


def test_an_answer_can_be_cut():
    with (
        serve_scripted([HttpReply(body="x" * 100, cut_after=10)]) as server,
        pytest.raises(http.client.IncompleteRead),
    ):
        ask(server)


def test_a_request_that_is_not_json_gets_400():
    with serve_scripted(["a"]) as server:
        address = urlsplit(server.base_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=5)
        connection.request("POST", "/v1/chat/completions", "{")
        assert connection.getresponse().status == 400
        connection.close()
        assert server.remaining == 1


def test_leaving_the_block_ends_answers_that_hang_and_the_thread():
    failures = []

    def client() -> None:
        try:
            ask(server)
        except (OSError, http.client.HTTPException) as error:
            failures.append(type(error).__name__)

    before = threading.active_count()
    with serve_scripted([HttpReply(delay=math.inf)]) as server:
        thread = threading.Thread(target=client)
        thread.start()
        while not server.requests:
            thread.join(0.005)
    thread.join()
    assert (failures, threading.active_count()) == (["RemoteDisconnected"], before)


def test_the_address_is_known_only_while_it_runs():
    server = serve_scripted([])
    with pytest.raises(RuntimeError, match="does not run"):
        _ = server.base_url


def test_a_port_in_use_is_an_error_and_no_hang():
    with serve_scripted([]) as server, pytest.raises(OSError, match="in use"):
        serve_scripted([], port=urlsplit(server.base_url).port).__enter__()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_serves_async_programs_too():
    async with serve_scripted(["a"]) as server:
        assert server.base_url.startswith("http://127.0.0.1:")
