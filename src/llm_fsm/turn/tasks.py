"""Run a task state: attempts, key results, feedback, and the move that follows from its output.

Each attempt begins from the same context, memory and shared values, because the changes of a failed
one are undone. An output counts when every key result passes. The output then names the move that
follows, by `_transition` or as a whole, against the labels `on`. Otherwise the conditions decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, read
from llm_fsm._text import cut
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.messages import ToolCall
from llm_fsm.session.redaction import redacted
from llm_fsm.session.session import Session, clock_names
from llm_fsm.turn import breakdown, failures, handlers, model, tool_loop
from llm_fsm.turn.agreement import Permit, permit
from llm_fsm.turn.compiled import Check
from llm_fsm.turn.effects import (
    CheckKeyResults,
    Execute,
    Executed,
    PickRoute,
    Routed,
    Verdicts,
    subject,
)
from llm_fsm.turn.guards import Move, Moves, labelled
from llm_fsm.turn.key_results import (
    MAX_JUDGED_CHARS,
    MAX_OUTPUT_CHARS,
    Verdict,
    by_logic,
    judged,
    output_of,
)
from llm_fsm.turn.prompt.tasks import judge_messages, task_messages, verdict_schema
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.tool_policy import call_key
from llm_fsm.turn.turn_state import LIMITED, RunTo, Stop, TurnState, result_of

_REASON_CHARS = 2000
"""A fault may quote the whole output. Records and prompts keep the beginning of the reason."""
_EMPTY = "the answer was empty"
UNDONE = "nothing was done: no tool that acts has returned a result; call it"
Failures = tuple[TextMap, ...]
"""The name and the reason of each check that failed."""
Attempted = tuple[Any, Failures]
"""The output of an attempt, and its failures."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of an attempt, or in `fault` the reason why there is none."""

    value: Any = None
    fault: str | None = None


def work(turn: TurnState, waiting: JsonMap | None = None) -> RunTo[Move | Stop | None]:
    """Work on the task of the current state to its end, and return the move that follows.

    Args:
        turn: The turn, in a task state.
        waiting: The loop in which an attempt paused, with the answer put in.

    Returns:
        The move, or a Stop if the run goes no further. None if it pauses.
    """
    state = turn.state
    most = state.definition.max_retries + 1
    attempt = 1
    if waiting is not None and turn.session.work is not None:
        attempt = max(1, turn.session.work.attempt)
    while True:
        before = len(turn.events)
        if waiting is None:
            turn.emit(ev.AttemptBegun(state=state.id, attempt=attempt))
        unmet = _permit(turn).unmet
        if unmet is not None:  # another attempt would be given the same values
            name = state.definition.execute or state.id
            turn.emit(ev.ToolRefused(name=name, reason=unmet.reason, sentence=unmet.sentence))
            _fail(turn, attempt, ({"name": "agreed", "reason": unmet.reason},), last=True)
            return (yield from _exhausted(turn, None))
        outcome = yield from _attempt(turn, waiting)
        waiting = None
        if outcome is None:
            return None
        if isinstance(outcome, Stop):
            failure = {"name": "limit", "reason": "a limit of the run was reached"}
            _fail(turn, attempt, (failure,), last=True)
            return outcome
        output, failures = outcome
        if not failures:
            turn.emit(ev.TaskPassed(state=state.id, output=output))
            return (yield from follow(turn, output))
        # who was told that nothing is done, and calls nothing again, will not do it
        last = attempt == most or (attempt > 1 and _only_talked(turn, before))
        _fail(turn, attempt, failures, last=last)
        if last:
            is_broken = breakdown.has_failed(turn, before)
            out = way_out(turn) if is_broken and state.definition.on_exhausted == "raise" else None
            return out or (yield from _exhausted(turn, output))
        attempt += 1


def _permit(turn: TurnState) -> Permit:
    """Judge the task as a whole, if it acts otherwise than by tools that a person approves."""
    policies = turn.tools.policies
    acting = turn.tools.acting(turn.state.id, acts=True) if _acts_by_tools(turn) else ()
    approved = bool(acting) and all(policies[name].approval for name in acting)
    if approved or not turn.state.definition.acts:
        return Permit()
    return permit(turn, f"{turn.session.flow}/{turn.state.id}")


def _acts_by_tools(turn: TurnState) -> bool:
    return turn.state.definition.acts and turn.state.definition.execute is None


def _only_talked(turn: TurnState, before: int) -> bool:
    """Return true if an attempt at an act called no tool."""
    kinds = {type(event) for event in turn.events[before:]}
    return _acts_by_tools(turn) and kinds.isdisjoint((ev.ToolReturned, ev.ToolRefused))


