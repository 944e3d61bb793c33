"""Tools for state machines in Python, registered by a decorator for one state or for all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, TypeVar

from llm_fsm.tools.registry import ToolRegistry

F = TypeVar("F", bound=Callable[..., Any])

_registry = ToolRegistry()


class ToolType(Enum):
    """The ways to call a tool. BREAKING ends the run after its batch, until it gets an answer."""

    SYNC = "sync"
    ASYNC = "async"
    BREAKING = "breaking"


def get_global_registry() -> ToolRegistry:
    """Return the tools of `register_tool`, which all machines without their own registry use.

    Returns:
        The registry.
    """
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
        description: Its description, for the model; None takes the docstring.
        tool_type: The way to call it. An async function is awaited with any type.
        state_scope: The state, or states, in which it may be called; None: all.
        name: The name by which a model calls it; None takes the function's.
        registry: The registry that keeps it; None: the one of all machines.
        options: Further options of `ToolRegistry.register`, such as `timeout`.

    Returns:
        A decorator that registers the function and returns it.

    Raises:
        ValueError: Another function has the name, or a parameter has no JSON Schema.
    """
    scope = [state_scope] if isinstance(state_scope, str) else state_scope
    breaking = tool_type is ToolType.BREAKING
    kept = _registry if registry is None else registry
    return kept.register(
        name=name, description=description, scope=scope, breaking=breaking, **options
    )
