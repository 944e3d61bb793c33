"""A chat client for every provider that litellm knows, with the cost of its replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_fsm._text import without_keys
from llm_fsm.errors import ModelError
from llm_fsm.llm.clients.base import BaseLLMClient
from llm_fsm.llm.clients.messages import AnyMessage, LLMResponse, to_openai
from llm_fsm.llm.clients.openai_sdk import read_response
from llm_fsm.llm.litellm.lazy_import import import_litellm
from llm_fsm.llm.retry import is_retryable


class LiteLLMClient(BaseLLMClient):
    """A model as `provider/model`. `total_cost` is the cost of its replies so far, in US dollars.

    Args:
        model: The name by which litellm knows the model.
        api_key: The provider's key; None takes its environment variable.
        base_url: Another URL of the provider.
        options: Further arguments of `litellm.completion`, for each call.
    """

    def __init__(
        self, model: str = "gpt-4", api_key: str | None = None, base_url: str | None = None, **options: Any
    ) -> None:
        self.model = model
        self.total_cost = 0.0
        self._key = api_key
        given = {"api_key": api_key, "api_base": base_url}
        self.options = {**{name: value for name, value in given.items() if value is not None}, **options}

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
        litellm = import_litellm()
        wanted = {"temperature": temperature, "max_tokens": max_tokens, "tools": tools or None}
        given = {name: value for name, value in wanted.items() if value is not None}
        try:
            answer = litellm.completion(
                model=self.model,
                messages=[to_openai(message) for message in messages],
                **{**given, **self.options, **kwargs},
            )
        except Exception as error:
            status = getattr(error, "status_code", None)
            said = without_keys(" ".join(str(error).split()), self._key)
            retryable = isinstance(status, int) and is_retryable(status)
            raise ModelError(f"{self.model}: {said}", retryable=retryable, status=status) from error
        response = read_response(answer.model_dump())
        cost = getattr(answer, "_hidden_params", {}).get("response_cost")
        if isinstance(cost, int | float):
            self.total_cost += cost
            response.usage = {**(response.usage or {}), "cost": float(cost)}
        return response
