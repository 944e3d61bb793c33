"""Tools for state machines in Python, registered by a decorator for one state or for all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, TypeVar

from llm_fsm.tools.registry import ToolRegistry, make_tool

F = TypeVar("F", bound=Callable[..., Any])

_registry = ToolRegistry()


class ToolType(Enum):
    """The ways to call a tool. BREAKING: the run ends after its batch, and goes on with an answer."""

    SYNC = "sync"
    ASYNC = "async"
    BREAKING = "breaking"


def get_global_registry() -> ToolRegistry:
    """Return the tools that `register_tool` keeps: those of machines that were given no registry."""
    return _registry


def register_tool(
    description: str | None = None,
    tool_type: ToolType = ToolType.SYNC,
    state_scope: str | Collection[str] | None = None,
    *,
    name: str | None = None,
    registry: ToolRegistry | None = None,
    **options: Any,
) -> Callable[[F], F]:
    """Decorate a function as a tool.

    Args:
        description: What it does, for the model; None takes the docstring.
        tool_type: How it is called. An async function is awaited whatever this says.
        state_scope: The state, or states, in which it may be called; None: in all.
        name: The name by which a model calls it; None takes the function's.
        registry: Where it is kept; None: with the tools of all machines.
        options: Further options of `ToolRegistry.register`, such as `timeout`.

    Raises:
        ValueError: Another function has the name, or no schema can be made of the parameters.
    """
    scope = [state_scope] if isinstance(state_scope, str) else state_scope
    breaking = tool_type is ToolType.BREAKING
    kept = _registry if registry is None else registry

    def register(function: F) -> F:
        kept.add(make_tool(function, name=name, description=description, scope=scope, breaking=breaking, **options))
        return function

    return register
