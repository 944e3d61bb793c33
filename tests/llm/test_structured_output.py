from __future__ import annotations

import json

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.structured_output import (
    MODES,
    ReplyModes,
    form_fields,
    rejects_form,
    rejects_stream,
    rejects_temperature,
    rejects_tools,
)
from llm_fsm.session.messages import ModelReply
from llm_requests import REPLY_SCHEMA, SCHEMA

pytestmark = pytest.mark.anyio


def fault(message: str, **more) -> str:
    return json.dumps({"error": {"message": message, **more}})


@pytest.mark.parametrize(
    ("status", "body", "mode", "rejected"),
    [
        (
            400,
            fault("'response_format' of type 'json_schema' is not supported with this model."),
            "schema",
            True,
        ),
        (400, fault("This response_format type is unavailable now"), "schema", True),
        (400, fault("This model does not support response format `json_schema`."), "schema", True),
        (400, fault("Invalid schema for response_format 'reply': In context=()"), "schema", True),
        (400, fault("'response_format.type' must be 'json_object' or 'text'"), "schema", True),
        (
            400,
            fault('Invalid JSON payload received. Unknown name "additionalProperties"'),
            "schema",
            True,
        ),
        (
            400,
            fault(
                "unknown field `response_format`, expected `messages`, `max_tokens`, `temperature`"
            ),
            "schema",
            True,
        ),
        (
            400,
            fault("Unrecognized request argument supplied: response_format"),
            "json_object",
            True,
        ),
        (400, fault("'messages' must contain the word 'json' in some form"), "json_object", True),
        (400, "json: cannot unmarshal object into Go struct field .format", "schema", True),
        (400, fault("registry.ollama.ai/library/x does not support tools"), "tool", True),
        (404, fault("No endpoints found that support tool use"), "tool", True),
        (
            404,
            fault("No endpoints found that can handle the requested parameters."),
            "schema",
            True,
        ),
        (415, fault("unsupported"), "tool", True),
        (
            422,
            json.dumps(
                {
                    "detail": [
                        {
                            "loc": ["body", "response_format"],
                            "msg": "Extra inputs are not permitted",
                        }
                    ]
                }
            ),
            "schema",
            True,
        ),
        (
            422,
            json.dumps(
                {"detail": [{"loc": ["body", "tools"], "msg": "bad", "input": "my api key"}]}
            ),
            "tool",
            True,
        ),
        (501, fault("structured outputs are not implemented"), "schema", True),
        # another cause, another status, or nothing said
        (
            400,
            fault(
                "maximum context length is 8192 tokens: 8900 in the messages, 100 in the functions"
            ),
            "tool",
            False,
        ),
        (
            400,
            fault("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."),
            "schema",
            False,
        ),
        (400, fault("Unsupported value: 'temperature' does not support 0.7"), "schema", False),
        (400, fault("The image type is not supported"), "schema", False),
        (400, fault("Streaming is not supported for this model"), "schema", False),
        (400, fault("bad request"), "schema", False),
        (
            422,
            json.dumps(
                {"detail": [{"loc": ["body", "seed"], "msg": "bad", "input": "a json_schema"}]}
            ),
            "schema",
            False,
        ),
        (404, fault("The model `tool-7b` does not exist"), "tool", False),
        (404, "<html>We do not support this page</html>", "schema", False),
        (404, "404 page not found", "schema", False),
        (401, fault("response_format needs a better key"), "schema", False),
        (429, fault("structured outputs: rate limit"), "schema", False),
        (500, fault("response_format crashed"), "schema", True),
        (500, fault("Unexpected empty grammar stack"), "schema", True),
        (500, fault("Internal server error"), "schema", False),
        (500, fault("this is not supported"), "schema", False),
        (500, fault("the schema exceeds your quota"), "schema", False),
        (503, fault("response_format is overloaded"), "schema", False),
        (400, fault("response_format"), "prompt", False),
        (400, fault("tools are unknown"), "json_object", False),
        (400, "", "schema", False),
        (400, "[" * 100_000, "schema", False),
    ],
)
def test_an_error_is_a_rejection_of_the_form_only_if_it_says_so(status, body, mode, rejected):
    assert rejects_form(status, body, mode) is rejected


WISH = {"name": "reply", "strict": True, "schema": REPLY_SCHEMA}
FUNCTION = {"name": "reply", "description": "Give your reply.", "parameters": REPLY_SCHEMA}


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        ("schema", {"response_format": {"type": "json_schema", "json_schema": WISH}}),
        (
            "tool",
            {
                "tools": [{"type": "function", "function": FUNCTION}],
                "tool_choice": {"type": "function", "function": {"name": "reply"}},
            },
        ),
        ("json_object", {"response_format": {"type": "json_object"}}),
        ("prompt", {}),
    ],
)
def test_each_form_is_asked_for_in_fields_of_its_own(mode, fields):
    assert form_fields(mode, SCHEMA) == fields
    assert form_fields(mode, None) == {}


