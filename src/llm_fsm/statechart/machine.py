"""State machines as Python classes: python-statemachine moves between states, the engine runs what
a state does.

A method `on_enter_<state>` with a parameter `state_input` is the *body* of its state. Entering a
state runs no body; an event with `state_input=` does, and `execute_state`. Each run of a body is a
run of a task of the engine.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from typing import Any, ParamSpec, Self

from llm_fsm._async import is_async, played
from llm_fsm._json import JsonDict, JsonMap, TextMap, of_kind, without_none
from llm_fsm._text import suggestion
from llm_fsm.definition.names import ids_of
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConversationConflict, ModelError
from llm_fsm.llm.clients.base import needs
from llm_fsm.llm.clients.messages import AnyMessage, text_of
from llm_fsm.session import events as ev
from llm_fsm.session.memory import Memory
from llm_fsm.session.values import to_json_or_text
from llm_fsm.statechart.memory import PersistentMemory
from llm_fsm.statechart.refinement import judged, refine
from llm_fsm.statechart.tools import get_global_registry
from llm_fsm.stores.registry import resolve as resolve_store
from llm_fsm.tools.registry import ToolRegistry
from llm_fsm.tools.returns import Function, check_ran, check_returns, check_runs
from llm_fsm.tools.task_context import TaskMemory, Workbench
from llm_fsm.turn.tool_results import result_value
from llm_fsm.workflow.bound_llm import BoundLLM
from llm_fsm.workflow.compile import end_of
from llm_fsm.workflow.errors import ExecutionBreak, WorkflowError
from llm_fsm.workflow.host import LIMITS, WorkflowHost, task_function

try:
    _library: Any = import_module("statemachine")
except ImportError as error:
    raise needs("statemachine", "python-statemachine") from error

P = ParamSpec("P")
_PREFIX = "on_enter_"
_NOTHING: Any = object()
_run: ContextVar[_Run | None] = ContextVar("llm_fsm_run", default=None)


@dataclass
class _Run:
    """One run of a body."""

    machine: LLMStateMachine
    state: str
    llm: BoundLLM
    on_loop: bool


@dataclass
class _Asked:
    """One request to `execute_state`."""

    state: str
    given: Any
    raw: bool
    id: str
    resumes: JsonMap | None = None
    edits: JsonDict = field(default_factory=dict)
    returned: Any = None
    done: bool = False
    """True when the body has returned."""


class _Live(TaskMemory):
    """The memory of a machine, in the form that a run works on."""

    def __init__(self, memory: PersistentMemory, document: JsonMap) -> None:
        self._of = memory
        super().__init__(document)

    @property
    def _memory(self) -> Memory:
        return self._of.working_memory.buckets

    @_memory.setter
    def _memory(self, buckets: Memory) -> None:
        self._of.working_memory.buckets = buckets

    def load(self, document: JsonMap) -> None:
        """Replace everything by a JSON form."""
        super().load(document)
        self._of.background.take(document.get("background", {}))

    def to_dict(self) -> JsonDict:
        """Return the JSON form."""
        return _document(self._of)


def _document(memory: PersistentMemory) -> JsonDict:
    background = memory.background.to_engine()
    return {**memory.working_memory.to_dict(), **({"background": background} if background else {})}


class _RecordedClient:
    """The client of a machine inside a body, whose calls are on record. Async bodies await it."""

    def __init__(self, client: Any, llm: BoundLLM) -> None:
        self._client = client
        self._llm = llm

    def chat(
        self,
        messages: Sequence[AnyMessage],
        tools: list[JsonDict] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> Any:
        """Ask the model; the arguments are those of `BaseLLMClient.chat`.

        Raises:
            ModelError: The model failed.
        """
        return self._llm.chat(
            messages, tools=tools or [], temperature=temperature, max_tokens=max_tokens, **options
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Entered:
    """Records which states an event with `state_input` enters."""

    def __init__(self) -> None:
        self.states: list[tuple[str, Any]] = []

    def on_enter_state(self, state: Any, state_input: Any = _NOTHING) -> None:
        if state_input is not _NOTHING:
            self.states.append((state.id, state_input))

    def after_transition(self, target: Any, state_input: Any = _NOTHING) -> None:
        if state_input is not _NOTHING and not self.states:
            self.states.append((target.id, state_input))


class LLMStateMachine(_library.StateMachine):  # type: ignore[misc]
    """A state machine whose states ask models and tools.

    Args:
        llm_client: A client with `chat`, a model of the engine, or the name of one.
        memory: The memory to begin with; None: an empty one.
        tool_registry: Its tools; None takes those of `register_tool`.
        enable_summarization: True makes a summary and the to-do list after each body.
        max_refinement_retries: The number of retries of `run_with_refinement`.
        model: The model of python-statemachine that holds the current state.
        store: The URL or store that keeps the runs.
        options: Further arguments of python-statemachine's StateMachine.

    Raises:
        ConfigurationError: python-statemachine is not installed.

    Example:
        >>> from statemachine import State
        >>> class Greeter(LLMStateMachine):
        ...     idle = State(initial=True)
        ...     greeting = State(final=True)
        ...     start = idle.to(greeting)
        ...
        ...     def on_enter_greeting(self, state_input=None):
        ...         return f"Hello, {state_input}!"
        >>> Greeter(None, enable_summarization=False).start(state_input="Ada")
        'Hello, Ada!'
    """

    validate_trap_states = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if isinstance(value, _library.State) and (
                name in _RESERVED or hasattr(LLMStateMachine, name)
            ):
                raise _library.exceptions.InvalidDefinition(
                    f"{cls.__name__}: a state cannot be called {name!r}, which every machine has already; rename it"
                )
            if name.startswith(_PREFIX) and inspect.isfunction(value) and _takes_input(value):
                try:
                    check_returns(value, f"{cls.__name__}.{name}")
                except ValueError as error:
                    raise _library.exceptions.InvalidDefinition(str(error)) from error
                setattr(cls, name, _body(name.removeprefix(_PREFIX), value))

    def __init__(
        self,
        llm_client: Any = None,
        memory: PersistentMemory | None = None,
        tool_registry: ToolRegistry | None = None,
        enable_summarization: bool = True,
        max_refinement_retries: int = 3,
        *,
        model: Any = None,
        store: Any = "memory",
        **options: Any,
    ) -> None:
        self._client = llm_client
        self.memory = PersistentMemory() if memory is None else memory
        self.tool_registry = get_global_registry() if tool_registry is None else tool_registry
        self.enable_summarization = enable_summarization
        self.max_refinement_retries = max_refinement_retries
        self.last_turn: Turn | None = None
        self._summarizer: Callable[[Any], Any] | None = None
        self._store = resolve_store(store)
        self._hosts: dict[Any, WorkflowHost] = {}
        self._is_closed = False
        self._asked: dict[str, _Asked] = {}
        self._parked: dict[str, str] = {}
        self._depth = 0
        self._entered = _Entered()
        if model is None and "start_value" not in options and self.memory.pause is not None:
            model = _standing(self, self.memory.pause.get("configuration"))
        listeners = [*(options.pop("listeners", None) or ()), self._entered]
        super().__init__(model, listeners=listeners, **options)

    # -- the model

    @property
    def llm_client(self) -> Any:
        """The client. Inside a body, its calls are on record."""
        run = self._running()
        return self._client if run is None else _RecordedClient(self._client, run.llm)

    @llm_client.setter
    def llm_client(self, client: Any) -> None:
        self._client = client

    def _running(self) -> _Run | None:
        run = _run.get()
        return run if run is not None and run.machine is self else None

    def run_llm_with_tools(
        self, system_prompt: str, user_message: str, state_name: str, max_iterations: int = 10
    ) -> Any:
        """Ask the model until it answers without calling the tools of the state. Async bodies await
        it.

        Args:
            system_prompt: The instruction for the model.
            user_message: The input of the model.
            state_name: The state whose body this is.
            max_iterations: The most replies.

        Returns:
            The text of the last reply.

        Raises:
            RuntimeError: No body runs here, or the model still called tools in its last reply.
            ValueError: Another state's body runs here.
            ExecutionBreak: A tool ended the run. Do not catch it.
            ModelError: The model failed.
        """
        run = self._running()
        if run is None:
            raise RuntimeError(
                f"run_llm_with_tools is for bodies: run the state by execute_state({state_name!r}, state_input=…)"
            )
        if state_name != run.state:
            raise ValueError(
                f"the body of state {run.state!r} runs here, with its tools, not that of {state_name!r}"
            )
        return run.llm.run_with_tools(
            system_prompt, user_message, max_iterations=max_iterations, temperature=None
        )

    def tool_use(self) -> None:
        """Mark the use of tools in `state.to.itself(on="tool_use")`; it does nothing."""

    # -- refinement

    def run_with_refinement(
        self,
        state_name: str,
        objective: str,
        execution_func: Function,
        max_retries: int | None = None,
        throw_on_failure: bool = False,
        *,
        state_input: Any = None,
    ) -> Any:
        """Try until `validate_output` accepts an output.

        Args:
            state_name: The state, for readers of the code.
            objective: The objective of the output.
            execution_func: Makes an attempt. It takes `refinement_advice=`, None the first time.
            max_retries: The number of retries; None: the machine's.
            throw_on_failure: True raises if no attempt is accepted.
            state_input: The input of the state, for readers of the code.

        Returns:
            The accepted output, or else the best one.

        Raises:
            RefinementFailed: No attempt was accepted, and `throw_on_failure` is true.
        """
        del state_name, state_input
        check_runs(execution_func, "execution_func")
        retries = self.max_refinement_retries if max_retries is None else max_retries
        judge = partial(self.validate_output, objective)
        return played(refine(execution_func, judge, retries, throw=throw_on_failure))

    def validate_output(self, objective: str, output: Any, validation_llm: Any = None) -> Any:
        """Let a model judge an output. Override it to judge by your own code.

        Args:
            objective: The objective of the output.
            output: The output.
            validation_llm: The model that judges; None: the machine's client.

        Returns:
            (valid, advice).

        Raises:
            ModelError: The model failed.
        """
        return played(
            judged(validation_llm or self.llm_client, objective, output, self.memory.to_context(3))
        )

    # -- the end

    def close(self) -> None:
        """Close all connections and files, and end the threads of the machine.

        A machine that is dropped closes itself, and a `with` block closes one at its end. It does
        so also if an event of yours is called `close`. Closing twice does nothing.
        """
        self._close()

    async def aclose(self) -> None:
        """As `close`, in an event loop."""
        self._is_closed = True
        for host in self._hosts.values():
            await host.aclose()

    def _close(self) -> None:
        self._is_closed = True
        for host in self._hosts.values():
            host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await LLMStateMachine.aclose(self)

    # -- running states

    def set_custom_summarizer(self, summarizer: Callable[[Any], Any]) -> None:
        """Make summaries by a function.

        Args:
            summarizer: A function of {"of", "happened", "summary", "background"}. It returns text
                or {"summary", "todo_list"}.

        Raises:
            ValueError: It is a generator function.
        """
        check_runs(summarizer, "the summarizer")
        self._summarizer = summarizer

    def execute_state(
        self, state_name: str, state_input: Any = None, raw_transition: bool = False
    ) -> Any:
        """Run the body of a state, in any state of the machine. No event is sent.

        If the state waits for an answer, the input is the answer. The run then continues without
        repeating calls.

        Args:
            state_name: The id of the state. In a state without a body, the model works with the
                state's tools.
            state_input: The input of the body.
            raw_transition: True makes no summary.

        Returns:
            The result of the body.

        Raises:
            ValueError: There is no such state.
            ExecutionBreak: The run waits for an answer. Save the memory, and continue with
                `execute_state`.
            RuntimeError: It is called in an async body, where it would wait for itself.
            ModelError: The model failed. Execute the state again to continue.
        """
        run = _run.get()
        if run is not None and run.on_loop and _in_loop():
            raise RuntimeError(
                "execute_state waits, and an async body must not: use AsyncLLMStateMachine and await execute_state"
            )
        asked = self._ask(state_name, state_input, raw=raw_transition)
        try:
            return self._host(asked).wait(partial(self._execute, asked))
        except ModelError:
            if not asked.done:
                raise
            return self._host(asked).wait(partial(self._execute, asked))

    async def _execute(self, asked: _Asked, machine: AsyncMachine) -> Any:
        try:
            if asked.done:  # its summary failed, so the run ends without one
                turn = await machine.run(conversation_id=asked.id)
            elif asked.resumes is not None:
                with suppress(ConversationConflict):  # this machine's own store has it
                    await machine.take_in(json.dumps(asked.resumes["run"]), asked.id)
                turn = await machine.answer(asked.id, result_value(to_json_or_text(asked.given)))
            else:
                turn = await machine.run(**self._begin(asked))
        except ModelError:
            if asked.done:
                asked.raw = True
            else:
                self._park(asked)
            raise
        if turn.paused is not None:
            self._break(asked, turn, await machine.export(asked.id))
        return self._settle(asked, turn, (await machine.resume(asked.id)).memory)

    def _processing_loop(self, caller_future: Any = None) -> Any:
        """Process events, and run the bodies for those with `state_input`."""
        nested = self._depth > 0
        self._depth += 1
        try:
            result = super()._processing_loop(caller_future)
        finally:
            self._depth -= 1
        for state, given in () if nested else self._wanted():
            result = self.execute_state(state, given)
        return result

    def _wanted(self) -> list[tuple[str, Any]]:
        found, self._entered.states = self._entered.states, []
        return [(state, given) for state, given in found if self._body_of(state) is not None]

    # -- calls to the engine

    def _body_of(self, state: str) -> Function | None:
        return getattr(getattr(type(self), f"{_PREFIX}{state}", None), "body", None)

    def _ask(self, state: str, given: Any, *, raw: bool) -> _Asked:
        known = [one.id for one in self.states_map.values()]
        if state not in known:
            hint = suggestion(str(state), known, "the states are")
            raise ValueError(f"{type(self).__name__} has no state {state!r}; {hint}")
        pause = self.memory.pause
        if pause is not None and pause.get("state") == state:
            asked = _Asked(state, given, raw, pause["id"], pause)
            now, seen = _document(self.memory), pause["seen"]
            keys = {*now, *seen}
            asked.edits = {key: now.get(key) for key in keys if now.get(key) != seen.get(key)}
        else:
            parked = self._parked.pop(self._place(state, given, raw), None)
            asked = _Asked(state, given, raw, parked or uuid.uuid4().hex)
        self._asked[asked.id] = asked
        return asked

    def _place(self, state: str, given: Any, raw: bool) -> str:
        return json.dumps([state, to_json_or_text(given), raw], sort_keys=True)

    def _park(self, asked: _Asked) -> None:
        if asked.resumes is None:
            self._parked[self._place(asked.state, asked.given, asked.raw)] = asked.id

    def _begin(self, asked: _Asked) -> JsonDict:
        ids = self._ids()
        return {
            "input": to_json_or_text(asked.given),
            "conversation_id": asked.id,
            "state": ids[asked.state],
            "memory": self.memory.working_memory.to_dict(),
            "background": self.memory.background.to_engine(),
        }

    def _ids(self) -> dict[str, str]:
        return ids_of([state.id for state in self.states_map.values()])

    def _host(self, asked: _Asked) -> WorkflowHost:
        summaries = self.enable_summarization and not asked.raw
        key = (
            summaries,
            self._summarizer,
            tuple((tool.name, id(tool)) for tool in self.tool_registry),
        )
        if self._is_closed:
            raise RuntimeError("this machine is closed; make another one")
        host = self._hosts.get(key)
        if host is None:
            me = weakref.proxy(self)
            document, functions = self._definition()
            host = self._hosts[key] = WorkflowHost(
                document,
                functions,
                self.tool_registry,
                lambda _request: me._client,
                self._store,
                summaries=summaries,
                summarizer=self._summarizer,
            )
        return host

    def _definition(self) -> tuple[JsonDict, dict[str, Function]]:
        ids = self._ids()
        end = end_of(ids)
        functions: dict[str, Function] = {}
        states: JsonDict = {end: {"kind": "final"}}
        for name, id in ids.items():
            row: JsonDict = {
                "kind": "task",
                "purpose": f"Do the work of the state {name}.",
                "max_retries": 0,
                "memory": True,
                "summarize": True,
                "tools": [tool.name for tool in self.tool_registry if tool.policy.usable_in(name)],
                "transitions": [{"target_state": end}],
            }
            body = self._body_of(name)
            if body is not None:
                row["execute"] = f"{_PREFIX}{name}"
                functions[row["execute"]] = task_function(
                    _bound(weakref.ref(self), name, body), body, name
                )
            states[id] = row
        document = {
            "name": type(self).__name__,
            "initial_state": next(iter(ids.values())),
            "tools": {
                tool.name: {"registered": tool.name, "scope": _scope(tool, ids)}
                for tool in self.tool_registry
            },
            "limits": dict(LIMITS),
            "states": states,
        }
        return document, functions

    # -- results of the engine

    def _break(self, asked: _Asked, turn: Turn, run: str) -> None:
        paused = turn.paused
        assert paused is not None
        self.last_turn = turn
        self.memory.pause = {
            "state": asked.state,
            "id": asked.id,
            "run": json.loads(run),
            "seen": _document(self.memory),
            "configuration": [to_json_or_text(value) for value in self.configuration_values],
        }
        raise ExecutionBreak.of(paused.what, paused.call, asked.state)

    def _settle(self, asked: _Asked, turn: Turn, memory: JsonMap) -> Any:
        self.last_turn = turn
        del self._asked[asked.id]
        if asked.resumes is not None:
            self.memory.pause = None
        if turn.outcome != "passed":
            failed = of_kind(turn.events, ev.AttemptFailed)
            why = (
                "; ".join(one["reason"] for one in failed[-1].failures) if failed else turn.outcome
            )
            raise WorkflowError(f"state {asked.state!r}: {why}")
        _Live(self.memory, memory)
        said = [event.summary for event in of_kind(turn.events, ev.Summarised) if event.summary]
        more = {"summary": said[-1]} if said else {}
        if said:
            self.memory.background.custom_fields["last_summary"] = said[-1]
        self.memory.history.add_entry(asked.state, asked.given, turn.output, more)
        return turn.output if asked.returned is None else asked.returned


def _awaited(method: Callable[P, Any]) -> Callable[P, Coroutine[Any, Any, Any]]:
    """Return the same method for callers that await it."""

    @wraps(method)
    async def awaited(*arguments: P.args, **named: P.kwargs) -> Any:
        found = method(*arguments, **named)
        return await found if isinstance(found, Awaitable) else found

    return awaited


class AsyncLLMStateMachine(LLMStateMachine):
    """An `LLMStateMachine` in an event loop: you await events with `state_input`, `execute_state`
    and refinement.
    """

    async def execute_state(
        self, state_name: str, state_input: Any = None, raw_transition: bool = False
    ) -> Any:
        """Run the body of a state, in any state of the machine. No event is sent.

        Args:
            state_name: The id of the state. In a state without a body, the model works with the
                state's tools.
            state_input: The input of the body; the answer, if the state waits for one.
            raw_transition: True makes no summary.

        Returns:
            The result of the body.

        Raises:
            ValueError: There is no such state.
            ExecutionBreak: The run waits for an answer. Save the memory, and continue with
                `execute_state`.
            ModelError: The model failed. Execute the state again to continue.
        """
        asked = self._ask(state_name, state_input, raw=raw_transition)
        try:
            return await self._host(asked).do(partial(self._execute, asked))
        except ModelError:
            if not asked.done:
                raise
            return await self._host(asked).do(partial(self._execute, asked))

    run_with_refinement = _awaited(LLMStateMachine.run_with_refinement)
    validate_output = _awaited(LLMStateMachine.validate_output)

    def _processing_loop(self, caller_future: Any = None) -> Any:
        if self._depth > 0:
            return super(LLMStateMachine, self)._processing_loop(caller_future)
        return self._process(caller_future)

    async def _process(self, caller_future: Any) -> Any:
        self._depth += 1
        try:
            result = super(LLMStateMachine, self)._processing_loop(caller_future)
            result = await result if isinstance(result, Awaitable) else result
        finally:
            self._depth -= 1
        for state, given in self._wanted():
            result = await self.execute_state(state, given)
        return result


_RESERVED = {
    "memory",
    "llm_client",
    "tool_registry",
    "enable_summarization",
    "max_refinement_retries",
    "last_turn",
    "model",
    "history_values",
    "state_field",
    "start_configuration_values",
}


def _takes_input(function: Function) -> bool:
    return "state_input" in inspect.signature(function).parameters


def _body(state: str, function: Function) -> Function:
    """Return the method for a body. python-statemachine calls it on entering, which runs nothing."""

    def entered(
        self: LLMStateMachine, *arguments: Any, event_data: Any = None, **named: Any
    ) -> Any:
        if event_data is not None:
            return None
        if self._running() is not None:  # as `super().on_enter_…` does
            return function(self, *arguments, **named)
        return self.execute_state(state, *arguments, **named)

    entered.__name__, entered.__doc__ = function.__name__, function.__doc__
    entered.body = function  # type: ignore[attr-defined]
    return entered


def _bound(machine: Callable[[], Any], state: str, body: Function) -> Callable[[Workbench], Any]:
    """Return the body of a state for one machine, whose own engine must not keep the machine alive."""

    @contextmanager
    def running(ctx: Workbench, *, on_loop: bool) -> Iterator[tuple[Any, Any, _Asked | None]]:
        self = machine()
        asked = self._asked.get(ctx.conversation_id)
        document = dict(ctx.memory.to_dict())
        if asked is not None and asked.edits:
            document |= asked.edits
            document = without_none(document)
        ctx.memory = _Live(self.memory, document)
        given = (
            ctx.input
            if asked is None or (asked.resumes is not None and asked.given is None)
            else asked.given
        )
        token = _run.set(_Run(self, state, BoundLLM(self._client, ctx.llm, state), on_loop))
        try:
            yield self, given, asked
        finally:
            _run.reset(token)

    def call(ctx: Workbench) -> Any:
        with running(ctx, on_loop=False) as (self, given, asked):
            return _kept(asked, body(self, state_input=given))

    async def awaited(ctx: Workbench) -> Any:
        with running(ctx, on_loop=True) as (self, given, asked):
            return _kept(asked, await body(self, state_input=given))

    return awaited if is_async(body) else call


def _kept(asked: _Asked | None, output: Any) -> Any:
    check_ran(output, "the body")
    if asked is not None:
        asked.returned, asked.done = output, True
    return to_json_or_text(text_of(output))


def _scope(tool: Any, ids: TextMap) -> list[str] | None:
    scope = tool.policy.scope
    return None if scope is None else [ids[name] for name in scope if name in ids]


def _standing(machine: LLMStateMachine, values: Any) -> Any:
    """Return a model of python-statemachine in the one state of a saved run; None if there is no
    such state.
    """
    if (
        not isinstance(values, list)
        or len(values) != 1
        or values[0] not in type(machine).states_map
    ):
        return None
    model = import_module("statemachine.model").Model()
    model.state = values[0]
    return model


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
