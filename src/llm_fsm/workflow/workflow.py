"""A workflow whose states prove their work. It is compiled to tasks, and the engine runs one state
at a time.
"""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Self

from llm_fsm._json import JsonDict, JsonMap, of_kind
from llm_fsm.engine.conversation import Turn
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConversationConflict, ConversationNotFound
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMRequest
from llm_fsm.session.turn_record import events_of
from llm_fsm.tools.returns import check_returns, check_runs
from llm_fsm.tools.task_context import Workbench
from llm_fsm.turn.tool_results import result_value
from llm_fsm.workflow.bound_llm import BoundLLM
from llm_fsm.workflow.checks import Attempts, checks_of
from llm_fsm.workflow.compile import CUSTOM, Compiled, compile_states
from llm_fsm.workflow.context import ExecutionContext, WorkflowContext
from llm_fsm.workflow.errors import ExecutionBreak, MaxRetriesExceeded, WaitForInput, WorkflowError
from llm_fsm.workflow.host import WorkflowHost, task_function
from llm_fsm.workflow.progress import follow, run_id, take_up
from llm_fsm.workflow.state import StateSpec
from llm_fsm.workflow.tools import ToolSpec
from llm_fsm.workflow.validation import LLMValidator, Validator

__all__ = ["BoundLLM", "Workflow"]

MAX_STEPS = 1000
_LOOK_AGAIN = 0.01
"""Seconds until a waiting task looks again if another run is over."""

_inside: ContextVar[frozenset[int]] = ContextVar("llm_fsm_workflows", default=frozenset())
"""The workflows in whose states this code runs."""


