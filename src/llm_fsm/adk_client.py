"""Agents of Google's Agent Development Kit, under their public name. `llm_fsm.llm.clients.adk` has
them.
"""

from llm_fsm.llm.clients.adk import (
    ADKClient,
    ADKStateMixin,
    adk_client,
    create_adk_agent_with_tools,
)

__all__ = ["ADKClient", "ADKStateMixin", "adk_client", "create_adk_agent_with_tools"]
