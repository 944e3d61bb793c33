"""Run the function of a task. Its questions to models go through the same tool loop as those of the
machine."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

from msgspec.structs import replace

from llm_fsm._async import is_async, is_cancelled
from llm_fsm._json import JsonDict, JsonMap, copied, in_unicode, of_kind, plain, without
from llm_fsm.engine.exactly_once import ExactlyOnce
from llm_fsm.engine.journal import entry_reply, reply_entry
from llm_fsm.engine.turn_runner import TurnHost, TurnRunner
from llm_fsm.errors import LLMFSMError, told
from llm_fsm.session import events as ev
from llm_fsm.session.messages import LLMMessage, ModelReply, Usage
from llm_fsm.session.reducer import fold
from llm_fsm.tools.executor import GRACE, called, readable
from llm_fsm.tools.failures import failure_of
from llm_fsm.tools.task_context import (
    BoundModel,
    Break,
    Question,
    RunLimit,
    SyncModel,
    TaskMemory,
    Workbench,
)
from llm_fsm.tools.task_functions import thread_of
from llm_fsm.turn import model, tool_loop
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import (
    AskModel,
    CallTools,
    Effect,
    Execute,
    Executed,
    OutOfTime,
    PlannedCall,
    Result,
    ToolResults,
)
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.tool_results import output_value
from llm_fsm.turn.turn_state import TICK, HostCapabilities, TurnState

_BEGUN = "begun"
"""Log entry: hash of the first question of each task."""
_ONCE = "once"
"""Log entry: the calls that must not run twice."""
_WORDS = "words"
"""Log and journal entry: hash of a question, beside its reply."""

_Own = tuple[JsonMap, JsonMap]
"""The shared values and the memory as a function leaves them."""


class _Questions:
    """The model calls and tool calls of one function; see `workbench.Asks`."""

    def __init__(
        self, host: TurnHost, program: CompiledMachine, effect: Execute, running: TurnRunner
    ) -> None:
        self.host = host
        self.program = program
        self.effect = effect
        self.running = running
        self.session = effect.session
        # From before a crash in this turn; the log is from before a pause, in an earlier one.
        kept = {} if running.journal is None else running.journal.under(f"{effect.key}/")
        self.once = ExactlyOnce(
            effect.log.get(_ONCE, {}), () if running.journal is None else running.journal.begun
        )
        self.log: JsonDict = {**effect.log, _BEGUN: self._begun_before(kept), _ONCE: self.once.log}
        first = {key: entry for key, entry in {**effect.log, **kept}.items() if key.endswith(".0")}
        self.words = {key[:-2]: entry[_WORDS] for key, entry in first.items() if _WORDS in entry}
        """The text of each question by its name. The first entry of a question has it."""
        # From before a pause.
        self.answered = frozenset(key[:-2] for key in effect.log if key.endswith(".0"))
        self._taken: set[str] = set()
        self._new: set[int] = set()  # tasks that begin with a question without an earlier reply
        self.happened: list[ev.Event] = []
        self.usage = Usage()
        self.tool_calls = 0
        self.asked = 0  # running model calls
        self.began = time.monotonic()  # and the time of replies that the journal returned
        self.bench: Workbench | None = None
        self.on_loop = is_async(host.functions.get(effect.function))
        # Task: its number, and its questions so far.
        self._asked: dict[asyncio.Task[Any] | None, tuple[int, int]] = {}
        self._closed = False
        self._asking: set[asyncio.Task[Any]] = set()

    async def __call__(self, question: Question) -> ModelReply:
        """See `workbench.Asks`."""
        if self._closed:
            raise RuntimeError("the function is over, and asks nothing any more")
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            number = self._name(task, question.messages)
            await self._write_down(task)
            return await self._answer(number, question)
        finally:
            self._asking.discard(task)

    async def close(self, left: float) -> None:
        """End the questions that the function did not wait for, because nobody would record their
        results.

        If it waits for a person, they may finish within `left` seconds, because the function will
        ask them again.
        """
        self._closed = True
        waits = (
            self.bench is not None and isinstance(self.bench.broke, Break) and not is_cancelled()
        )
        # What they would find is needed for the same questions after the pause.
        if self._asking and waits:
            await asyncio.wait(self._asking, timeout=None if left == math.inf else left)
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking, timeout=GRACE)

    def _begun_before(self, kept: Mapping[str, JsonMap]) -> list[str]:
        """Return the first question of each task, from before a pause or a crash in this turn; ""
        if unknown."""
        begun: list[str] = list(self.effect.log.get(_BEGUN, ()))
        known = {
            int(key.rpartition("/")[2]): entry
            for key, entry in kept.items()
            if key.startswith(f"{_BEGUN}/")
        }
        # Entries may be missing in between: tasks are written down side by side.
        for place in range(len(begun), max(known, default=-1) + 1):
            begun.append(known[place][_WORDS] if place in known else "")
        return begun

    async def _write_down(self, task: asyncio.Task[Any]) -> None:
        """Record the first question of a task before it is asked, for `_begun_before`.

        The function's main task needs no entry if it asks before all others: it comes first again.
        """
        place, asked = self._asked.get(task, (0, 0))
        first = place == 0 and self.bench is not None and self.bench.home is task
        if asked != 1 or first or self.running.journal is None:
            return

        async def fetch() -> JsonMap:
            return {_WORDS: self.log[_BEGUN][place]}

        await self.running.journal.keyed(f"{self.effect.key}/{_BEGUN}/{place}", fetch)

    def _name(self, task: asyncio.Task[Any], messages: Sequence[LLMMessage]) -> str:
        """Name a question by its number in its task, so that the name is the same when the function
        runs again.

        Tasks continue in the order in which answers arrive, and so does a queue that tasks share.
        Questions that had a reply therefore go first. A plain function asks in order.
        """
        asking = task if self.on_loop else None
        words = sha256(in_unicode([message.to_dict() for message in messages]).encode()).hexdigest()
        # The first question of a task finds its place; the others are counted from there.
        place, number = self._asked.get(asking) or (self._place(words), 0)
        self._asked[asking] = place, number + 1
        name = self._free_name(place, number, words)
        self._taken.add(name)
        self.words[name] = words
        return name

    def _free_name(self, place: int, number: int, words: str) -> str:
        names = (f"{place}:{later}" if place else str(later) for later in count(number))
        name = next(names)
        free = without(self.words, self._taken)
        same = [known for known, said in free.items() if said == words]
        # The same question again is the one that was answered before.
        if same:
            return name if name in same else same[0]
        if number == 0:
            self._new.add(place)
        # The text of a question may differ each time, so a task that is alone has it by its place.
        by_place = place in self._new or len(self.log[_BEGUN]) == 1
        if name not in self._taken and (by_place or name not in self.words):
            return name
        used = {*self._taken, *self.words}
        return next(later for later in names if later not in used)

    def _place(self, words: str) -> int:
        """Return the number of the task that begins with this question: the recorded one, or the
        next."""
        begun = self.log[_BEGUN]
        taken = {place for place, _ in self._asked.values()}
        # One more than are known, so that a new task finds a place, too.
        free = [place for place in range(len(begun) + 1) if place not in taken]
        place: int = next((place for place in free if begun[place : place + 1] == [words]), free[0])
        begun[place : place + 1] = [words]
        return place

    async def _answer(self, number: str, question: Question) -> ModelReply:
        available, session = self.host.capabilities.tools, self.session
        if question.functions:
            further = [
                self.host.toolbox.registry.add(function).policy for function in question.functions
            ]
            # For this question alone: the state does not get the functions.
            available = available.beside(session.flow, session.state, further)
        turn = TurnState(self.program, session, HostCapabilities(tools=available))
        # the same after an answer, which arrives in another turn
        turn.call_namespace = f"{self.running.id}/{self.effect.key}/{number}", 0.0
        turn.spent_before = self._used()
        offered = tool_loop.offered(turn) if question.tools else ()
        request = model.request(turn, tuple(question.messages), None, tools=offered)
        request = replace(
            request,
            tools=request.tools if question.offered is None else question.offered,
            temperature=request.temperature
            if question.temperature is None
            else question.temperature,
            max_tokens=request.max_tokens if question.max_tokens is None else question.max_tokens,
            options=question.options,
        )
        look = model.no_moves(turn)
        drive = _Drive(self, turn, number, question.rounds)
        loop = Loop("task", request, look)
        kept = 0
        while True:
            run = (
                model.call(turn, "task", request, look)
                if question.whole
                else tool_loop.run(turn, loop)
            )
            reply = await drive.through(run)
            since = [event for event in turn.events[kept:] if not isinstance(event, ev.Paused)]
            # Beside changes by others.
            self.session, kept = (fold(self.session, since), len(turn.events))
            if self.bench is not None:
                self.bench.context = copied(self.session.context)
            if reply is not None:
                return reply
            loop = self._answered(turn, Loop("task", request, look))

    def stop_at_limit(self, effect: AskModel | CallTools) -> None:
        """Raise RunLimit if parallel questions together reach a limit."""
        used = self._used()
        if isinstance(effect, AskModel):
            used["llm_calls"] += self.asked
            bounds = [(name, most) for name, most in self.program.bounds if name != "seconds"]
            reached = [name for name, most in bounds if used[name] >= most]
        else:
            # The calls of this effect are counted already, so the limit itself may be reached.
            reached = ["tool_calls"] if used["tool_calls"] > self.program.limits.tool_calls else []
        if reached and self.bench is not None:
            raise self.bench.stop(RunLimit(reached[0]))

    def live_memory(self) -> TaskMemory:
        """Return the one memory that the function and the model's memory tools work on."""
        assert self.bench is not None
        return self.bench.memory

    def _used(self) -> dict[str, float]:
        own = self.usage.by_limit()
        own["tool_calls"] = self.tool_calls
        own["seconds"] = time.monotonic() - self.began
        return {name: spent + own.get(name, 0) for name, spent in self.effect.used.items()}

    def _answered(self, turn: TurnState, fresh: Loop) -> Loop:
        """Put the answer into the paused loop.

        Raises:
            Break: There is no answer yet.
            RunLimit: A limit is reached.
        """
        pause, work, bench = turn.session.pause, turn.session.work, self.bench
        assert bench is not None
        if pause is None:
            reached = of_kind(turn.events, ev.LimitReached)
            raise bench.stop(RunLimit(reached[-1].limit))
        found = bench.answer(pause.kind, pause.what, pause.call)
        if found is None:
            asked = {
                "kind": pause.kind,
                "what": pause.what,
                "call": pause.call,
                "schema": pause.schema,
            }
            raise bench.stop(Break(asked))
        value, newest = found
        loop = fresh.take_up((work.loop if work is not None else None) or {})
        # Other questions may have changed the session while this one waited.
        turn.reset(self.session)
        before = len(turn.events)
        tool_loop.take_answer(turn, loop, pause.kind, pause.call or {}, value)
        # An older answer was told when it came.
        if newest:
            self.happened.extend(turn.events[before:])
        return loop


