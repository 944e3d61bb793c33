"""llm_fsm: conversations and workflows as state machines in JSON.

Names are loaded on first use, so importing the package is cheap and has no side effects.
"""

from __future__ import annotations

import gc
from importlib import import_module

TYPE_CHECKING = False  # from `typing`, whose import takes five times as long as the rest
if TYPE_CHECKING:
    from typing import Any

    from llm_fsm.definition.models import Definition
    from llm_fsm.documents.check import check
    from llm_fsm.documents.loader import load
    from llm_fsm.engine.conversation import AsyncConversation, Turn
    from llm_fsm.engine.handlers.registry import Handler, Occasion, Veto, create_handler
    from llm_fsm.engine.logging import enable_logging
    from llm_fsm.engine.machine import AsyncMachine
    from llm_fsm.engine.observers import observe
    from llm_fsm.engine.outbox.delivery import Delivery
    from llm_fsm.engine.outbox.sinks import sink
    from llm_fsm.engine.sync import Conversation, Machine
    from llm_fsm.errors import (
        ConfigurationError,
        ConversationConflict,
        ConversationEnded,
        ConversationError,
        ConversationNotFound,
        DefinitionError,
        Finding,
        HandlerError,
        LLMFSMError,
        ModelError,
        ReplyError,
        StoreError,
    )
    from llm_fsm.llm.clients.base import BaseLLMClient, create_llm_client, register_llm_client
    from llm_fsm.primitives import FSM, generate_orchestrator_guide, tools_to_google_ai_schema
    from llm_fsm.session.messages import LLMMessage, LLMRequest, Message, ModelReply, Paused, Usage
    from llm_fsm.statechart.machine import AsyncLLMStateMachine, LLMStateMachine
    from llm_fsm.statechart.memory import PersistentMemory
    from llm_fsm.statechart.refinement import RefinementFailed
    from llm_fsm.statechart.summaries import create_custom_summarizer
    from llm_fsm.statechart.tools import ToolType, get_global_registry, register_tool
    from llm_fsm.tools.registry import ToolRegistry
    from llm_fsm.turn.choices import Choice, pick
    from llm_fsm.workflow.errors import ExecutionBreak

__version__ = "0.2.0"

_PLACES = {
    "documents.check": ("check",),
    "engine.conversation": ("AsyncConversation", "Turn"),
    "definition.models": ("Definition",),
    "errors": (
        "ConfigurationError",
        "ConversationConflict",
        "ConversationEnded",
        "ConversationError",
        "ConversationNotFound",
        "DefinitionError",
        "HandlerError",
        "LLMFSMError",
        "ModelError",
        "ReplyError",
        "Finding",
        "StoreError",
    ),
    "engine.handlers.registry": ("Handler", "Occasion", "Veto", "create_handler"),
    "documents.loader": ("load",),
    "engine.machine": ("AsyncMachine",),
    "session.messages": ("LLMMessage", "LLMRequest", "Message", "ModelReply", "Paused", "Usage"),
    "engine.observers": ("observe",),
    "engine.outbox.delivery": ("Delivery",),
    "engine.outbox.sinks": ("sink",),
    "engine.sync": ("Conversation", "Machine"),
    "engine.logging": ("enable_logging",),
    "primitives": ("FSM", "generate_orchestrator_guide", "tools_to_google_ai_schema"),
    "llm.clients.base": ("BaseLLMClient", "create_llm_client", "register_llm_client"),
    "statechart.machine": ("AsyncLLMStateMachine", "LLMStateMachine"),
    "statechart.memory": ("PersistentMemory",),
    "statechart.refinement": ("RefinementFailed",),
    "statechart.summaries": ("create_custom_summarizer",),
    "statechart.tools": ("ToolType", "get_global_registry", "register_tool"),
    "workflow.errors": ("ExecutionBreak",),
    "tools.registry": ("ToolRegistry",),
    "turn.choices": ("Choice", "pick"),
}
_MODULE_OF: dict[str, str] = {}
for _module, _names in _PLACES.items():
    _MODULE_OF.update(dict.fromkeys(_names, _module))

__all__ = [
    "FSM",
    "AsyncConversation",
    "AsyncLLMStateMachine",
    "AsyncMachine",
    "BaseLLMClient",
    "Choice",
    "ConfigurationError",
    "Conversation",
    "ConversationConflict",
    "ConversationEnded",
    "ConversationError",
    "ConversationNotFound",
    "Definition",
    "DefinitionError",
    "Delivery",
    "ExecutionBreak",
    "Finding",
    "Handler",
    "HandlerError",
    "LLMFSMError",
    "LLMMessage",
    "LLMRequest",
    "LLMStateMachine",
    "Machine",
    "Message",
    "ModelError",
    "ModelReply",
    "Occasion",
    "Paused",
    "PersistentMemory",
    "RefinementFailed",
    "ReplyError",
    "StoreError",
    "ToolRegistry",
    "ToolType",
    "Turn",
    "Usage",
    "Veto",
    "__version__",
    "check",
    "create_custom_summarizer",
    "create_handler",
    "create_llm_client",
    "enable_logging",
    "generate_orchestrator_guide",
    "get_global_registry",
    "load",
    "observe",
    "pick",
    "register_llm_client",
    "register_tool",
    "sink",
    "tools_to_google_ai_schema",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # imported objects stay, and garbage collection would cost a tenth of the time
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
