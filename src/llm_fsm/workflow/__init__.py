"""Workflows in Python whose states prove their work before the next one begins.

You write states and transitions. `compile.py` turns them into a definition of tasks, and
`workflow.py` runs it on the engine. `state.py` and `context.py` have the values that you write and
read. `schema.py` reads and writes JSON and Python. `ooda.py` is a loop over a state's model. Open
`workflow.py` first.
"""

from llm_fsm.workflow.bound_llm import BoundLLM
from llm_fsm.workflow.context import ExecutionContext, SharedContext, StateOutput, WorkflowContext
from llm_fsm.workflow.errors import ExecutionBreak, MaxRetriesExceeded, WaitForInput, WorkflowError
from llm_fsm.workflow.llm.adapter import LLMAdapter, LLMResponse, Message
from llm_fsm.workflow.llm.adapter import ToolCall as LLMToolCall
from llm_fsm.workflow.llm.litellm import LiteLLMAdapter
from llm_fsm.workflow.llm.openai import OpenAIAdapter
from llm_fsm.workflow.ooda import create_ooda_agent, run_ooda
from llm_fsm.workflow.schema import (
    validate_workflow_json,
    workflow_from_json,
    workflow_to_json,
    workflow_to_python,
)
from llm_fsm.workflow.state import KeyResult, StateSpec, run_objective
from llm_fsm.workflow.tools import ToolRegistry, ToolSpec
from llm_fsm.workflow.validation import LLMValidator, RuleValidator, ValidationResult, Validator
from llm_fsm.workflow.workflow import Workflow

__all__ = [
    "BoundLLM",
    "ExecutionBreak",
    "ExecutionContext",
    "KeyResult",
    "LLMAdapter",
    "LLMResponse",
    "LLMToolCall",
    "LLMValidator",
    "LiteLLMAdapter",
    "MaxRetriesExceeded",
    "Message",
    "OpenAIAdapter",
    "RuleValidator",
    "SharedContext",
    "StateOutput",
    "StateSpec",
    "ToolRegistry",
    "ToolSpec",
    "ValidationResult",
    "Validator",
    "WaitForInput",
    "Workflow",
    "WorkflowContext",
    "WorkflowError",
    "create_ooda_agent",
    "run_objective",
    "run_ooda",
    "validate_workflow_json",
    "workflow_from_json",
    "workflow_to_json",
    "workflow_to_python",
]