class _Drive:
    """Performs the effects of one question. Logged results are not performed again."""

    def __init__(
        self, questions: _Questions, turn: TurnState, number: str, rounds: int | None
    ) -> None:
        self.questions = questions
        self.turn = turn
        self.number = number
        self.rounds = rounds
        self.fresh = number not in questions.answered
        self.asked = 0
        self.step = 0

    async def through(self, run: Generator[Effect, Result, ModelReply | None]) -> ModelReply | None:
        """Perform effects until the question is answered, pauses, or reaches a limit."""
        result: Result | None = None
        known = False
        while True:
            turn, before = self.turn, (len(self.turn.events), self.turn.tool_calls)
            ended, reply, effect = False, None, None
            memory = self.questions.live_memory()
            # The function may have changed it.
            turn.session = replace(turn.session, memory=memory.to_dict())
            try:
                effect = next(run) if result is None else run.send(result)
            except StopIteration as stop:
                ended, reply = True, stop.value
            memory.load(turn.session.memory)
            calls = turn.tool_calls - before[1]
            if known:
                # What the log gives was counted when it was made.
                turn.spent_before = {
                    **turn.spent_before,
                    "tool_calls": turn.spent_before.get("tool_calls", 0) - calls,
                }
            else:
                self.questions.tool_calls += calls
                self.questions.happened.extend(
                    event
                    for event in turn.events[before[0] :]
                    if not isinstance(event, ev.Paused | ev.LimitReached | ev.MemorySet)
                )
            if ended:
                return reply
            result, known = await self._result(effect)

    async def _result(self, effect: Effect | None) -> tuple[Result, bool]:
        questions = self.questions
        key = f"{self.number}.{self.step}"
        self.step += 1
        if isinstance(effect, AskModel):
            self.asked += 1
            # A reply without calls would have ended the question before this.
            if self.rounds is not None and self.asked > self.rounds:
                raise RuntimeError(f"the model still called tools after {self.rounds} rounds")
            if key in questions.log:
                base = self.turn.spent_before
                self.turn.spent_before = {**base, "llm_calls": base.get("llm_calls", 0) - 1}
                return entry_reply(questions.log[key]), True
            questions.stop_at_limit(effect)
            questions.asked += 1
            try:
                reply = await self._model(effect, key)
            finally:
                questions.asked -= 1
            if isinstance(reply, ModelReply):
                questions.usage += reply.usage
            else:
                questions.usage += Usage(calls=1, attempts=1, seconds=reply.seconds)
            return reply, False
        if not isinstance(effect, CallTools):
            raise TypeError(f"a question cannot ask for {type(effect).__name__}")
        logged, once = questions.log.get(key, ()), questions.once
        results = once.known(effect.calls, logged, fresh=self.fresh)
        # Only what is not on record is made: a call may have acted before the crash.
        due = [call for call in effect.calls if call.id not in results]
        if due:
            questions.stop_at_limit(effect)
            results |= await once.made(due, self._claimed, partial(questions.running.tools, effect))
        found = tuple(results[call.id] for call in effect.calls)
        questions.log[key] = [plain(item) for item in found]
        return ToolResults(results=found), bool(logged) and not due

    def _claimed(self, call: PlannedCall) -> PlannedCall:
        journal = self.questions.running.journal
        return call if journal is None else journal.claimed(call, fresh=self.fresh)

    async def _model(self, effect: AskModel, key: str) -> ModelReply | OutOfTime:
        questions, running = self.questions, self.questions.running
        fetched: list[ModelReply | OutOfTime] = []

        async def fetch() -> JsonMap:
            fetched.append(await running.asked(effect))
            return {**reply_entry(fetched[0]), _WORDS: questions.words[self.number]}

        # In the journal under the name of the question, because questions may run side by side.
        entry = questions.log[key] = await running.nested(f"{questions.effect.key}/{key}", fetch)
        if fetched:
            return fetched[0]
        reply = entry_reply(entry)
        # The limit of time counts the call as if it had been made now.
        questions.began -= reply.seconds
        return reply


