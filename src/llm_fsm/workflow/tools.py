"""Tools of a workflow's states: plain functions, or a `ToolSpec` that says more of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from llm_fsm.session.messages import ToolSpec as EngineSpec
from llm_fsm.tools.registry import Tool, ToolRegistry, make_tool
from llm_fsm.tools.schema import any_parameters
from llm_fsm.turn.prompt.tool_formats import to_openai
from llm_fsm.turn.tool_policy import ToolPolicy
from llm_fsm.workflow.errors import ExecutionBreak, WaitForInput

__all__ = ["ToolRegistry", "ToolSpec", "read_tool"]


@dataclass
class ToolSpec:
    """A tool with a schema of your own.

    Args:
        name: The name by which a model calls it.
        description: What it does, for the model.
        parameters: The JSON Schema of its arguments.
        func: The function.
        is_breaking: A call ends the run after its batch, until somebody answers.
        is_waiting: The same, raised as `WaitForInput`: the user is asked.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    func: Callable[..., Any]
    is_breaking: bool = False
    is_waiting: bool = False

    @classmethod
    def from_callable(
        cls,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        is_breaking: bool = False,
        is_waiting: bool = False,
    ) -> Self:
        """Read name, description and parameters from a function. Raises ValueError for one that has no schema."""
        spec = make_tool(func, name=name, description=description).spec
        return cls(spec.name, spec.description or spec.name, dict(spec.parameters), func, is_breaking, is_waiting)

    def to_openai_schema(self) -> dict[str, Any]:
        """Return the tool as chat completions take it."""
        return to_openai(EngineSpec(name=self.name, description=self.description, parameters=self.parameters))

    def execute(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function. Raises ExecutionBreak or WaitForInput after a call that ends the run."""
        result = self.func(**arguments)
        if self.is_waiting:
            raise WaitForInput(self.name, result)
        if self.is_breaking:
            raise ExecutionBreak(self.name, result)
        return result


def read_tool(given: Any) -> Tool:
    """Return a tool of the engine made of a function, a `ToolSpec` or a tool. Raises ValueError."""
    if isinstance(given, Tool):
        return given
    if not isinstance(given, ToolSpec):
        return make_tool(given)
    spec = EngineSpec(name=given.name, description=given.description, parameters=given.parameters)
    breaking = given.is_breaking or given.is_waiting
    policy = ToolPolicy(spec=spec, registered=given.name, breaking=breaking)
    return Tool(function=given.func, parameters=any_parameters(given.parameters), policy=policy)
