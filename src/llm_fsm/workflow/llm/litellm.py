"""The adapter for every provider that litellm knows, with the cost of its replies."""

from __future__ import annotations

from llm_fsm.llm.clients.sdks import LiteLLMClient
from llm_fsm.workflow.llm.adapter import LLMAdapter


class LiteLLMAdapter(LiteLLMClient, LLMAdapter):
    """A `provider/model` for a workflow. `total_cost` is in US dollars. The arguments are those of
    `LiteLLMClient`.
    """
