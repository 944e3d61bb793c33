"""Tools: the host's own functions, which a model may call by their schemas.

A tool is any plain or async function with type hints. Every failure of a call becomes a result with
an `error` for the model, from wrong arguments to a time-out. No tool can make a turn fail.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

from llm_fsm._async import is_async
from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.session.meant import meant_name
from llm_fsm.session.messages import ToolSpec
from llm_fsm.tools.executor import CallFault, called, out_of_scope, unknown_tool
from llm_fsm.tools.formats import Format, formatted
from llm_fsm.tools.returns import Function, check_ran, check_returns
from llm_fsm.tools.schema import CallInfo, Parameters, name_of, read_parameters
from llm_fsm.turn.effects import PlannedCall
from llm_fsm.turn.tool_arguments import ArgumentsFault
from llm_fsm.turn.tool_policy import ToolPolicy
from llm_fsm.turn.tool_results import tool_result

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every provider accepts."""

F = TypeVar("F", bound=Function)


class UnknownTool(KeyError, ValueError):
    """No tool has this name. The message names the most similar one."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model may call.

    Attributes:
        function: The function.
        parameters: Its parameters, read from its type hints.
        policy: The host's policy for it. A definition may change that.
    """

    function: Function
    parameters: Parameters
    policy: ToolPolicy

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self.policy.name

    @property
    def spec(self) -> ToolSpec:
        """The name, description and schema that a model reads."""
        return self.policy.spec


def make_tool(
    function: Function,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    parallel: bool = False,
    breaking: bool = False,
    approval: bool = False,
    at_most_once: bool = False,
    scope: Collection[str] | None = None,
    acts: bool = False,
    binds: TextMap | None = None,
    free: Collection[str] = (),
) -> Tool:
    """Make a tool of a function.

    Args:
        function: A plain or async function with type hints.
        name: Its name for the model; None takes the function's own.
        description: Its description; None takes the docstring.
        timeout: Seconds that a call may take; None: 60.
        parallel: True lets it run beside its neighbours in a batch.
        breaking: True stops the run after the batch that calls it.
        approval: True asks a person before each call.
        at_most_once: True never calls it again if the outcome of a call is unknown.
        scope: States in which it may be called; None: all.
        acts: True says that it changes the world outside. A call must keep to what the user agreed
            to.
        binds: Argument to the key that the user agrees to; None: each has the name of its key.
        free: Arguments that nobody agrees to.

    Returns:
        The tool.

    Raises:
        ValueError: The name or a setting is wrong, or a parameter has no JSON Schema.
    """
    if not callable(function):
        raise ValueError(f"a tool is a function, not a {type(function).__name__}")
    known = name_of(function) if name is None else name
    if not NAME.fullmatch(known):
        raise ValueError(
            f"{known!r} is no name for a tool: give name=, of 1 to 64 letters, digits, _ and -"
        )
    if isinstance(scope, str):
        raise ValueError(f"tool {known!r}: scope is a list of states; write [{scope!r}]")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"tool {known!r}: timeout is a number of seconds above 0, not {timeout!r}")
    check_returns(function, f"tool {known!r}")
    parameters = read_parameters(function)
    words = inspect.getdoc(function) if inspect.isroutine(function) else None
    text = (words or "") if description is None else description
    policy = ToolPolicy(
        spec=ToolSpec(name=known, description=text.strip(), parameters=parameters.schema),
        registered=known,
        breaking=breaking,
        approval=approval,
        at_most_once=at_most_once,
        parallel=parallel,
        timeout=timeout,
        scope=None if scope is None else tuple(scope),
        acts=acts,
        binds=binds or {},
        free=tuple(free),
        fits=parameters.fault,
    )
    return Tool(function=function, parameters=parameters, policy=policy)


