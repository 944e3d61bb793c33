"""The machine that runs a definition with its functions and model, for sync and for async callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from llm_fsm._async import is_async
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.sync import Machine
from llm_fsm.errors import LLMFSMError
from llm_fsm.llm.clients.bridge import ClientModel
from llm_fsm.session.messages import LLMRequest
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.registry import Tool, ToolRegistry
from llm_fsm.tools.task_context import Break, RunLimit, Workbench
from llm_fsm.tools.task_functions import Function
from llm_fsm.turn.tool_results import ResultFault, result_value
from llm_fsm.workflow.bound_llm import text_of
from llm_fsm.workflow.errors import ExecutionBreak, OwnError, WorkflowError

CALL_SECONDS = 600.0
"""Longest time of one call of a model."""

LIMITS = {"auto_steps": 1000, "llm_calls": 1000, "tool_calls": 1000}
"""Limits of one step of a run."""


class Host:
    """The machines of one definition; each is made on first use.

    Args:
        document: The definition as JSON data.
        functions: The functions that it names.
        tools: The tools that it names.
        model: Returns the client that answers a request.
        store: A URL or a store; sync and async callers share it.
        options: Further options of a machine.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        functions: Mapping[str, Function],
        tools: ToolRegistry,
        model: Callable[[LLMRequest], Any],
        store: Any,
        **options: Any,
    ) -> None:
        self.document = document
        self.functions = functions
        self._options = {"tools": tools, "model": ClientModel(model), "timeout": CALL_SECONDS, **options}
        self._store = resolve_store(store)
        self._sync: Machine | None = None
        self._async: AsyncMachine | None = None

    @property
    def machine(self) -> Machine:
        """The machine for callers without an event loop."""
        if self._sync is None:
            self._sync = Machine.from_dict(self.document, store=self._store, **self._options)
            self._register(self._sync)
        return self._sync

    @property
    def async_machine(self) -> AsyncMachine:
        """The machine for callers in an event loop."""
        if self._async is None:
            self._async = AsyncMachine.from_dict(self.document, store=self._store, **self._options)
            self._register(self._async)
        return self._async

    def _register(self, machine: Machine | AsyncMachine) -> None:
        for name, function in self.functions.items():
            machine.function(function, name=name)


def run_once(adapter: Any, tools: Sequence[Tool], execute: Callable[[Any], None]) -> None:
    """Run one task on a machine that is made for it.

    Raises:
        ExecutionBreak: The task waits for an answer.
        Exception: `execute` raised this error.
    """
    state = {"kind": "task", "execute": "execute", "max_retries": 0, "tools": [tool.name for tool in tools]}
    named = {tool.name: {"registered": tool.name} for tool in tools}
    document = {"name": "once", "initial_state": "once", "tools": named, "limits": LIMITS, "states": {"once": state}}

    def body(ctx: Workbench) -> None:
        execute(ctx.llm)

    functions = {"execute": task_function(body, None, "once")}
    with Host(document, functions, ToolRegistry(tools), lambda _request: adapter, "memory").machine as machine:
        try:
            turn = machine.run()
        except OwnError as error:
            raise error.error from error.error.__cause__
    if turn.paused is not None:
        call = dict(turn.paused.call or {})
        raise ExecutionBreak(turn.paused.what, call.get("result"), call=call or None)


def task_function(body: Callable[[Workbench], Any], work: Function | None, state: str) -> Function:
    """Return a function for `execute` around a body of the host.

    Its own exceptions pass through the engine as `OwnError`, and its output must be JSON. `work` is the host's own
    function, which shows if the body is async.
    """

    def settled(ctx: Workbench, output: Any) -> Any:
        if ctx.broke is not None:
            raise ctx.broke
        try:
            return result_value(text_of(output))
        except ResultFault as fault:
            raise OwnError(WorkflowError(f"state {state!r}: the output cannot be kept: {fault}")) from fault

    def failed(ctx: Workbench, error: Exception) -> BaseException:
        if ctx.broke is not None:
            return ctx.broke
        return error if isinstance(error, LLMFSMError | Break | RunLimit) else OwnError(_outer(error, state))

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
    found = ExecutionBreak(error.tool_name, error.result, state=state, call=error.call, resumable=False, message=said)
    found.__cause__ = error
    return found