class Endpoint:
    """An endpoint that rejects some modes, and notes which were tried."""

    def __init__(self, *rejects: str) -> None:
        self.rejects = rejects
        self.tried: list[str] = []

    async def __call__(self, mode: str) -> ModelReply:
        self.tried.append(mode)
        if mode in self.rejects:
            raise ModelError("form", format_rejected=True)
        return ModelReply(text="ok", mode=mode)


@pytest.mark.parametrize(
    ("rejects", "tried"),
    [
        ((), ["schema"]),
        (("schema",), ["schema", "tool"]),
        (("schema", "tool"), ["schema", "tool", "json_object"]),
        (("schema", "tool", "json_object"), list(MODES)),
    ],
)
async def test_a_step_down_is_made_for_each_rejection_and_remembered(rejects, tried):
    modes, endpoint = ReplyModes(), Endpoint(*rejects)
    assert (await modes.settle("m", SCHEMA, endpoint)).mode == tried[-1]
    await modes.settle("m", SCHEMA, endpoint)
    assert endpoint.tried == [*tried, tried[-1]]


class Failing(Endpoint):
    """An endpoint that fails in some modes, and does not say why."""

    async def __call__(self, mode: str) -> ModelReply:
        self.tried.append(mode)
        if mode in self.rejects:
            raise ModelError(f"500 in {mode}", retryable=True, status=500)
        return ModelReply(text="ok", mode=mode)


async def test_a_server_that_fails_with_the_schema_alone_is_asked_in_the_next_form():
    endpoint, modes = Failing("schema"), ReplyModes()
    for tried in (["schema", "tool"], ["schema", "tool"], ["tool"]):
        endpoint.tried.clear()
        assert (await modes.settle("m", SCHEMA, endpoint)).text == "ok"
        assert endpoint.tried == tried


async def test_a_server_that_fails_in_every_form_is_asked_in_two_and_its_first_failure_is_told():
    endpoint = Failing(*MODES)
    with pytest.raises(ModelError, match="500 in schema"):
        await ReplyModes().settle("m", SCHEMA, endpoint)
    assert endpoint.tried == ["schema", "tool"]


async def test_a_server_that_has_answered_with_a_schema_fails_for_another_reason():
    modes, endpoint = ReplyModes(), Failing()
    await modes.settle("m", SCHEMA, endpoint)
    endpoint.rejects = ("schema",)
    with pytest.raises(ModelError, match="500 in schema"):
        await modes.settle("m", SCHEMA, endpoint)
    assert endpoint.tried == ["schema", "schema"]


async def test_each_model_is_remembered_by_itself():
    modes, endpoint = ReplyModes(), Endpoint("schema")
    await modes.settle("a", SCHEMA, endpoint)
    await modes.settle("b", SCHEMA, endpoint)
    assert endpoint.tried == ["schema", "tool"] * 2


async def test_a_step_that_led_to_no_answer_is_forgotten():
    modes, endpoint = ReplyModes(), Endpoint(*MODES)
    for _ in range(2):
        with pytest.raises(ModelError):
            await modes.settle("m", SCHEMA, endpoint)
    assert endpoint.tried == list(MODES) * 2


async def test_without_a_schema_only_the_prompt_asks():
    modes, endpoint = ReplyModes(), Endpoint()
    await modes.settle("m", None, endpoint)
    await modes.settle("m", SCHEMA, endpoint)
    assert endpoint.tried == ["prompt", "schema"]


async def test_another_failure_is_no_step_down():
    async def refuse(mode: str) -> ModelReply:
        raise ModelError(f"busy in {mode}", retryable=True)

    with pytest.raises(ModelError, match="busy in schema"):
        await ReplyModes().settle("m", SCHEMA, refuse)


@pytest.mark.parametrize(
    ("status", "body", "rejected"),
    [
        (400, fault("You may not stream this model before your organization is verified"), True),
        (422, fault("streaming: extra fields not permitted"), True),
        (501, fault("Streamed answers are not implemented"), True),
        (400, fault("unknown field stream_options"), False),
        (400, fault("the upstream server is gone"), False),
        (400, fault("content_filter: the stream was stopped"), False),
        (404, fault("model_not_found: there is nothing to stream from"), False),
        (
            400,
            fault(
                "Your organization must be verified to stream this model. Please go to: settings/general"
            ),
            True,
        ),
        (500, fault("the stream broke"), False),
        (404, "<html>stream</html>", False),
        (400, json.dumps({"detail": [{"msg": "bad", "input": "a stream"}]}), False),
    ],
)
def test_an_error_is_a_rejection_of_streams_only_if_it_says_so(status, body, rejected):
    assert rejects_stream(status, body) is rejected


class Unstreamed(Endpoint):
    """An endpoint that gives no streams."""

    def __init__(self, *rejects: str, answers: bool = True) -> None:
        super().__init__(*rejects)
        self.answers = answers

    async def __call__(self, mode: str) -> ModelReply:
        await super().__call__(mode)
        raise ModelError("no stream", stream_rejected=True)

    async def whole(self) -> ModelReply:
        self.tried.append("whole")
        if not self.answers:
            raise ModelError("nor so")
        return ModelReply(text="ok")


