"""Chat clients on the SDKs of OpenAI, litellm and smolagents. An SDK is imported when its client is
made or called.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from llm_fsm._json import JsonDict, without_none
from llm_fsm._text import without_keys
from llm_fsm.errors import ModelError, told
from llm_fsm.llm.clients.base import BaseLLMClient, needs
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse, ToolCall, from_call, to_openai
from llm_fsm.llm.litellm.lazy_import import import_litellm
from llm_fsm.llm.openai.completion import content_text, read_calls
from llm_fsm.llm.refusals import may_pass
from llm_fsm.llm.retry import parse_retry_after
from llm_fsm.session.messages import ToolCall as AskedCall


class SdkClient(BaseLLMClient):
    """A client whose SDK takes messages and settings as chat completions do."""

    def chat(
        self,
        messages: Sequence[AnyMessage],
        tools: list[JsonDict] | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = None,
        **kwargs: Any,
    ) -> LLMResponse:
        """Ask the model; the arguments are those of `BaseLLMClient.chat`.

        Raises:
            ModelError: The model failed.
        """
        given = {"temperature": temperature, "max_tokens": max_tokens, "tools": tools or None}
        plain = [to_openai(message) for message in messages]
        return self._ask(plain, without_none(given), without_none(kwargs))

    @abstractmethod
    def _ask(self, plain: list[JsonDict], given: JsonDict, further: JsonDict) -> LLMResponse:
        """Ask the model. `further`: the settings beside those of every client."""


class OpenAIClient(SdkClient):
    """OpenAI's chat completions.

    Args:
        model: The name of the model.
        api_key: The key; None takes OPENAI_API_KEY.
        base_url: The URL of another server with the same API.
        options: Further arguments of `openai.OpenAI`.

    Raises:
        ConfigurationError: The SDK is not installed.
    """

    def __init__(
        self,
        model: str = "gpt-4",
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        try:
            self._sdk: Any = import_module("openai")
        except ImportError as error:
            raise needs("openai", "openai") from error
        self.model = model
        try:
            self.client = self._sdk.OpenAI(api_key=api_key, base_url=base_url, **options)
        except self._sdk.OpenAIError as error:
            raise ModelError(str(error), status=401) from error

    def _ask(self, plain: list[JsonDict], given: JsonDict, further: JsonDict) -> LLMResponse:
        try:
            answer = self.client.chat.completions.create(
                model=self.model, messages=plain, **given, **further
            )
        except self._sdk.OpenAIError as error:
            raise self._failure(error) from error
        return read_response(answer.model_dump())

    def _failure(self, error: Any) -> ModelError:
        status = getattr(error, "status_code", None)
        said = without_keys(" ".join(str(error).split()), self.client.api_key)
        retryable = (
            isinstance(error, self._sdk.APIConnectionError)
            if status is None
            else may_pass(status, said)
        )
        wait = None
        with suppress(AttributeError):
            wait = parse_retry_after(error.response.headers.get("retry-after"), now=time.time())
        return ModelError(
            f"{self.model}: {said}", retryable=retryable, status=status, retry_after=wait
        )


class LiteLLMClient(SdkClient):
    """A model as `provider/model`. `total_cost` is the cost of its replies so far, in US dollars.

    Args:
        model: The name by which litellm knows the model.
        api_key: The provider's key; None takes its environment variable.
        base_url: Another URL of the provider.
        options: Further arguments of `litellm.completion`, for each call.
    """

    def __init__(
        self,
        model: str = "gpt-4",
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.total_cost = 0.0
        self._key = api_key
        self.options = {**without_none({"api_key": api_key, "api_base": base_url}), **options}

    def _ask(self, plain: list[JsonDict], given: JsonDict, further: JsonDict) -> LLMResponse:
        litellm = import_litellm()
        try:
            answer = litellm.completion(
                model=self.model, messages=plain, **{**given, **self.options, **further}
            )
        except Exception as error:
            status = getattr(error, "status_code", None)
            said = without_keys(" ".join(str(error).split()), self._key)
            retryable = isinstance(status, int) and may_pass(status, said)
            raise ModelError(f"{self.model}: {said}", retryable=retryable, status=status) from error
        response = read_response(answer.model_dump())
        cost = getattr(answer, "_hidden_params", {}).get("response_cost")
        if isinstance(cost, int | float):
            self.total_cost += cost
            response.usage = {**(response.usage or {}), "cost": float(cost)}
        return response


class SmolAgentsClient(SdkClient):
    """A model of smolagents: InferenceClientModel (`HfApiModel` in old versions), LiteLLMModel,
    OpenAIModel and so on.

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
            raise ValueError(
                "agent_or_model= is a model of smolagents, such as InferenceClientModel(), or an agent; "
                f"it is {type(agent_or_model).__name__}"
            )
        self.agent = None if model is agent_or_model else agent_or_model
        self.model = model

    def _ask(self, plain: list[JsonDict], given: JsonDict, further: JsonDict) -> LLMResponse:
        try:
            answer = self.model.generate([self._message(one) for one in plain], **given, **further)
        except Exception as error:
            raise ModelError(f"smolagents: {told(error)}", retryable=True) from error
        calls = [self._call(one) for one in answer.tool_calls or ()]
        counts = getattr(answer, "token_usage", None)
        usage = {}
        if counts is not None:
            usage = {
                "prompt_tokens": counts.input_tokens,
                "completion_tokens": counts.output_tokens,
            }
        return LLMResponse(
            content_text(answer.content), calls, "tool_calls" if calls else "stop", usage
        )

    def _message(self, plain: JsonDict) -> Any:
        """Return a message of smolagents. A tool's result becomes a user message, because there is
        no role `tool`.
        """
        role, text = plain["role"], plain["content"]
        if role == "tool":
            role, text = "user", f"Result of the call {plain.get('tool_call_id', '')}:\n{text}"
        elif plain.get("tool_calls"):
            made = ", ".join(
                f"{one['function']['name']}({one['function']['arguments']})"
                for one in plain["tool_calls"]
            )
            text = f"{text}\nCalling: {made}".strip()
        content = [{"type": "text", "text": text}]
        return self._sdk.ChatMessage(role=self._sdk.MessageRole(role), content=content)

    @staticmethod
    def _call(call: Any) -> ToolCall:
        arguments = call.function.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        return from_call(AskedCall(id=call.id, name=call.function.name, arguments=text))


def read_response(document: JsonDict) -> LLMResponse:
    """Read a chat completion.

    Raises:
        ModelError: It has no message.
    """
    choices = document.get("choices") or []
    if not choices or not isinstance(choices[0].get("message"), dict):
        raise ModelError("the answer holds no message", retryable=True)
    message = choices[0]["message"]
    calls = [from_call(call) for call in read_calls(message)]
    usage = {
        key: value for key, value in (document.get("usage") or {}).items() if isinstance(value, int)
    }
    return LLMResponse(message.get("content") or "", calls, choices[0].get("finish_reason"), usage)