def _is_done(turn: TurnState, waiting: JsonMap) -> bool:
    """Return true if a tool that acts has a result: of this turn, of an earlier one in which the
    attempt paused, or on record.
    """
    acting = turn.tools.acting(turn.state.id, acts=True)
    for name in acting:
        if permit(turn, turn.tools.policies[name].act).key in turn.session.acts:
            return True
    for event in turn.events:
        if isinstance(event, ev.ToolReturned) and event.error is None and event.name in acting:
            return True
    called: dict[str, str] = {}
    for message in waiting.get("messages", ()):
        called |= {call["id"]: call["name"] for call in message["tool_calls"]}
        is_error = message["content"].startswith('{"error"')
        if called.get(message["tool_call_id"]) in acting and not is_error:
            return True
    done = waiting.get("done", {})
    return any(called[id] in acting and "value" in done[id] for id in done)


def _fail(turn: TurnState, attempt: int, failures: Failures, *, last: bool) -> None:
    shown = redacted(turn.secrets(), failures)  # errors of the host may repeat a secret
    event = ev.AttemptFailed(state=turn.state.id, attempt=attempt, failures=tuple(shown), last=last)
    turn.emit(event)


def _attempt(turn: TurnState, waiting: JsonMap | None) -> RunTo[Attempted | Stop | None]:
    """Make one attempt. Return its output and failures, a Stop at a limit, or None if it pauses."""
    work_once = _execute if turn.state.definition.execute else _ask_model
    output = yield from work_once(turn, waiting)
    if not isinstance(output, Output):
        return output
    acts = _acts_by_tools(turn) and output.fault is None
    if acts and not _is_done(turn, waiting or {}):
        output = Output(output.value, UNDONE)
    failures = yield from _check(turn, output)
    if isinstance(failures, Stop):
        return failures
    # Another attempt would begin after the end of the run's time.
    if failures and turn.out_of_time():
        return LIMITED
    return output.value, failures


# -- An attempt of a model -------------------------------------------------------------------------


def _ask_model(turn: TurnState, waiting: JsonMap | None) -> RunTo[Output | Stop | None]:
    """Run the model-and-tools loop. Return a Stop at a limit, or None if it pauses."""
    tools = tool_loop.offered(turn)
    messages = task_messages(turn.machine, turn.session, tools=bool(tools))
    request = model.request(turn, messages, None, tools=tools)
    loop = Loop("task", request, model.no_moves(turn))
    if waiting is not None:
        loop.take_up(waiting)
    reply = yield from tool_loop.run(turn, loop)
    if reply is None:
        return None if turn.paused else LIMITED
    size = len(reply.text)
    if size > MAX_OUTPUT_CHARS:
        reason = f"the answer has {size} characters; at most {MAX_OUTPUT_CHARS} are taken"
        return Output(None, reason)
    value = output_of(reply.text)
    return Output(value, _EMPTY if value == "" else None)


# -- An attempt of a function ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Paused:
    """The past of a function that paused and runs again: its key, the answers, and its log."""

    key: str | None = None
    answers: tuple[Any, ...] = ()
    about: tuple[Any, ...] = ()
    log: JsonMap = field(default_factory=dict)


def _past(waiting: JsonMap | None) -> _Paused:
    if waiting is None:
        return _Paused()
    answers = tuple(waiting["answers"])
    # A pause that an older version wrote does not name the subjects of its answers.
    about = tuple(waiting.get("about") or (None,) * len(answers))
    return _Paused(waiting.get("key"), answers, about, waiting["log"])


def _execute(turn: TurnState, waiting: JsonMap | None) -> RunTo[Output | Stop | None]:
    """Run the registered function of an attempt. Return a Stop at a limit, or None if it pauses."""
    if waiting is None and turn.limit_reached():
        return LIMITED
    session = turn.session
    name = turn.state.definition.execute or ""
    past = _past(waiting)
    permitted = _permit(turn)
    # A crash or a repeated attempt must not act twice: the recorded result counts.
    if permitted.key in session.acts:
        reason = "done already; its recorded result counts"
        turn.emit(ev.ToolRefused(name=name, reason=reason, sentence="spent"))
        done = read(
            session.acts[permitted.key], Executed, "an act on record cannot be read: result"
        )
        return _record_execution(turn, done, {})
    # A function that paused keeps its key, so that its own calls find their results.
    key = past.key or permitted.key
    if not key:
        namespace = f"{session.conversation_id}/{session.turn}"
        call = ToolCall(id="", name=name, arguments="")
        key = call_key(namespace, session.time, len(turn.events), call)
    attempt = 1 if session.work is None else session.work.attempt
    effect = Execute(
        state=turn.state.id,
        function=name,
        attempt=attempt,
        feedback=_feedback(session),
        input=session.input,
        session=session,
        key=key,
        answers=past.answers,
        about=past.about,
        log=past.log,
        used=turn.used(),
    )
    result = yield from result_of(effect, Executed)
    loop = {
        "asked_for": "execute",
        "key": key,
        "answers": list(past.answers),
        "about": list(past.about),
    }
    output = _record_execution(turn, result, loop)
    if permitted.key and isinstance(output, Output) and output.fault is None:
        parts = {name: getattr(result, name) for name in ("output", "context", "shared", "memory")}
        turn.emit(ev.Acted(act=name, key=key, result=parts))
    return output


