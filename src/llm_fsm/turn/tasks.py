"""The course of a task state: attempts, key results, feedback, and where its output leads.

Each attempt begins from the same context, memory and shared values: what a failed one changed is taken back.
An output counts when every key result passes. The output then names the move that follows, by `_transition` or as a
whole, against the labels `on`. Else the conditions decide.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from llm_fsm._text import cut
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.messages import ToolCall
from llm_fsm.turn import handlers, model, tool_loop
from llm_fsm.turn.compiled import Check
from llm_fsm.turn.effects import (
    CheckKeyResults,
    Effect,
    Execute,
    Executed,
    PickRoute,
    Result,
    Routed,
    Verdicts,
    subject,
)
from llm_fsm.turn.guards import Move, labelled
from llm_fsm.turn.key_results import MAX_JUDGED_CHARS, MAX_OUTPUT_CHARS, Verdict, by_logic, judged, output_of
from llm_fsm.turn.prompt.tasks import judge_messages, task_messages, verdict_schema
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.tool_policy import call_key
from llm_fsm.turn.turn_state import Stop, TurnState

_REASON_CHARS = 2000
_EMPTY = "the answer was empty"
Failures = tuple[Mapping[str, str], ...]
"""The name and the reason of each check that failed."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of an attempt; `fault` says why it is none."""

    value: Any = None
    fault: str | None = None


def work(turn: TurnState, waiting: Mapping[str, Any] | None = None) -> Generator[Effect, Result, Move | Stop | None]:
    """Work on the task of the current state to its end, and return the move that follows.

    Args:
        turn: The turn, in a task state.
        waiting: The loop in which an attempt paused, with the answer put in.

    Returns:
        The move, or a Stop if the run goes no further. None if it pauses.
    """
    state = turn.state
    most = state.definition.max_retries + 1
    under_way = turn.session.work
    attempt = 1 if waiting is None or under_way is None else max(1, under_way.attempt)
    while True:
        if waiting is None:
            turn.emit(ev.AttemptBegun(state=state.id, attempt=attempt))
        made = yield from _attempt(turn, waiting)
        waiting = None
        if made is None:
            return None
        if isinstance(made, Stop):
            failure = {"name": "limit", "reason": "a limit of the run was reached"}
            turn.emit(ev.AttemptFailed(state=state.id, attempt=attempt, failures=(failure,), last=True))
            return made
        output, failures = made
        if not failures:
            turn.emit(ev.TaskPassed(state=state.id, output=output))
            return (yield from follow(turn, output))
        last = attempt == most
        turn.emit(ev.AttemptFailed(state=state.id, attempt=attempt, failures=failures, last=last))
        if last:
            return (yield from _exhausted(turn, output))
        attempt += 1


def _attempt(
    turn: TurnState, waiting: Mapping[str, Any] | None
) -> Generator[Effect, Result, tuple[Any, Failures] | Stop | None]:
    """Make one attempt. Return its output and what failed; a Stop at a limit, None if it pauses."""
    output = yield from (_execute if turn.state.definition.execute else _ask_model)(turn, waiting)
    if not isinstance(output, Output):
        return output
    failures = yield from _check(turn, output)
    if isinstance(failures, Stop):
        return failures
    return Stop("limit") if failures and turn.out_of_time() else (output.value, failures)


def _ask_model(turn: TurnState, waiting: Mapping[str, Any] | None) -> Generator[Effect, Result, Output | Stop | None]:
    """Run the model-and-tools loop of an attempt. Return a Stop at a limit, None if it pauses."""
    tools = tool_loop.offered(turn)
    messages = task_messages(turn.machine, turn.session, tools=bool(tools))
    loop = Loop("task", model.request(turn, messages, None, tools=tools), model.no_moves(turn))
    reply = yield from tool_loop.run(turn, loop if waiting is None else loop.take_up(waiting))
    if reply is None:
        return None if turn.paused else Stop("limit")
    if len(reply.text) > MAX_OUTPUT_CHARS:
        return Output(None, f"the answer has {len(reply.text)} characters; at most {MAX_OUTPUT_CHARS} are taken")
    value = output_of(reply.text)
    return Output(value, _EMPTY if value == "" else None)