class Workflow:
    """States that lead to each other, with key results that their outputs must bring.

    Args:
        objective: The objective of the workflow.
        states: Its states. It begins in the state with `is_initial`, or else in the first.
        transitions: State to the next one: a state, None for the end, {label: state} by the output
            or its `_transition` with `default`, or a function of the output.
        llm: An adapter with `chat`, a model of the engine, or the name of one.
        validator: Judges outputs. None: checks by code, and `validator_llm` for key results without
            a check.
        validator_llm: The model that judges key results without a check. Without it, they do not
            pass.
        store: The URL or store that keeps the runs.
        context: The progress of an earlier workflow, which this one continues.
        run_id: The id of the run in the store. An id that exists resumes that run.
        max_steps: The most states that one run may go through.

    Raises:
        WorkflowError: There is no state, two have one name, two are initial, or a call of a
            function runs nothing.

    Example:
        >>> greet = StateSpec("greet", "Greet", execute=lambda ctx: f"Hello, {ctx.input}!")
        >>> Workflow("Greetings", [greet], {"greet": None}, llm=None).run("world").history[-1].output
        'Hello, world!'
    """

    def __init__(  # noqa: PLR0917 - the documented signature
        self,
        objective: str,
        states: Sequence[StateSpec],
        transitions: JsonMap,
        llm: Any,
        validator: Validator | None = None,
        validator_llm: Any = None,
        *,
        store: Any = "memory",
        context: WorkflowContext | None = None,
        run_id: str | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        _check_functions(states, transitions, validator)
        self.objective = objective
        self.states = {spec.name: spec for spec in states}
        self.transitions = dict(transitions)
        self.llm = llm
        self.validator = validator
        self.validator_llm = validator.llm if isinstance(validator, LLMValidator) else validator_llm
        self._store = store
        self._max_steps = max_steps
        self._initial = _initial(states)
        self._context = WorkflowContext(objective) if context is None else context
        self._is_named = run_id is not None
        if run_id is not None:
            self._context.run_id = run_id
        self._begun = False
        self._closed = False
        self._one = threading.Lock()
        """Held by the caller whose run is under way."""
        self._attempts = Attempts()
        self.graph_layout: JsonDict = {}

    # -- state of the run

    @property
    def context(self) -> WorkflowContext:
        """The progress of the workflow, with the outputs of its states."""
        return self._context

    @property
    def current_state(self) -> str:
        """The name of the state that runs next."""
        known = self._context.current_state
        return self._initial if known is None else known

    @property
    def is_finished(self) -> bool:
        """True after the last state."""
        return self._context.finished

    @property
    def definition(self) -> JsonDict:
        """The definition that the engine runs, as JSON data. Raises WorkflowError."""
        return self._compiled.document

    def turns(self) -> tuple[Turn, ...]:
        """Return every step of the run on record.

        Returns:
            The turns, oldest first, with their events; none before the first step.
        """
        id = self._context.run_id
        return () if id is None else self._host.wait(lambda machine: _recorded(machine, id))

    # -- running

    def run(self, initial_input: Any = None) -> WorkflowContext:
        """Run the remaining states to the end.

        An input for a workflow that has finished begins a new run, with a new context. Callers in
        other threads wait until a run is over.

        Args:
            initial_input: The input of the first of them; the answer, if the run waits for one.
                None: a finished workflow gives its result again.

        Returns:
            The context, with the outputs of all states in `history`.

        Raises:
            MaxRetriesExceeded: A state did not pass.
            ExecutionBreak: The run waits for an answer.
            WorkflowError: The workflow cannot continue.
            ModelError: The model failed. Call `run` again to continue.
        """
        self._check_outside()
        with self._one:
            self._begin_anew(initial_input)
            given: Any = initial_input
            while not self._context.finished:
                self.step(given)
                given = None
            return self._context

    async def arun(self, initial_input: Any = None) -> WorkflowContext:
        """Run the remaining states to the end, in an event loop; as `run`.

        Args:
            initial_input: As in `run`.

        Returns:
            The context, with the outputs of all states in `history`.

        Raises:
            Exception: The errors of `run`.
        """
        self._check_outside()
        while not self._one.acquire(blocking=False):
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            self._begin_anew(initial_input)
            given: Any = initial_input
            while not self._context.finished:
                await self.astep(given)
                given = None
            return self._context
        finally:
            self._one.release()

    def _check_outside(self) -> None:
        """Raise WorkflowError in a state of this workflow, which would wait for itself."""
        if id(self) in _inside.get():
            raise WorkflowError(
                "a state of this workflow runs it again, and would wait for itself; make another one"
            )

    def _begin_anew(self, given: Any) -> None:
        """Begin a new run if this one has finished and there is an input, which nothing else would
        read.
        """
        if self._context.finished and given is not None:
            if self._is_named:
                raise _unread(self._context)
            self._context = WorkflowContext(self.objective)
            self._begun = False
            self._attempts.contexts.clear()
            self._attempts.met.clear()

    def step(self, state_input: Any = None) -> Any:
        """Run the current state, and stop before the next one.

        Args:
            state_input: The input of the state; None: the output of the state before. The answer,
                if the run waits for one.

        Returns:
            The output of the state.

        Raises:
            Exception: The errors of `run`.
        """
        return self._prepared().wait(lambda machine: self._step(machine, state_input))

    async def astep(self, state_input: Any = None) -> Any:
        """Run the current state, and stop before the next one, in an event loop.

        Args:
            state_input: The input of the state; None: the output of the state before. The answer,
                if the run waits for one.

        Returns:
            The output of the state.

        Raises:
            Exception: The errors of `run`.
        """
        return await self._prepared().do(lambda machine: self._step(machine, state_input))

    async def _step(self, machine: AsyncMachine, given: Any) -> Any:
        if not self._begun:
            await self._open(machine)
            if self._context.finished:
                if given is not None:
                    raise _unread(self._context)
                return self._context.history[-1].output
        if self._context.pause is not None:
            turn = await machine.answer(
                run_id(self._context), _plain(given, self.current_state), step=True
            )
        else:
            turn = await machine.step(**self._start(given))
        if turn.paused is not None:
            self._pause(turn, await machine.export(turn.conversation_id))
        return self._settle(turn)

    # -- the end

    def close(self) -> None:
        """Close all connections and files, and end the thread of the workflow.

        A workflow that is dropped closes itself. Closing twice does nothing.
        """
        self._closed = True
        if "_host" in self.__dict__:
            self._host.close()

    async def aclose(self) -> None:
        """As `close`, in an event loop."""
        self._closed = True
        if "_host" in self.__dict__:
            await self._host.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    # -- calls to the engine

    @cached_property
    def _compiled(self) -> Compiled:
        # The engine keeps the functions, and the attempts lead back to it: a workflow that is
        # dropped shall not wait for the garbage collector.
        attempts, judges = weakref.proxy(self._attempts), self.validator_llm is not None
        return compile_states(
            objective=self.objective,
            states=self.states,
            transitions=self.transitions,
            initial=self._initial,
            checks=lambda spec: checks_of(spec, self.validator, attempts, judges=judges),
            execute=self._execute,
        )

    @cached_property
    def _host(self) -> WorkflowHost:
        made = self._compiled
        me = weakref.proxy(self)

        def model(request: LLMRequest) -> Any:
            return me._model(request)

        return WorkflowHost(made.document, made.functions, made.tools, model, self._store)

    def _prepared(self) -> WorkflowHost:
        if self._closed:
            raise WorkflowError("the workflow is closed; make another one")
        if self._context.finished:
            raise WorkflowError("the workflow has already finished")
        if len(self._context.history) >= self._max_steps:
            raise WorkflowError(
                f"the workflow went through {self._max_steps} states; max_steps= allows more"
            )
        return self._host

    def _model(self, request: LLMRequest) -> Any:
        judges = request.schema is not None and request.schema.name == "verdicts"
        return self.validator_llm if judges else self.llm

    async def _open(self, machine: AsyncMachine) -> None:
        """Resume a run from the store or from the context."""
        pause, id = self._context.pause, run_id(self._context)
        with suppress(ConversationConflict):  # the store has it
            if pause is not None:
                await machine.take_in(json.dumps(pause["run"]), id)
        with suppress(ConversationNotFound):
            conversation = await machine.resume(id)
            turns = await conversation.turns()
            take_up(
                self._context,
                list(events_of(turns)),
                self._compiled.names,
                self._attempts,
                waits=conversation.paused is not None,
            )
        self._begun = True

    def _start(self, given: Any) -> JsonDict:
        context, ids = self._context, self._compiled.ids
        before = context.history[-1].output if context.history else None
        return {
            "input": _plain(before if given is None else given, self.current_state),
            "conversation_id": run_id(context),
            "state": ids.get(self.current_state, self.current_state),
            "shared": context.shared.to_dict(),
        }

    # -- called by the engine

    def _execute(self, spec: StateSpec) -> Callable[[Workbench], Any]:
        me, name = weakref.proxy(self), spec.name
        return task_function(lambda ctx: me._work(name, ctx), spec.execute, name)

    def _work(self, state: str, ctx: Workbench) -> Any:
        """Do the work of a state."""
        _inside.set(_inside.get() | {id(self)})
        work = self.states[state].execute
        given = self._attempts.contexts[state] = ExecutionContext(
            input=ctx.input,
            shared=ctx.shared,
            history=list(self._context.history),
            llm=BoundLLM(self.llm, ctx.llm, state),
            retry_count=ctx.retry_count,
            feedback=_feedback(ctx.feedback),
            task=ctx,
        )
        return ctx.input if work is None else work(given)

    # -- results of the engine

    def _pause(self, turn: Turn, run: str) -> None:
        """Keep the waiting run in the context, and raise its break."""
        paused = turn.paused
        assert paused is not None
        state = self._compiled.names.get(paused.state, paused.state)
        follow(self._context, turn.events, self._compiled.names, self._attempts)
        self._context.pause = {
            "run": json.loads(run),
            "what": paused.what,
            "call": dict(paused.call or {}) or None,
        }
        waiting = {
            tool.name
            for tool in self.states[state].tools
            if isinstance(tool, ToolSpec) and tool.is_waiting
        }
        kind = WaitForInput if paused.what in waiting else ExecutionBreak
        raise kind.of(paused.what, paused.call, state)

    def _settle(self, turn: Turn) -> Any:
        state = self.current_state
        self._context.pause = None
        follow(self._context, turn.events, self._compiled.names, self._attempts)
        if turn.outcome in ("", "passed"):
            return turn.output
        # that run is over, and another step begins a new one
        self._context.run_id, self._begun = None, False
        if turn.outcome == "exhausted":
            raise MaxRetriesExceeded(
                state, self.states[state].max_retries, _last_feedback(turn.events)
            )
        said = [event.error for event in of_kind(turn.events, ev.RoutePicked) if event.error]
        reached = [
            f"the limit of {event.limit} was reached"
            for event in of_kind(turn.events, ev.LimitReached)
        ]
        labels = self.transitions.get(state)
        way = f"no matching transition for the output {turn.output!r:.200}" + (
            f"; the labels are {', '.join(labels)}" if isinstance(labels, Mapping) else ""
        )
        raise WorkflowError(f"state {state!r}: {(said or reached or [way])[0]}")


def _initial(states: Sequence[StateSpec]) -> str:
    names = [spec.name for spec in states]
    if not names:
        raise WorkflowError("a workflow has at least one state")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise WorkflowError(f"two states are called {twice!r}")
    first = [spec.name for spec in states if spec.is_initial] or names[:1]
    if len(first) > 1:
        raise WorkflowError(f"one state is initial, not {len(first)}: {', '.join(first)}")
    return first[0]


def _check_functions(
    states: Iterable[StateSpec], transitions: JsonMap, validator: Validator | None
) -> None:
    """Check that a call of each function of a workflow runs it. Raises WorkflowError."""
    try:
        for spec in states:
            if spec.execute is not None:
                check_returns(spec.execute, f"state {spec.name!r}: execute")
            for result in spec.key_results:
                if callable(result.check):
                    check_runs(result.check, f"state {spec.name!r}: the check {result.name!r}")
        for name, way in transitions.items():
            if callable(way):
                check_runs(way, f"the function after state {name!r}")
        if validator is not None:
            check_runs(validator.validate, "the validator")
    except ValueError as error:
        raise WorkflowError(str(error)) from error


def _feedback(said: str) -> str | None:
    return (
        "; ".join(line.removeprefix(f"{CUSTOM}: ") for line in said.split("\n")) if said else None
    )


def _last_feedback(events: Sequence[ev.Event]) -> str | None:
    failed = of_kind(events, ev.AttemptFailed)
    lines = [f"{one['name']}: {one['reason']}" for one in failed[-1].failures] if failed else []
    return _feedback("\n".join(lines))


def _unread(context: WorkflowContext) -> WorkflowError:
    return WorkflowError(
        f"the run {run_id(context)!r} has finished, so nothing reads this input; "
        "give it to a run of another id"
    )


def _plain(value: Any, state: str) -> Any:
    """Return an input in its JSON form. Raises WorkflowError."""
    try:
        return result_value(value)
    except ValueError as error:
        raise WorkflowError(f"state {state!r}: the input cannot be kept: {error}") from error


async def _recorded(machine: AsyncMachine, id: str) -> tuple[Turn, ...]:
    try:
        return await (await machine.resume(id)).turns()
    except ConversationNotFound:
        return ()
