"""The ways to ask for the form of a reply, and the ones that each endpoint accepts.

    schema        `response_format` json_schema: the provider holds the model to it
    tool          one function, which the model must call with the reply as arguments
    json_object   `response_format` json_object: JSON of any form
    prompt        the prompt's words alone

The adapter steps down only if a provider rejects a request for its form. If tools are offered too,
few providers enforce a schema without preventing calls. Then only the prompt asks for the form,
unless the endpoint is known to take both.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Literal, TypeAlias, TypeVar

from llm_fsm._json import JsonDict
from llm_fsm.definition.names import REPLY_TOOL
from llm_fsm.errors import ModelError
from llm_fsm.llm.refusals import FORM_STATUS, STEPS, claims
from llm_fsm.session.messages import LLMRequest, ModelReply, ReplySchema

T = TypeVar("T")
Mode: TypeAlias = Literal["schema", "tool", "json_object", "prompt"]
MODES: tuple[Mode, ...] = ("schema", "tool", "json_object", "prompt")
TOOL_NAME = REPLY_TOOL
_TOOL_DESCRIPTION = "Give your reply."

NO_TOOLS = "the request offers tools; use a model and a server that take them"
"""The error message for a request that was rejected for its tools, which it needs."""

_UNSUPPORTED = re.compile(
    r"not (yet )?(supported|implemented|permitted|available)|unsupported|unrecogni[sz]ed|cannot unmarshal"
    r"|(not|n't) (currently |yet )?support|endpoints? found that|requested parameters"
    r"|(unknown|unexpected) (field|name|parameter|argument|keyword)|extra (inputs|fields)"
)
_ANOTHER_PARAMETER = re.compile(
    r"max_(completion_|output_)?tokens|temperature|top_p|\brole\b|image|media type|\bstream(ing|ed)?\b"
)
_WORD = re.compile(r"\w+")
_LIMIT = re.compile(r"max_(completion_|output_|new_)?tokens")
_BROKEN_STREAM = re.compile(r"\bstream (error|id\b|closed|reset|ended|interrupted)", re.IGNORECASE)
_NO_TEMPERATURE = re.compile(
    r"deprecated|incompatible|not (compatible|(a )?permitted)|cannot be used|is fixed"
    r"|only 1(\.0+)? is|only be (set to )?1(\.0+)?\b(?!\.\d| (and|or|to)\b)"
)


def rejects_form(status: int, body: str, mode: Mode) -> bool:
    """Return true if an error answer means that the endpoint does not take this form of request.

    It must name the form, or call something unsupported without naming another parameter. A server
    that fails because of a form (500) must name it.
    """
    words = claims(status, body, {*FORM_STATUS, 500})
    if mode == "prompt" or not words:
        return False
    if STEPS[mode].search(words) or status == 500:
        return STEPS[mode].search(words) is not None
    if STEPS["system"].search(words):
        return False
    return bool(_UNSUPPORTED.search(words)) and not _ANOTHER_PARAMETER.search(words)


def rejects_tools(status: int, body: str) -> bool:
    """Return true if an error answer means that the endpoint takes no tools."""
    return STEPS["tool"].search(claims(status, body, FORM_STATUS)) is not None


def rejects_stream(status: int, body: str) -> bool:
    """Return true if an error answer means that the endpoint, or this user's model there, has no
    streams.
    """
    return STEPS["stream"].search(claims(status, body, FORM_STATUS)) is not None


def rejects_temperature(error: ModelError) -> bool:
    """Return true if an error means that the model takes only its own temperature or none, like
    reasoning models.
    """
    said = str(error).lower()
    if error.status not in FORM_STATUS or "temperature" not in said:
        return False
    return bool(_NO_TEMPERATURE.search(said) or _UNSUPPORTED.search(said))


def form_fields(mode: Mode, schema: ReplySchema | None) -> JsonDict:
    """Return the fields that a request needs for this mode."""
    if mode == "prompt" or schema is None:
        return {}
    if mode == "schema":
        form = {"name": schema.name, "strict": True, "schema": schema.schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if mode == "tool":
        function = {
            "name": TOOL_NAME,
            "description": _TOOL_DESCRIPTION,
            "parameters": schema.schema,
        }
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": TOOL_NAME}},
        }
    return {"response_format": {"type": "json_object"}}


THOUGHT_TOKENS = 8192
"""Tokens for the thoughts of a model before its reply."""
_THINKING = re.compile(
    r"(?:^|[/:])(?:o[1-9]\b|gpt-5|gpt-oss|deepseek-(?:r[0-9]|reasoner)|qwq|qwen3|magistral|minimax-m[0-9]"
    r"|gemini-(?:2\.5|[3-9])|grok-(?:3-mini|[4-9])|glm-(?:4\.[5-9]|z[0-9]))|thinking|reason",
    re.IGNORECASE,
)
"""Names of models that think before they reply."""
_UNTEMPERED = re.compile(r"(?:^|[/:])(?:o[1-9]\b|gpt-5|gemini-[3-9])", re.IGNORECASE)
"""Names of models that refuse a temperature, or that repeat themselves without their own."""


def thinks_aloud(model: str) -> bool:
    """Return true for the name of a model whose thoughts count as tokens of a reply."""
    return _THINKING.search(model) is not None


def has_own_temperature(model: str) -> bool:
    """Return true for the name of a model that takes only its own temperature."""
    return _UNTEMPERED.search(model) is not None


def rejects_limit(error: ModelError) -> bool:
    """Return true if an error means that the limit of tokens does not fit, for example into the
    model's context.
    """
    said = str(error).lower()
    return error.status in FORM_STATUS and _LIMIT.search(said) is not None


def _is_thought(text: str) -> bool:
    """Return true for a reply that has only a thought, or nothing."""
    said = text.strip()
    return not said or (said.startswith("<think") and "</think" not in said)


class ReplyModes:
    """The request forms that the models of one endpoint accept, as far as they are known.

    A setting is in one of these sets after a first request showed it, and no request tries it
    again.

    Attributes:
        counts: It takes a request for token counts in a stream.
        untempered: Models that get no temperature.
        plain: Models that refuse parts of their own messages.
        unsystemed: Models without a system role.
        renamed: Models that take the limit of tokens by its newer name, such as OpenAI's reasoning
            models.
        unlimited: Models that refuse a limit of tokens that no author set.
        thinking: Models whose thoughts count as tokens of a reply.
    """

    __slots__ = (
        "_both",
        "_failing",
        "_first",
        "_known",
        "_unstreamed",
        "counts",
        "plain",
        "renamed",
        "thinking",
        "unlimited",
        "unsystemed",
        "untempered",
    )

    def __init__(self, first: Mode = "schema", *, both: bool = False) -> None:
        """Make the habits of an endpoint.

        Args:
            first: The mode to begin with.
            both: True if the endpoint takes schemas beside tools.
        """
        self._first = first
        self._both = both
        self._known: dict[tuple[str, bool], Mode] = {}
        self._failing: set[tuple[str, bool]] = set()
        self._unstreamed: set[str] = set()
        self.counts = True
        self.untempered: set[str] = set()
        self.plain: set[str] = set()
        self.unsystemed: set[str] = set()
        self.renamed: set[str] = set()
        self.unlimited: set[str] = set()
        self.thinking: set[str] = set()

    async def settle(
        self,
        model: str,
        schema: ReplySchema | None,
        ask: Callable[[Mode], Awaitable[T]],
        *,
        tools: bool = False,
        signed: Container[str] = (),
    ) -> T:
        """Ask in the best mode that was not rejected yet, and step down after each rejection.

        If a server fails (500) without a reason in a form that it has never answered, the next form
        is tried once. A step is remembered after a simpler request was answered, and after a
        failure only if that has happened twice. Without a schema, only the prompt asks for the
        form. After a rejected setting, `ask` is called again without it, and later requests omit it
        if that was answered. Other errors of `ask` are raised.

        Args:
            model: The model.
            schema: The schema of the reply.
            ask: Sends the request in one form.
            tools: True if the request offers tools.
            signed: Keys of the request that only the model's provider understands.
        """
        modes, step = self._modes(model, schema, tools), 0
        left_out = []
        failed = None
        while True:
            sent = self._settings_of(model)  # another request may change them meanwhile
            try:
                reply = await ask(modes[step])
            except ModelError as error:
                setting = self._rejected_setting(error, signed)
                if error.format_rejected and step + 1 < len(modes):
                    step += 1
                elif setting is not None and any(setting is known for known in sent):
                    setting.add(model)
                    left_out.append(setting)
                elif (
                    self._may_fail_over(error, model, modes[step:], tools=tools) and failed is None
                ):
                    failed = error
                    step += 1
                else:
                    for setting in left_out:  # it may not have been the reason
                        setting.discard(model)
                    if failed is None:
                        raise
                    failed.attempts, failed.seconds = error.attempts, error.seconds
                    raise failed from error
            else:
                if schema is not None and (failed is None or (model, tools) in self._failing):
                    self._known[model, tools] = modes[step]
                if failed is not None:
                    self._failing.add((model, tools))
                return reply

    def _settings_of(self, model: str) -> list[set[str]]:
        """Return the settings that requests to a model have: the sets that do not name it."""
        settings = (self.untempered, self.unsystemed, self.plain)
        return [setting for setting in settings if model not in setting]

    def _rejected_setting(self, error: ModelError, signed: Container[str]) -> set[str] | None:
        """Return the models that do without a setting, if an error says that this one does; else
        None.
        """
        if rejects_temperature(error):
            return self.untempered
        if error.system_rejected:
            return self.unsystemed
        if error.status in FORM_STATUS and any(
            word in signed for word in _WORD.findall(str(error))
        ):
            return self.plain
        return None

    def _may_fail_over(
        self, error: ModelError, model: str, modes: Sequence[Mode], *, tools: bool
    ) -> bool:
        """Return true if a server may fail because of the form, because it has never answered in
        it.
        """
        if error.refusal or error.system_rejected:
            return False
        return (
            error.status == 500 and len(modes) > 1 and self._known.get((model, tools)) != modes[0]
        )

    def limit_of(self, request: LLMRequest, model: str) -> int | None:
        """Return the most tokens of a reply as the model counts them; None for no limit.

        A bound that no author set leaves room for thoughts.
        """
        if request.max_tokens is None or "max_tokens" not in request.defaults:
            return request.max_tokens
        if model in self.unlimited:
            return None
        thinks = model in self.thinking or thinks_aloud(model)
        return request.max_tokens + (THOUGHT_TOKENS if thinks else 0)

    def learn_thinking(self, request: LLMRequest, model: str, reply: ModelReply) -> bool:
        """Return true if thoughts took all tokens of a reply for the first time, and remember the
        model.

        The same request then has room for them.
        """
        known = model in self.thinking or thinks_aloud(model)
        if known or "max_tokens" not in request.defaults or reply.finish_reason != "length":
            return False
        if reply.tool_calls or not _is_thought(reply.text):
            return False
        self.thinking.add(model)
        return True

    async def settle_stream(
        self,
        model: str,
        schema: ReplySchema | None,
        ask: Callable[[Mode], Awaitable[T]],
        whole: Callable[[], Awaitable[ModelReply]],
        *,
        tools: bool = False,
        signed: Container[str] = (),
    ) -> T | ModelReply:
        """Do the same as `settle` for a stream. If the model has no streams, use the reply of
        `whole`.
        """
        if model in self._unstreamed:
            return await whole()
        try:
            return await self.settle(model, schema, ask, tools=tools, signed=signed)
        except ModelError as error:
            if error.format_rejected or not error.stream_rejected:
                raise
            for_good = not _BROKEN_STREAM.search(str(error))
        reply = await whole()
        if for_good:
            self._unstreamed.add(model)
        return reply

    def _modes(self, model: str, schema: ReplySchema | None, tools: bool) -> tuple[Mode, ...]:
        if schema is None:
            return ("prompt",)
        first = self._known.get((model, tools), self._first)
        if not tools:
            return MODES[MODES.index(first) :]
        return ("schema", "prompt") if self._both and first == "schema" else ("prompt",)
