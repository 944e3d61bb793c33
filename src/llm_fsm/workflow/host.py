"""The machine that runs a definition with its functions and model, for sync and for async callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from llm_fsm._async import in_thread, is_async
from llm_fsm._json import JsonMap
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.sync import Machine
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.clients.bridge import ClientModel
from llm_fsm.llm.clients.messages import text_of
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.registry import Tool, ToolRegistry
from llm_fsm.tools.returns import Function
from llm_fsm.tools.task_context import Break, Question, RunLimit, SyncModel, Workbench
from llm_fsm.turn.tool_results import ResultFault, output_value
from llm_fsm.workflow.errors import ExecutionBreak, OwnError, WorkflowError

T = TypeVar("T")
M = TypeVar("M", Machine, AsyncMachine)
Work: TypeAlias = Callable[[AsyncMachine], Coroutine[Any, Any, T]]

CALL_SECONDS = 600.0
"""Longest time of one call of a model."""

LIMITS = {"auto_steps": 1000, "llm_calls": 1000, "tool_calls": 1000}
"""Limits of one step of a run."""


class WorkflowHost:
    """Runs one definition for callers with and without an event loop. Each kind has its own
    machine, made on first use.

    `functions` and `model` must not refer to the object that holds the host, but by a weak
    reference. Then the machines are closed as soon as that object is dropped.

    Args:
        document: The definition as JSON data.
        functions: The functions that it names.
        tools: The tools that it names.
        model: Returns the client that answers a request.
        store: A URL or a store; both machines share it.
        options: Further options of a machine.
    """

    def __init__(
        self,
        document: JsonMap,
        functions: Mapping[str, Function],
        tools: ToolRegistry,
        model: Callable[[LLMRequest], Any],
        store: Any,
        **options: Any,
    ) -> None:
        self._document = document
        self._functions = functions
        self._options = {
            "tools": tools,
            "model": ClientModel(model),
            "timeout": CALL_SECONDS,
            **options,
        }
        self._options["store"] = resolve_store(store)

    def wait(self, work: Work[T]) -> T:
        """Do work with the machine, for a caller without an event loop. The exceptions of its
        functions are raised.
        """
        machine = self._sync
        try:
            return machine._portal.run(work(machine._machine))
        except OwnError as error:
            raise error.error from error.error.__cause__

    async def do(self, work: Work[T]) -> T:
        """Do the same in the caller's event loop."""
        try:
            return await work(self._async)
        except OwnError as error:
            raise error.error from error.error.__cause__

    def close(self) -> None:
        """Close the machine for callers without an event loop; see `Machine.close`."""
        if "_sync" in self.__dict__:
            self._sync.close()

    async def aclose(self) -> None:
        """Close both machines, in an event loop."""
        if "_async" in self.__dict__:
            await self._async.close()
        if "_sync" in self.__dict__:
            await in_thread(self._sync.close, "llm_fsm close")

    @cached_property
    def _sync(self) -> Machine:
        return self._registered(Machine.from_dict(self._document, **self._options))

    @cached_property
    def _async(self) -> AsyncMachine:
        return self._registered(AsyncMachine.from_dict(self._document, **self._options))

    def _registered(self, machine: M) -> M:
        for name, function in self._functions.items():
            machine.function(function, name=name)
        return machine


def ask_alone(adapter: Any, tools: Sequence[Tool], question: Question) -> ModelReply:
    """Ask a model outside of a workflow, in a run of one state.

    Raises:
        ExecutionBreak: A tool waits for an answer.
        ModelError: The model failed.
    """
    state = {
        "kind": "task",
        "execute": "execute",
        "max_retries": 0,
        "tools": [tool.name for tool in tools],
    }
    named = {tool.name: {"registered": tool.name} for tool in tools}
    document = {
        "name": "once",
        "initial_state": "once",
        "tools": named,
        "limits": LIMITS,
        "states": {"once": state},
    }
    found: list[ModelReply] = []

    def body(ctx: Workbench) -> None:
        assert isinstance(ctx.llm, SyncModel)
        found.append(ctx.llm.ask(question))

    functions = {"execute": task_function(body, None, "once")}
    host = WorkflowHost(
        document, functions, ToolRegistry(tools), lambda _request: adapter, "memory"
    )
    try:
        turn = host.wait(lambda machine: machine.run())
    finally:
        host.close()
    if turn.paused is not None:
        raise ExecutionBreak.of(turn.paused.what, turn.paused.call)
    return found[0]


def task_function(body: Callable[[Workbench], Any], work: Function | None, state: str) -> Function:
    """Return a function for `execute` around a body of the host.

    Its own exceptions pass through the engine as `OwnError`, and its output must be JSON. `work` is
    the host's own function, which shows if the body is async.
    """

    def settled(ctx: Workbench, output: Any) -> Any:
        if ctx.broke is not None:
            raise ctx.broke
        try:
            return output_value(text_of(output))
        except ResultFault as fault:
            raise OwnError(
                WorkflowError(f"state {state!r}: the output cannot be kept: {fault}")
            ) from fault

    def failed(ctx: Workbench, error: Exception) -> BaseException:
        if ctx.broke is not None:
            return ctx.broke
        return (
            error
            if isinstance(error, LLMFSMError | Break | RunLimit)
            else OwnError(_outer(error, state))
        )

    def plain(ctx: Workbench) -> Any:
        try:
            output = body(ctx)
        except Exception as error:
            raise failed(ctx, error) from error
        return settled(ctx, output)

    async def awaited(ctx: Workbench) -> Any:
        try:
            output = body(ctx)
            output = await output if isinstance(output, Awaitable) else output
        except Exception as error:
            raise failed(ctx, error) from error
        return settled(ctx, output)

    return awaited if work is not None and is_async(work) else plain


def _outer(error: Exception, state: str) -> Exception:
    """Mark the break of an inner machine as not resumable; return any other error unchanged."""
    if not isinstance(error, ExecutionBreak) or not error.resumable:
        return error
    said = (
        f"a machine inside state {state!r} waits for an answer to {error.tool_name!r} in its state {error.state!r}; "
        "this cannot be resumed from outside: save the memory of the machine inside, and answer there"
    )
    found = ExecutionBreak(
        error.tool_name, error.result, state=state, call=error.call, resumable=False, message=said
    )
    found.__cause__ = error
    return found