def _execute(turn: TurnState, waiting: Mapping[str, Any] | None) -> Generator[Effect, Result, Output | Stop | None]:
    """Run the registered function of an attempt. Return a Stop at a limit, None if it pauses."""
    if waiting is None and turn.limit_reached():
        return Stop("limit")
    session, state, under_way = turn.session, turn.state, turn.session.work
    name = state.definition.execute or ""
    feedback = () if under_way is None else under_way.feedback
    answers = () if waiting is None else tuple(waiting["answers"])
    # a pause that an older version wrote does not say what its answers are about
    about = () if waiting is None else tuple(waiting.get("about") or (None,) * len(answers))
    number = under_way.attempt if under_way is not None else 1
    key = None if waiting is None else waiting.get("key")
    if key is None:
        space = f"{session.conversation_id}/{session.turn}"
        call = ToolCall(id="", name=name, arguments="")
        key = call_key(space, session.time, len(turn.events), call)
    found = yield Execute(
        state=state.id,
        function=name,
        attempt=number,
        feedback="\n".join(f"{failure['name']}: {failure['reason']}" for failure in feedback),
        input=session.input,
        session=session,
        key=key,
        answers=answers,
        about=about,
        log={} if waiting is None else waiting["log"],
        used=turn.used(),
    )
    if not isinstance(found, Executed):
        raise TypeError(f"a function wants Executed, got {type(found).__name__}")
    loop = {"asked_for": "execute", "key": key, "answers": list(answers), "about": list(about)}
    return _record_execution(turn, found, loop)


def _record_execution(turn: TurnState, found: Executed, loop: Mapping[str, Any]) -> Output | Stop | None:
    """Note what a function did. Return its output, a Stop at a limit, None if it pauses."""
    turn.usage += found.usage
    turn.tool_calls += found.tool_calls
    turn.elapsed += found.seconds - found.usage.seconds  # less than nothing where models were asked at once
    for event in found.happened:
        turn.emit(event)
    for event in accept_host(turn.machine.keys, turn.session.context, found.context):
        turn.emit(event)
    for kind, old, new in (
        (ev.SharedSet, turn.session.shared, found.shared),
        (ev.MemorySet, turn.session.memory, found.memory),
    ):
        if new is not None and new != old:
            values = {key: value for key, value in new.items() if key not in old or old[key] != value}
            turn.emit(kind(values=values, removed=tuple(key for key in old if key not in new)))
    if found.limit is not None:
        most = getattr(turn.machine.limits, found.limit) or 0
        turn.emit(ev.LimitReached(limit=found.limit, value=most))
        return Stop("limit")
    if found.paused is not None:
        asked = found.paused
        kind, what, call = asked.get("kind", "break"), str(asked.get("what", "")), asked.get("call")
        about = [*loop["about"], subject(kind, what, call)]
        turn.pause(
            kind=kind,
            what=what,
            call=call,
            schema=asked.get("schema"),
            loop={**loop, "about": about, "log": asked.get("log", {})},
        )
        return None
    return Output(found.output, found.error)


def _check(turn: TurnState, output: Output) -> Generator[Effect, Result, Failures | Stop]:
    """Return what failed, by name; nothing when the output is accepted, a Stop at a limit.

    A judge is asked last, if all else passed.
    """
    if output.fault is not None:
        return ({"name": "output", "reason": cut(output.fault, _REASON_CHARS)},)
    checks = turn.state.checks
    if not checks:
        return ()
    data = {"output": output.value, "context": dict(turn.session.context), "input": turn.session.input}
    found: dict[str, Verdict] = {check.name: by_logic(check, data) for check in checks if check.by == "logic"}
    registered = [check for check in checks if check.by == "registered"]
    if registered:
        found.update((yield from _by_functions(turn, registered, data)))
    asked = [check for check in checks if check.by == "judge"]
    verdicts: Mapping[str, Verdict] | Stop = {}
    if asked and all(passed for passed, _ in found.values()):
        verdicts = yield from _by_judge(turn, asked, output.value)
    if isinstance(verdicts, Stop):
        _failures(turn, checks, found)
        return verdicts
    return _failures(turn, checks, {**found, **verdicts})