def _feedback(session: Session) -> str:
    """Return the failures of the attempt before, a line for each."""
    if session.work is None:
        return ""
    failures = session.work.feedback
    return "\n".join(f"{failure['name']}: {failure['reason']}" for failure in failures)


def _record_execution(turn: TurnState, result: Executed, loop: JsonMap) -> Output | Stop | None:
    """Record a function's result. Return its output, a Stop at a limit, or None if it pauses."""
    turn.usage += result.usage
    turn.tool_calls += result.tool_calls
    # Models that were asked at the same time make this negative.
    turn.elapsed += result.seconds - result.usage.seconds
    for event in result.happened:
        if isinstance(event, ev.FunctionFailed):
            failures.record(turn, event)
        else:
            turn.emit(event)
    session = turn.session
    names = session.system_names()
    turn.emit_all(accept_host(turn.keys, session.context, result.context, names=names))
    _emit_changes(turn, ev.SharedSet, turn.session.shared, result.shared)
    _emit_changes(turn, ev.MemorySet, turn.session.memory, result.memory)
    # What the function wrote before the limit stays: it has happened.
    if result.limit is not None:
        most = getattr(turn.machine.limits, result.limit) or 0
        turn.emit(ev.LimitReached(limit=result.limit, value=most))
        return LIMITED
    if result.paused is not None:
        _pause(turn, result.paused, loop)
        return None
    return Output(result.output, result.error)


def _emit_changes(
    turn: TurnState, kind: type[ev.SharedSet | ev.MemorySet], old: JsonMap, new: JsonMap | None
) -> None:
    """Record the values that a function wrote or removed. `new` None: it changed nothing."""
    if new is None or new == old:
        return
    values: JsonDict = {}
    for key, value in new.items():
        if key not in old or old[key] != value:
            values[key] = value
    removed = tuple(key for key in old if key not in new)
    turn.emit(kind(values=values, removed=removed))


def _pause(turn: TurnState, asked: JsonMap, loop: JsonMap) -> None:
    """Pause where a function asks a person."""
    kind, what, call = (asked.get("kind", "break"), str(asked.get("what", "")), asked.get("call"))
    about = [*loop["about"], subject(kind, what, call)]
    turn.pause(
        kind=kind,
        what=what,
        call=call,
        schema=asked.get("schema"),
        loop={**loop, "about": about, "log": asked.get("log", {})},
    )


# -- Key results -----------------------------------------------------------------------------------


def _check(turn: TurnState, output: Output) -> RunTo[Failures | Stop]:
    """Return the failed checks; none if the output is accepted. Return a Stop at a limit.

    A judge costs a call, so it is asked last, if all else passed.
    """
    if output.fault is not None:
        return ({"name": "output", "reason": cut(output.fault, _REASON_CHARS)},)
    checks = turn.state.checks
    if not checks:
        return ()
    data = _check_data(turn, output.value)
    session = turn.session
    of_rules = {**clock_names(session.time, session.timezone), **data}  # rules read days and times
    verdicts: dict[str, Verdict] = {}
    for check in checks:
        if check.by == "logic":
            verdicts[check.name] = by_logic(check, of_rules)
    registered = [check for check in checks if check.by == "registered"]
    if registered:
        verdicts.update((yield from _by_functions(turn, registered, data)))
    for_judge = [check for check in checks if check.by == "judge"]
    # A judge costs a call, and cannot save an output that failed already.
    if for_judge and all(passed for passed, _ in verdicts.values()):
        by_judge = yield from _by_judge(turn, for_judge, output.value)
        if isinstance(by_judge, Stop):
            _failures(turn, checks, verdicts)
            return by_judge
        verdicts.update(by_judge)
    return _failures(turn, checks, verdicts)


def _check_data(turn: TurnState, output: Any) -> JsonDict:
    """Return the data that checks and routes of the host read."""
    session = turn.session
    return {"output": output, "context": dict(session.context), "input": session.input}


def _failures(
    turn: TurnState, checks: Iterable[Check], verdicts: Mapping[str, Verdict]
) -> Failures:
    """Record every verdict, and return those that did not pass, in the order of the definition."""
    failed: list[dict[str, str]] = []
    for check in checks:
        if check.name not in verdicts:  # a judge is not asked once another check failed
            continue
        passed, reason = verdicts[check.name]
        shown = cut(reason, _REASON_CHARS)
        turn.emit(ev.KeyResultChecked(name=check.name, passed=passed, by=check.by, reason=shown))
        if not passed:
            why = reason or check.description or "it does not hold"
            failed.append({"name": check.name, "reason": cut(why, _REASON_CHARS)})
    return tuple(failed)


