"""The names of spans, attributes and metrics: those of the GenAI semantic conventions, and ours.

The conventions are not stable yet. By their own rule, OTEL_SEMCONV_STABILITY_OPT_IN selects the
form: the newest one with `gen_ai_latest_experimental`, else the form of version 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_fsm._json import TextMap

SWITCH = "OTEL_SEMCONV_STABILITY_OPT_IN"
NEWEST = "gen_ai_latest_experimental"

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

STATE = "llm_fsm.state"
PREVIOUS_STATE = "llm_fsm.previous_state"
BY = "llm_fsm.by"
RELEASE = "llm_fsm.release"
ARM = "llm_fsm.arm"
TURN = "llm_fsm.turn"
KIND = "llm_fsm.turn.kind"
ENDED = "llm_fsm.ended"
COST = "llm_fsm.cost"
CALLS = "llm_fsm.model_calls"
CACHED_TOKENS = "llm_fsm.cached_input_tokens"
ASKED_FOR = "llm_fsm.asked_for"

TRANSITION = "llm_fsm.transition"
REFUSED = "llm_fsm.refused"
MISSED = "llm_fsm.missed"
PAUSED = "llm_fsm.paused"
"""Events of a turn's span."""

TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
TURN_DURATION = "llm_fsm.turn.duration"
TURN_COST = "llm_fsm.turn.cost"

TOKEN_BUCKETS = (
    1,
    4,
    16,
    64,
    256,
    1024,
    4096,
    16384,
    65536,
    262144,
    1048576,
    4194304,
    16777216,
    67108864,
)
SECOND_BUCKETS = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
"""The buckets that the conventions advise."""


@dataclass(frozen=True, slots=True)
class Convention:
    """The keys that differ between versions of the conventions."""

    provider: str
    input_messages: str
    output_messages: str
    tool_arguments: str
    tool_result: str


OLD = Convention(
    provider="gen_ai.system",
    input_messages="gen_ai.prompt",
    output_messages="gen_ai.completion",
    tool_arguments="llm_fsm.tool.arguments",
    tool_result="llm_fsm.tool.result",
)
LATEST = Convention(
    provider="gen_ai.provider.name",
    input_messages="gen_ai.input.messages",
    output_messages="gen_ai.output.messages",
    tool_arguments="gen_ai.tool.call.arguments",
    tool_result="gen_ai.tool.call.result",
)


def convention(environ: TextMap) -> Convention:
    """Return the form that the environment selects."""
    wanted = {word.strip() for word in environ.get(SWITCH, "").split(",")}
    return LATEST if NEWEST in wanted else OLD
