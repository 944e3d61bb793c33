"""State machines as Python classes, on python-statemachine, whose states ask models and tools.

You write a class. Each run of a state's body is a run of the engine, on record and resumable. Open
`machine.py` first. `memory.py` holds the machine's memory, and `tools.py` has the decorator for its
tools. `refinement.py` tries again until an output is good. `summaries.py` makes summaries with your
own prompt.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llm_fsm.llm.clients.base import BaseLLMClient, create_llm_client, register_llm_client
from llm_fsm.llm.clients.messages import LLMResponse, Message, ToolCall
from llm_fsm.statechart.memory import (
    BackgroundContext,
    PersistentMemory,
    StateHistory,
    WorkingMemory,
)
from llm_fsm.statechart.refinement import RefinementFailed
from llm_fsm.statechart.summaries import HistorySummarizer, create_custom_summarizer
from llm_fsm.statechart.tools import ToolType, get_global_registry, register_tool
from llm_fsm.workflow.errors import ExecutionBreak

if TYPE_CHECKING:
    from llm_fsm.statechart.machine import AsyncLLMStateMachine, LLMStateMachine

__all__ = [
    "AsyncLLMStateMachine",
    "BackgroundContext",
    "BaseLLMClient",
    "ExecutionBreak",
    "HistorySummarizer",
    "LLMResponse",
    "LLMStateMachine",
    "Message",
    "PersistentMemory",
    "RefinementFailed",
    "StateHistory",
    "ToolCall",
    "ToolType",
    "WorkingMemory",
    "create_custom_summarizer",
    "create_llm_client",
    "get_global_registry",
    "register_llm_client",
    "register_tool",
]


def __getattr__(name: str) -> Any:
    if name in ("AsyncLLMStateMachine", "LLMStateMachine"):  # python-statemachine is an extra
        return getattr(import_module("llm_fsm.statechart.machine"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