async def test_a_model_that_gives_no_streams_is_asked_for_whole_replies_from_then_on():
    modes, endpoint = ReplyModes(), Unstreamed()
    for name in ("m", "m", "other"):
        reply = await modes.settle_stream(name, SCHEMA, endpoint, endpoint.whole)
        assert reply.text == "ok"
    assert endpoint.tried == ["schema", "whole", "whole", "schema", "whole"]


@pytest.mark.parametrize(
    ("said", "again"),
    [("stream error", True), ("Upstream error: streaming is not supported", False)],
)
async def test_a_stream_that_broke_is_asked_for_again_next_time(said, again):
    modes, tried = ReplyModes(), []

    async def broken(mode: str) -> ModelReply:
        tried.append(mode)
        raise ModelError(f"answered 400: {said}", stream_rejected=True)

    async def whole() -> ModelReply:
        return ModelReply(text="ok")

    for _ in range(2):
        assert (await modes.settle_stream("m", SCHEMA, broken, whole)).text == "ok"
    assert tried == ["schema"] * (2 if again else 1)


@pytest.mark.parametrize(
    ("status", "said", "rejected"),
    [
        (
            400,
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is.",
            True,
        ),
        (400, "Unsupported parameter: 'temperature' is not supported with this model.", True),
        (400, "gpt-5 models don't support temperature=0.2. Only temperature=1 is supported.", True),
        (400, "`temperature` is deprecated for this model.", True),
        (422, "temperature: Extra inputs are not permitted", True),
        (400, "`temperature` may only be set to 1 when thinking is enabled.", True),
        (400, "invalid temperature: only 1 is allowed for this model", True),
        (400, "temperature is incompatible with reasoning", True),
        (400, "temperature must be between 0 and 2", False),
        (400, "temperature can only be set to 0 or more", False),
        (400, "temperature may only be set to 1 or less", False),
        (400, "Unsupported parameter: 'top_p'", False),
        (500, "Unsupported parameter: 'temperature'", False),
    ],
)
def test_an_error_is_a_rejection_of_the_temperature_only_if_it_says_so(status, said, rejected):
    assert rejects_temperature(ModelError(said, status=status)) is rejected


async def test_a_temperature_is_sent_again_where_its_absence_did_not_help():
    modes, said = ReplyModes(), []

    async def ask(mode: str) -> str:
        said.append("m" in modes.untempered)
        if len(said) <= 2:
            raise ModelError("'What temperature is it?' is not supported", status=400)
        return "ok"

    with pytest.raises(ModelError):
        await modes.settle("m", SCHEMA, ask)
    assert await modes.settle("m", SCHEMA, ask) == "ok"
    assert said == [False, True, False]


async def test_a_form_that_is_rejected_in_streams_is_stepped_down_first():
    modes, endpoint = ReplyModes(), Unstreamed("schema", "tool")
    await modes.settle_stream("m", SCHEMA, endpoint, endpoint.whole)
    assert endpoint.tried == ["schema", "tool", "json_object", "whole"]


async def test_that_streams_are_rejected_is_forgotten_where_no_whole_reply_comes_either():
    modes, endpoint = ReplyModes(), Unstreamed(answers=False)
    for _ in range(2):
        with pytest.raises(ModelError, match="nor so"):
            await modes.settle_stream("m", SCHEMA, endpoint, endpoint.whole)
    assert endpoint.tried == ["schema", "whole"] * 2


async def test_an_endpoint_can_begin_lower():
    endpoint = Endpoint()
    await ReplyModes("json_object").settle("m", SCHEMA, endpoint)
    assert endpoint.tried == ["json_object"]


@pytest.mark.parametrize(
    ("both", "rejects", "tried"),
    [(False, (), ["prompt"]), (True, (), ["schema"]), (True, ("schema",), ["schema", "prompt"])],
)
async def test_beside_tools_a_schema_is_sent_only_where_both_are_taken(both, rejects, tried):
    modes, endpoint = ReplyModes(both=both), Endpoint(*rejects)
    await modes.settle("m", SCHEMA, endpoint, tools=True)
    await modes.settle("m", SCHEMA, endpoint, tools=True)
    assert endpoint.tried == [*tried, tried[-1]]


async def test_what_is_known_beside_tools_says_nothing_of_requests_without_them():
    modes, endpoint = ReplyModes(), Endpoint()
    await modes.settle("m", SCHEMA, endpoint, tools=True)
    await modes.settle("m", SCHEMA, endpoint)
    assert endpoint.tried == ["prompt", "schema"]


@pytest.mark.parametrize(
    ("status", "body", "rejected"),
    [
        (400, fault("registry.ollama.ai/library/x does not support tools"), True),
        (404, fault("No endpoints found that support tool use"), True),
        (400, fault("maximum context length is 8192 tokens: 100 in the functions"), False),
        (500, fault("tools crashed"), False),
        (400, "<html>tools</html>", False),
    ],
)
def test_an_error_is_a_rejection_of_tools_only_if_it_says_so(status, body, rejected):
    assert rejects_tools(status, body) is rejected
