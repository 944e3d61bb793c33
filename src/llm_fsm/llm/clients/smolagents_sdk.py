"""A chat client on a model of smolagents, or on the model of one of its agents."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from llm_fsm.errors import ModelError, told
from llm_fsm.llm.clients.base import BaseLLMClient, needs
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse, ToolCall, to_openai
from llm_fsm.turn.tool_arguments import ArgumentsFault, read_arguments


class SmolAgentsClient(BaseLLMClient):
    """A model of smolagents: InferenceClientModel (`HfApiModel` in old versions), LiteLLMModel, OpenAIModel and so on.

    Args:
        agent_or_model: The model, or an agent whose model is used.

    Raises:
        ConfigurationError: smolagents is not installed.
        ValueError: It is neither a model nor an agent.
    """

    def __init__(self, agent_or_model: Any = None, **_: Any) -> None:
        try:
            self._sdk: Any = import_module("smolagents")
        except ImportError as error:
            raise needs("smolagents", "smolagents") from error
        model = getattr(agent_or_model, "model", agent_or_model)
        if not isinstance(model, self._sdk.Model):
            raise ValueError(  # noqa: TRY004
                "agent_or_model= is a model of smolagents, such as InferenceClientModel(), or an agent; "
                f"it is {type(agent_or_model).__name__}"
            )
        self.agent = None if model is agent_or_model else agent_or_model
        self.model = model

    def chat(
        self,
        messages: Sequence[AnyMessage],
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Ask the model; the arguments are those of `BaseLLMClient.chat`.

        Raises:
            ModelError: The model failed.
        """
        wanted = {"temperature": temperature, "max_tokens": max_tokens, "tools": tools or None, **kwargs}
        given = {name: value for name, value in wanted.items() if value is not None}
        said = [to_openai(message) for message in messages]
        try:
            answer = self.model.generate([self._message(one) for one in said], **given)
        except Exception as error:
            raise ModelError(f"smolagents: {told(error)}", retryable=True) from error
        calls = [self._call(one) for one in answer.tool_calls or ()]
        counts = getattr(answer, "token_usage", None)
        usage = {}
        if counts is not None:
            usage = {"prompt_tokens": counts.input_tokens, "completion_tokens": counts.output_tokens}
        text = answer.content if isinstance(answer.content, str) else _text_of(answer.content)
        return LLMResponse(text, calls, "tool_calls" if calls else "stop", usage)

    def _message(self, plain: dict[str, Any]) -> Any:
        """Return a message of smolagents. A tool's result becomes a user message, because there is no role `tool`."""
        role, text = plain["role"], plain["content"]
        if role == "tool":
            role, text = "user", f"Result of the call {plain.get('tool_call_id', '')}:\n{text}"
        elif plain.get("tool_calls"):
            made = ", ".join(
                f"{one['function']['name']}({one['function']['arguments']})" for one in plain["tool_calls"]
            )
            text = f"{text}\nCalling: {made}".strip()
        content = [{"type": "text", "text": text}]
        return self._sdk.ChatMessage(role=self._sdk.MessageRole(role), content=content)

    @staticmethod
    def _call(call: Any) -> ToolCall:
        arguments = call.function.arguments
        if isinstance(arguments, str):
            try:
                arguments = dict(read_arguments(arguments))
            except ArgumentsFault:
                arguments = {"malformed": arguments}
        return ToolCall(call.id, call.function.name, dict(arguments or {}))


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
