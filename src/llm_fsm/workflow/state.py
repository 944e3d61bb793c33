"""A state of a workflow, and the key results that it must bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from llm_fsm.workflow.context import ExecutionContext

Check: TypeAlias = Callable[[Any], Any] | Mapping[str, Any]
"""A function of the output, or JsonLogic over {output, context, input}."""


@dataclass
class KeyResult:
    """A condition that must be true of a state's output.

    Args:
        name: A short name, unique within the state.
        description: What must be true, in words.
        check: Tells it by code. None: a model judges the description; without a model it has not passed.
    """

    name: str
    description: str = ""
    check: Check | None = None


@dataclass
class StateSpec:
    """One state of a workflow.

    Args:
        name: Any text, unique within the workflow.
        objective: What the state is to achieve.
        key_results: What its output must bring before the workflow goes on.
        execute: Does the work, plain or async. None: the output is the input. `run_objective`: a model works on the
            objective with the tools.
        tools: Functions, or `ToolSpec`s, that a model may call in this state and in no other.
        max_retries: A failed state is tried this many times more.
        is_initial: The workflow begins here.
        is_final: The workflow ends here.
    """

    name: str
    objective: str = ""
    key_results: Sequence[KeyResult] = field(default_factory=list)
    execute: Callable[[ExecutionContext], Any] | None = None
    tools: Sequence[Any] = field(default_factory=list)
    max_retries: int = 3
    is_initial: bool = False
    is_final: bool = False


def run_objective(ctx: ExecutionContext) -> Any:  # noqa: ARG001
    """Stand for no function: a model works on the objective with the state's tools. It is never called."""
    raise TypeError("run_objective is given to StateSpec(execute=…); it is not called")