def _by_functions(
    turn: TurnState, checks: list[Check], data: JsonMap
) -> RunTo[Mapping[str, Verdict]]:
    effect = CheckKeyResults(
        state=turn.state.id,
        checks=tuple((check.name, check.function) for check in checks),
        data=data,
        left=turn.time_left(),
    )
    result = yield from result_of(effect, Verdicts)
    turn.elapsed += result.seconds
    failures.record(turn, *result.failed)
    return result.verdicts


def _by_judge(
    turn: TurnState, checks: list[Check], output: Any
) -> RunTo[Mapping[str, Verdict] | Stop]:
    """Ask a judge in one call for all checks, and once more if its reply was unreadable.

    A check without a clear verdict fails. Return a Stop at a limit.
    """
    names = [check.name for check in checks]
    size = len(json.dumps(output))
    if size > MAX_JUDGED_CHARS:
        most = MAX_JUDGED_CHARS
        reason = f"the output has {size} characters, too many to be judged; at most {most} are"
        return dict.fromkeys(names, (False, reason))
    messages = judge_messages(turn.machine, turn.session, checks, output)
    schema = verdict_schema(turn.machine, checks)
    request = model.request(turn, messages, schema, temperature=0.0)
    read = partial(judged, checks)
    verdicts = yield from model.ask(turn, "judge", request, model.no_moves(turn), read)
    if verdicts is None:
        return LIMITED
    if isinstance(verdicts, ReplyError):
        return dict.fromkeys(names, (False, "the judge gave no usable verdict"))
    unclear = (False, "the judge gave no clear verdict on it")
    return {name: verdicts.get(name, unclear) for name in names}


# -- The move that follows -------------------------------------------------------------------------


def _routed(turn: TurnState, function: str, output: Any) -> RunTo[Move | Stop]:
    """Return the move that a registered function picks, by its label or by its target.

    Return a Stop if the function failed, picked none or may not go there.
    """
    state = turn.state
    data = _check_data(turn, output)
    effect = PickRoute(state=state.id, function=function, data=data, left=turn.time_left())
    result = yield from result_of(effect, Routed)
    turn.elapsed += result.seconds
    failures.record(turn, result.failed)
    error = None if result.error is None else cut(result.error, _REASON_CHARS)
    label = result.label
    moves = _picked(state.moves, label)
    if error is None and label is not None and not moves:
        ways = ", ".join(move.on or move.target for move in state.moves) or "none"
        error = f"{function} picked {label!r:.100}; the ways from here are {ways}"
    turn.emit(ev.RoutePicked(state=state.id, function=function, label=label, error=error))
    if error is not None:
        out = None if result.failed is None else way_out(turn)
        return out or Stop("stuck")
    if label is None:
        return Stop("passed")
    return (yield from handlers.first_allowed(turn, moves)) or Stop("stuck")


def _picked(moves: Iterable[Move], label: str | None) -> Moves:
    """Return the moves of a label, else those to a state of that name, else the default."""
    by_label = tuple(move for move in moves if move.on == label)
    by_target = tuple(move for move in moves if move.target == label)
    return by_label or by_target or tuple(move for move in moves if move.on == "default")


def way_out(turn: TurnState) -> Move | Stop | None:
    """Return what follows when the host's own code failed; None if the run has no user."""
    move = breakdown.way_out(turn)
    if move is None and not turn.root.alone:
        return Stop("open", ends=False)
    return move


def _exhausted(turn: TurnState, output: Any) -> RunTo[Move | Stop]:
    """Return the move that follows when no attempt passed, or a Stop if none does."""
    then = turn.state.definition.on_exhausted
    if then == "continue" and turn.state.definition.acts:
        then = "raise"  # what follows a task that acts follows its act
    turn.emit(ev.TaskExhausted(state=turn.state.id, then=then, output=output))
    if then == "raise":
        return Stop("exhausted")
    if then == "continue":
        return (yield from follow(turn, output))
    return Move(pointer=f"/states/{turn.state.id}/on_exhausted", target=then)


def follow(turn: TurnState, output: Any) -> RunTo[Move | Stop]:
    """Return the move that follows an output, or a Stop: passed if there are no transitions, else
    stuck.
    """
    moves = turn.state.moves
    route = turn.state.definition.route
    if route is not None:
        return (yield from _routed(turn, route, output))
    if not moves:
        return Stop("passed")
    return (yield from handlers.first_allowed(turn, labelled(moves, output))) or Stop("stuck")
