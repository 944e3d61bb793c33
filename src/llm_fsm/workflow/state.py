"""A state of a workflow, and the key results that its output must bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_fsm._json import JsonMap

if TYPE_CHECKING:
    from llm_fsm.workflow.context import ExecutionContext

Check: TypeAlias = Callable[[Any], Any] | JsonMap
"""A function of the output, or JsonLogic over {output, context, input}."""


@dataclass
class KeyResult:
    """A condition that must be true of a state's output.

    Attributes:
        name: A short name, unique within the state.
        description: The condition, in plain language.
        check: A function or rule that checks it. None: a model judges the description. Without a
            model, the key result has not passed.
    """

    name: str
    description: str = ""
    check: Check | None = None


@dataclass
class StateSpec:
    """One state of a workflow.

    Attributes:
        name: Any text, unique within the workflow.
        objective: The objective of the state.
        key_results: Conditions of its output, which must pass before the workflow continues.
        execute: A plain or async function that does the work. None: the output is the input.
            `run_objective`: a model works on the objective with the tools.
        tools: Functions, or `ToolSpec`s, that a model may call only in this state.
        max_retries: The number of retries after a failed attempt.
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
    """Mark a state without a function: a model works on the objective with the state's tools. It is
    never called.

    Args:
        ctx: The context of the state's function.

    Returns:
        Nothing, because it always raises.

    Raises:
        TypeError: It is called.
    """
    raise TypeError("run_objective is given to StateSpec(execute=…); it is not called")
