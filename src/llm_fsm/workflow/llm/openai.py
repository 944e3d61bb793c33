"""The adapter for OpenAI and for servers that speak its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_fsm.llm.clients.openai_sdk import OpenAIClient


class OpenAIAdapter(OpenAIClient):
    """OpenAI's chat completions for a workflow; arguments as of `OpenAIClient`."""

    def __init__(
        self, model: str = "gpt-4o", api_key: str | None = None, base_url: str | None = None, **options: Any
    ) -> None:
        super().__init__(model, api_key, base_url, **options)

    def format_tools(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Return tools as chat completions take them."""
        return [tool.to_openai_schema() for tool in tools]
