"""The adapter for every provider that litellm knows, with the cost of its replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_fsm.llm.clients.litellm_sdk import LiteLLMClient


class LiteLLMAdapter(LiteLLMClient):
    """A `provider/model` for a workflow; `total_cost` is in US dollars. Arguments as of `LiteLLMClient`."""

    def format_tools(self, tools: Sequence[Any]) -> list[dict[str, Any]]:
        """Return tools as chat completions take them."""
        return [tool.to_openai_schema() for tool in tools]