class ToolRegistry:
    """The tools of one host, by name.

    Args:
        tools: Functions, tools, or another registry.

    Raises:
        ValueError: Two tools have the same name, or a function cannot be a tool.
    """

    def __init__(self, tools: Iterable[Function | Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            self.add(item)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._tools)!r})"

    def add(self, item: Function | Tool) -> Tool:
        """Register a tool, or a function as it is.

        Args:
            item: The tool or function.

        Returns:
            The tool.

        Raises:
            ValueError: Another tool has the name, or the function cannot be a tool.
        """
        tool = item if isinstance(item, Tool) else make_tool(item)
        old = self._tools.get(tool.name)
        if old is not None and old != tool and not _defined_again(old.function, tool.function):
            raise ValueError(f"there is a tool {tool.name!r} already; give this one another name=")
        self._tools[tool.name] = tool
        return tool

    @overload
    def register(self, function: F, /) -> F: ...

    @overload
    def register(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...

    @overload
    def register(self, function: F, /, **options: Any) -> F: ...

    def register(self, function: Function | None = None, /, **options: Any) -> Any:
        """Register a function, as a call or as a decorator.

        Args:
            function: The function; None returns a decorator.
            options: The options of `make_tool`.

        Returns:
            The function itself.

        Raises:
            ValueError: Another tool has the name, or the function cannot be a tool.

        Example:
            >>> registry = ToolRegistry()
            >>> @registry.register(name="sum", timeout=5)
            ... def add(a: int, b: int = 1) -> int:
            ...     "Add two numbers."
            ...     return a + b
            >>> registry.execute("sum", a="40", b=2)
            42
        """
        if function is None:
            return partial(self.register, **options)
        if "is_breaking" in options:  # the word of workflows
            options["breaking"] = options.pop("is_breaking")
        self.add(make_tool(function, **options))
        return function

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of a name.

        Args:
            name: The name under which it is registered.

        Returns:
            The tool; None if there is none.
        """
        return self._tools.get(name)

    def specs(self, state: str | None = None) -> tuple[ToolSpec, ...]:
        """Return names, descriptions and schemas, as a model reads them.

        Args:
            state: Only tools that may be called in this state; None: all.

        Returns:
            One spec for each tool.
        """
        return tuple(tool.spec for tool in self if state is None or tool.policy.usable_in(state))

    def schemas(self, form: Format = "openai", state: str | None = None) -> list[JsonDict]:
        """Return the tools as the `tools` parameter of a provider's API.

        Args:
            form: `openai`, `anthropic` or `google`.
            state: Only tools that may be called in this state; None: all.

        Returns:
            JSON data in the provider's form.

        Raises:
            ValueError: There is no such form.
        """
        return formatted(self.specs(state), form)

    def list_tools(self) -> list[Tool]:
        """Return the tools.

        Returns:
            The tools, in the order of their registration.
        """
        return list(self)

    def to_openai_schemas(self) -> list[JsonDict]:
        """Return the tools as chat completions take them.

        Returns:
            One {"type": "function", "function": {…}} for each tool.
        """
        return self.schemas("openai")

    def get_tools(self) -> list[Function]:
        """Return the registered functions.

        Returns:
            The functions, in the order of their registration.
        """
        return [tool.function for tool in self]

    def get_tool_schemas(self, format: Format = "openai") -> list[JsonDict]:
        """Return the tools as a provider's API takes them.

        Args:
            format: `openai`, `anthropic` or `google`.

        Returns:
            JSON data in the provider's form.

        Raises:
            ValueError: There is no such format.
        """
        return self.schemas(format)

    def execute(self, name: str, arguments: JsonMap | None = None, /, **named: Any) -> Any:
        """Call a tool with arguments that are checked and coerced by its type hints.

        An async tool is run to its end. Inside a running event loop, its coroutine is returned for
        you to await.

        Args:
            name: The name of the tool.
            arguments: Its arguments, as a model gives them.
            named: Arguments as keywords. They replace those of the same name in `arguments`.

        Returns:
            The result of the function, unchanged.

        Raises:
            UnknownTool: There is no tool of this name.
            ValueError: The arguments do not fit. The message names each wrong one.
            Exception: The function raised this error.
        """
        tool = self._tools.get(meant_name(name, self._tools) or name)
        if tool is None:
            raise UnknownTool(unknown_tool(name, self._tools))
        given = {**(arguments or {}), **named}
        try:
            positional, keywords = tool.parameters.bind(given, CallInfo())
        except ArgumentsFault as fault:
            raise ValueError(f"{name}: {fault}") from fault
        result = tool.function(*positional, **keywords)
        if not inspect.isawaitable(result):
            return result
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(_waited(result))
        return result

    async def perform(self, call: PlannedCall, info: CallInfo, limit: float) -> Any:
        """Perform one planned call.

        Args:
            call: The call.
            info: The data of the call that the tool may read.
            limit: Seconds that it may take.

        Returns:
            The result as JSON. Text replaces parts without a JSON form.

        Raises:
            CallFault: The name is not registered or out of scope, or the time is over.
            ArgumentsFault: The arguments do not fit.
            Exception: The function raised this error.
        """
        name = call.registered or call.name
        tool = self._tools.get(name)
        if tool is None:
            raise CallFault(unknown_tool(name, self._tools), refused=True)
        if call.scope is None and not tool.policy.usable_in(info.state):
            raise CallFault(out_of_scope(call.name, info.state, tool.policy.scope), refused=True)
        arguments, named = tool.parameters.bind(call.arguments, info)
        function = partial(tool.function, *arguments, **named)
        thread = f"llm_fsm tool {name}"
        if is_async(tool.function):
            return _result(await called(limit, function, thread))
        return await called(limit, partial(_plain, function), thread)


def _defined_again(old: Function, new: Function) -> bool:
    """Return true for the same function, also if a notebook cell or module ran again."""
    if old is new:
        return True
    code = getattr(new, "__code__", None)
    place = (getattr(new, "__module__", None), getattr(new, "__qualname__", ""))
    if code is None or place != (
        getattr(old, "__module__", None),
        getattr(old, "__qualname__", ""),
    ):
        return False
    if inspect.ismethod(old) or inspect.ismethod(new):
        return bool(old == new)
    if "<locals>" not in place[1]:
        return True
    cells = [[cell.cell_contents for cell in one.__closure__ or ()] for one in (old, new)]
    return getattr(old, "__code__", None) is code and cells[0] == cells[1]


async def _waited(value: Awaitable[Any]) -> Any:
    return await value


def _plain(function: Function) -> Any:
    """Call a plain function, and make its result JSON in the same thread."""
    value = function()
    return _read(value) if inspect.isawaitable(value) else _result(value)


async def _read(value: Awaitable[Any]) -> Any:
    return _result(await value)


def _result(value: object) -> Any:
    """Return the result of a call as JSON. Raises CallFault if the call has done nothing yet."""
    try:
        check_ran(value, "the tool")
    except ValueError as error:
        raise CallFault(str(error)) from error
    return tool_result(value)