async def execute(
    host: TurnHost, program: CompiledMachine, effect: Execute, running: TurnRunner
) -> Executed:
    """Run a function once.

    Returns:
        Its output, or the reason why it stopped.

    Raises:
        LLMFSMError: A model or the store failed.
    """
    function = host.functions.get(effect.function)
    questions = _Questions(host, program, effect, running)
    loop = asyncio.get_running_loop()
    on_loop = questions.on_loop

    def publish(event: ev.Progressed) -> None:
        questions.happened.append(event)
        # A function in a thread must not touch the listener, which lives in the loop.
        if on_loop:
            running.tell(event)
        else:
            loop.call_soon_threadsafe(running.tell, event)

    llm = BoundModel(questions) if on_loop else SyncModel(questions, loop)
    bench = questions.bench = Workbench(effect, llm, publish)

    async def work() -> Any:
        bench.home = asyncio.current_task()
        return await function(bench)

    most = program.limits.seconds
    left = None if most is None else max(0.0, most - effect.used.get("seconds", 0.0))
    limit = running.time_left(left)
    output: Any = None
    own: _Own | None = None
    error: str | None = None
    try:
        output = output_value(
            await called(limit, work if on_loop else partial(function, bench), thread_of(function))
        )
        own = bench.shared.to_dict(), bench.memory.to_dict()
    except LLMFSMError:
        raise
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        error = "it was cancelled from inside"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as raised:
        error = readable(told(raised))
        # A break is no failure, although it is raised as one.
        if bench.broke is None:
            failed = failure_of("function", effect.function, raised, function)
            questions.happened.append(failed)
        # What the function left may not be JSON, and its own error matters more.
        with suppress(Exception):
            own = bench.shared.to_dict(), bench.memory.to_dict()
    finally:
        await questions.close(limit - (time.monotonic() - questions.began))
    seconds = time.monotonic() - questions.began
    done = _executed(questions, bench, output, error, seconds, own=own)
    over = error is not None and left is not None and seconds >= left - TICK
    return replace(done, limit="seconds") if over and done.paused is None else done


def _executed(
    questions: _Questions,
    bench: Workbench,
    output: Any,
    error: str | None,
    seconds: float,
    *,
    own: _Own | None,
) -> Executed:
    done = Executed(
        happened=tuple(questions.happened),
        usage=questions.usage,
        tool_calls=questions.tool_calls,
        seconds=seconds,
    )
    # The order matters: a limit ends a run, and a pause hides an error behind it.
    if isinstance(bench.broke, RunLimit):
        return replace(done, limit=bench.broke.limit)
    if bench.broke is not None:
        return replace(done, paused={**bench.broke.asked, "log": questions.log})
    before = questions.effect.session
    shared, memory = own or (before.shared, before.memory)
    return replace(
        done,
        output=output,
        error=error,
        context=bench.changes,
        shared=None if shared == before.shared else shared,
        memory=None if memory == before.memory else memory,
    )
