"""Tools of a workflow's states: plain functions, or a `ToolSpec` that says more about one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.session.messages import ToolSpec as EngineSpec
from llm_fsm.tools.formats import to_openai
from llm_fsm.tools.registry import Tool, ToolRegistry, make_tool
from llm_fsm.tools.returns import check_returns
from llm_fsm.tools.schema import any_parameters
from llm_fsm.turn.tool_policy import ToolPolicy
from llm_fsm.workflow.errors import ExecutionBreak, WaitForInput

__all__ = ["ToolRegistry", "ToolSpec", "read_tool"]


@dataclass
class ToolSpec:
    """A tool with your own schema.

    Attributes:
        name: The name by which a model calls it.
        description: Its description, for the model.
        parameters: The JSON Schema of its arguments.
        func: The function.
        is_breaking: True ends the run after the batch that calls it, until it gets an answer.
        is_waiting: The same, raised as `WaitForInput`, for a question to the user.
    """

    name: str
    description: str
    parameters: JsonMap
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
        """Read name, description and parameters from a function.

        Args:
            func: The function.
            name: The name by which a model calls it; None takes the function's own.
            description: Its description; None takes the docstring.
            is_breaking: True ends the run after the batch that calls it.
            is_waiting: The same, raised as `WaitForInput`.

        Returns:
            The tool.

        Raises:
            ValueError: A parameter has no JSON Schema.
        """
        spec = make_tool(func, name=name, description=description).spec
        return cls(
            spec.name,
            spec.description or spec.name,
            dict(spec.parameters),
            func,
            is_breaking,
            is_waiting,
        )

    def to_openai_schema(self) -> JsonDict:
        """Return the tool in the form of chat completions.

        Returns:
            {"type": "function", "function": {…}}.
        """
        return to_openai(
            EngineSpec(name=self.name, description=self.description, parameters=self.parameters)
        )

    def execute(self, arguments: JsonMap) -> Any:
        """Call the function.

        Args:
            arguments: Its arguments, by name.

        Returns:
            The result of the function.

        Raises:
            ExecutionBreak: The tool is breaking.
            WaitForInput: The tool waits for the user.
        """
        result = self.func(**arguments)
        if self.is_waiting:
            raise WaitForInput(self.name, result)
        if self.is_breaking:
            raise ExecutionBreak(self.name, result)
        return result


def read_tool(given: Any) -> Tool:
    """Make a tool of the engine from a function, a `ToolSpec` or a tool.

    Raises:
        ValueError: It cannot be a tool.
    """
    if isinstance(given, Tool):
        return given
    if not isinstance(given, ToolSpec):
        return make_tool(given)
    check_returns(given.func, f"tool {given.name!r}")
    spec = EngineSpec(name=given.name, description=given.description, parameters=given.parameters)
    breaking = given.is_breaking or given.is_waiting
    policy = ToolPolicy(spec=spec, registered=given.name, breaking=breaking)
    return Tool(function=given.func, parameters=any_parameters(given.parameters), policy=policy)