def _failures(turn: TurnState, checks: Iterable[Check], found: Mapping[str, Verdict]) -> Failures:
    """Note every verdict, and return those that did not pass, in the order of the definition."""
    failed: list[dict[str, str]] = []
    for check in checks:
        if check.name not in found:  # a judge is not asked about what has failed already
            continue
        passed, reason = found[check.name]
        turn.emit(ev.KeyResultChecked(name=check.name, passed=passed, by=check.by, reason=cut(reason, _REASON_CHARS)))
        if not passed:
            why = reason or check.description or "it does not hold"
            failed.append({"name": check.name, "reason": cut(why, _REASON_CHARS)})
    return tuple(failed)


def _by_functions(
    turn: TurnState, checks: list[Check], data: Mapping[str, Any]
) -> Generator[Effect, Result, Mapping[str, Verdict]]:
    found = yield CheckKeyResults(
        state=turn.state.id,
        checks=tuple((check.name, check.function) for check in checks),
        data=data,
        left=turn.time_left(),
    )
    if not isinstance(found, Verdicts):
        raise TypeError(f"checks want Verdicts, got {type(found).__name__}")
    turn.elapsed += found.seconds
    return found.verdicts


def _by_judge(
    turn: TurnState, checks: list[Check], output: Any
) -> Generator[Effect, Result, Mapping[str, Verdict] | Stop]:
    """Ask a judge in one call for all; a second one where the first was nonsense. What is not clear fails.

    Return a Stop at a limit.
    """
    size = len(json.dumps(output))
    if size > MAX_JUDGED_CHARS:
        reason = f"the output has {size} characters, too many to be judged; at most {MAX_JUDGED_CHARS} are"
        return dict.fromkeys((check.name for check in checks), (False, reason))
    schema = verdict_schema(turn.machine, checks)
    request = model.request(turn, judge_messages(turn.machine, turn.session, checks, output), schema, temperature=0.0)
    said = yield from model.ask(turn, "judge", request, model.no_moves(turn), partial(judged, checks))
    if said is None:
        return Stop("limit")
    if isinstance(said, ReplyError):
        return dict.fromkeys((check.name for check in checks), (False, "the judge gave no usable verdict"))
    silent = (False, "the judge gave no clear verdict on it")
    return {check.name: said.get(check.name, silent) for check in checks}


def _routed(turn: TurnState, function: str, output: Any) -> Generator[Effect, Result, Move | Stop]:
    """Return the move that a registered function picks, by its label or by the state that it leads to.

    Return a Stop if the function failed, picked none or may not go there.
    """
    state = turn.state
    data = {"output": output, "context": dict(turn.session.context), "input": turn.session.input}
    found = yield PickRoute(state=state.id, function=function, data=data, left=turn.time_left())
    if not isinstance(found, Routed):
        raise TypeError(f"a route wants Routed, got {type(found).__name__}")
    turn.elapsed += found.seconds
    error = None if found.error is None else cut(found.error, _REASON_CHARS)
    label = found.label
    moves = [move for move in state.moves if move.on == label] or [move for move in state.moves if move.target == label]
    moves = moves or [move for move in state.moves if move.on == "default"]
    if error is None and label is not None and not moves:
        ways = ", ".join(move.on or move.target for move in state.moves) or "none"
        error = f"{function} picked {label!r:.100}; the ways from here are {ways}"
    turn.emit(ev.RoutePicked(state=state.id, function=function, label=label, error=error))
    if error is not None:
        return Stop("stuck")
    if label is None:
        return Stop("passed")
    return (yield from handlers.first_allowed(turn, tuple(moves))) or Stop("stuck")


def _exhausted(turn: TurnState, output: Any) -> Generator[Effect, Result, Move | Stop]:
    """Return the move that follows when no attempt passed, or a Stop if none does."""
    then = turn.state.definition.on_exhausted
    turn.emit(ev.TaskExhausted(state=turn.state.id, then=then, output=output))
    if then == "raise":
        return Stop("exhausted")
    if then == "continue":
        return (yield from follow(turn, output))
    return Move(pointer=f"/states/{turn.state.id}/on_exhausted", target=then)


def follow(turn: TurnState, output: Any) -> Generator[Effect, Result, Move | Stop]:
    """Return the move that an output leads to, or a Stop: passed where there are no transitions, else stuck."""
    moves = turn.state.moves
    if turn.state.definition.route is not None:
        return (yield from _routed(turn, turn.state.definition.route, output))
    if not moves:
        return Stop("passed")
    return (yield from handlers.first_allowed(turn, labelled(moves, output))) or Stop("stuck")
