"""The adapter for OpenAI and for servers with the same API."""

from __future__ import annotations

from typing import Any

from llm_fsm.llm.clients.sdks import OpenAIClient
from llm_fsm.workflow.llm.adapter import LLMAdapter


class OpenAIAdapter(OpenAIClient, LLMAdapter):
    """OpenAI's chat completions for a workflow.

    Args:
        model: The name of the model.
        api_key: The key; None takes OPENAI_API_KEY.
        base_url: The URL of another server with the same API.
        options: Further arguments of `OpenAIClient`.
    """

    def __init__(
        self,
        model: str = "gpt-4o",
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, api_key, base_url, **options)
