"""A chat client on OpenAI's own SDK, for OpenAI and for servers with the same API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from llm_fsm._text import without_keys
from llm_fsm.errors import ModelError
from llm_fsm.llm.clients.base import BaseLLMClient, needs
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse, from_call, to_openai
from llm_fsm.llm.openai.completion import read_calls
from llm_fsm.llm.retry import is_retryable, parse_retry_after


class OpenAIClient(BaseLLMClient):
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
        self, model: str = "gpt-4", api_key: str | None = None, base_url: str | None = None, **options: Any
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
        try:
            answer = self.client.chat.completions.create(
                model=self.model,
                messages=[to_openai(message) for message in messages],
                **given,
            )
        except self._sdk.OpenAIError as error:
            raise self._failure(error) from error
        return read_response(answer.model_dump())

    def _failure(self, error: Any) -> ModelError:
        status = getattr(error, "status_code", None)
        said = without_keys(" ".join(str(error).split()), self.client.api_key)
        retryable = isinstance(error, self._sdk.APIConnectionError) if status is None else is_retryable(status)
        wait = None
        with suppress(AttributeError):
            wait = parse_retry_after(error.response.headers.get("retry-after"), now=time.time())
        return ModelError(f"{self.model}: {said}", retryable=retryable, status=status, retry_after=wait)


def read_response(document: dict[str, Any]) -> LLMResponse:
    """Read a chat completion.

    Raises:
        ModelError: It has no message.
    """
    choices = document.get("choices") or []
    if not choices or not isinstance(choices[0].get("message"), dict):
        raise ModelError("the answer holds no message", retryable=True)
    message = choices[0]["message"]
    calls = [from_call(call) for call in read_calls(message)]
    usage = {key: value for key, value in (document.get("usage") or {}).items() if isinstance(value, int)}
    return LLMResponse(message.get("content") or "", calls, choices[0].get("finish_reason"), usage)
