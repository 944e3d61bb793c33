"""The course of a task state: attempts, key results, feedback, and where its output leads.

Each attempt begins from the same context, memory and shared values: what a failed one changed is taken back.
An output counts when every key result passes; which move follows is read from the output (`_transition`, or
the output itself, against the labels `on`), else from the conditions.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llm_fsm._text import cut
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host
from llm_fsm.session.messages import ToolCall
from llm_fsm.turn.available_tools import call_key
from llm_fsm.turn.compiled import Check
from llm_fsm.turn.effects import CheckKeyResults, Effect, Execute, Executed, Result, Verdicts, subject
from llm_fsm.turn.guards import Move
from llm_fsm.turn.key_results import MAX_JUDGED_CHARS, MAX_OUTPUT_CHARS, Verdict, by_logic, judged, output_of
from llm_fsm.turn.prompt.tasks import judge_messages, task_messages, verdict_schema
from llm_fsm.turn.tool_loop import Loop, Rounds

_REASON_CHARS = 2000
_EMPTY = "the answer was empty"


@dataclass(frozen=True, slots=True)
class Output:
    """What an attempt handed in; `fault` says why it is none."""

    value: Any = None
    fault: str | None = None


class Working(Rounds):
    """The part of a turn that works on a task."""

    __slots__ = ()

    def work(self, waiting: Mapping[str, Any] | None = None) -> Generator[Effect, Result, Move | None]:
        """Work on the task of the current state to its end, and give the move that follows.

        `waiting`: the loop in which an attempt paused, with the answer put in. None: `stopped` or the pause says
        why the run goes no further.
        """
        plan = self.plan
        most = plan.state.max_retries + 1
        under_way = self.session.work
        attempt = 1 if waiting is None or under_way is None else max(1, under_way.attempt)
        while True:
            if waiting is None:
                self.note(ev.AttemptBegun(state=plan.id, attempt=attempt))
            output = yield from (self.execute(waiting) if plan.state.execute else self.answer_task(waiting))
            waiting = None
            if self.paused:
                return None
            failures = [] if self.stopped else (yield from self.check(output))
            if failures and not self.stopped and self.out_of_time():
                self.stopped = "limit"
            if self.stopped:
                self.give_up(attempt, "limit", "a limit of the run was reached")
                return None
            if not failures:
                self.note(ev.TaskPassed(state=plan.id, output=output.value))
                return (yield from self.follow(output.value))
            last = attempt == most
            self.note(ev.AttemptFailed(state=plan.id, attempt=attempt, failures=tuple(failures), last=last))
            if last:
                return (yield from self.exhausted(output.value))
            attempt += 1

    def give_up(self, attempt: int, name: str, reason: str) -> None:
        failure = {"name": name, "reason": reason}
        self.note(ev.AttemptFailed(state=self.plan.id, attempt=attempt, failures=(failure,), last=True))

    # -- one attempt

    def answer_task(self, waiting: Mapping[str, Any] | None) -> Generator[Effect, Result, Output]:
        """The model-and-tools loop of an attempt."""
        tools = self.offered()
        messages = task_messages(self.program, self.session, tools=bool(tools))
        loop = Loop("task", self.question(messages, None, tools=tools), self.no_look())
        reply = yield from self.rounds(loop if waiting is None else loop.take_up(waiting))
        if reply is None:
            if not self.paused:
                self.stopped = "limit"
            return Output()
        if len(reply.text) > MAX_OUTPUT_CHARS:
            return Output(
                None, f"the answer has {len(reply.text)} characters; at most {MAX_OUTPUT_CHARS} are taken"
            )
        value = output_of(reply.text)
        return Output(value, _EMPTY if value == "" else None)

    def execute(self, waiting: Mapping[str, Any] | None) -> Generator[Effect, Result, Output]:
        """The registered function of an attempt."""
        if waiting is None and self.spent():
            self.stopped = "limit"
            return Output()
        session, plan, under_way = self.session, self.plan, self.session.work
        name = plan.state.execute or ""
        feedback = () if under_way is None else under_way.feedback
        answers = () if waiting is None else tuple(waiting["answers"])
        # a pause that an older version wrote does not say what its answers are about
        about = () if waiting is None else tuple(waiting.get("about") or (None,) * len(answers))
        number = under_way.attempt if under_way is not None else 1
        key = None if waiting is None else waiting.get("key")
        if key is None:
            space = f"{session.conversation_id}/{session.turn}"
            call = ToolCall(id="", name=name, arguments="")
            key = call_key(space, session.time, len(self.events), call)
        found = yield Execute(
            state=plan.id,
            function=name,
            attempt=number,
            feedback="\n".join(f"{failure['name']}: {failure['reason']}" for failure in feedback),
            input=session.input,
            session=session,
            key=key,
            answers=answers,
            about=about,
            log={} if waiting is None else waiting["log"],
            used=self.used(),
        )
        if not isinstance(found, Executed):
            raise TypeError(f"a function wants Executed, got {type(found).__name__}")
        loop = {"asked_for": "execute", "key": key, "answers": list(answers), "about": list(about)}
        return self.executed(found, loop)

    def executed(self, found: Executed, loop: Mapping[str, Any]) -> Output:
        """Note what a function did."""
        self.usage += found.usage
        self.tool_calls += found.tool_calls
        self.elapsed += found.seconds - found.usage.seconds  # less than nothing where models were asked at once
        for event in found.happened:
            self.note(event)
        for event in accept_host(self.program.keys, self.session.context, found.context):
            self.note(event)
        for kind, old, new in (
            (ev.SharedSet, self.session.shared, found.shared),
            (ev.MemorySet, self.session.memory, found.memory),
        ):
            if new is not None and new != old:
                values = {key: value for key, value in new.items() if key not in old or old[key] != value}
                self.note(kind(values=values, removed=tuple(key for key in old if key not in new)))
        if found.limit is not None:
            most = getattr(self.program.limits, found.limit) or 0
            self.note(ev.LimitReached(limit=found.limit, value=most))
            self.stopped = "limit"
        elif found.paused is not None:
            asked = found.paused
            kind, what, call = asked.get("kind", "break"), str(asked.get("what", "")), asked.get("call")
            about = [*loop["about"], subject(kind, what, call)]
            self.pause(
                kind=kind,
                what=what,
                call=call,
                schema=asked.get("schema"),
                loop={**loop, "about": about, "log": asked.get("log", {})},
            )
        return Output(found.output, found.error)

    # -- key results

    def check(self, output: Output) -> Generator[Effect, Result, list[dict[str, str]]]:
        """What failed, by name; nothing when the output is accepted. A judge is asked last, if all else passed."""
        if output.fault is not None:
            return [{"name": "output", "reason": cut(output.fault, _REASON_CHARS)}]
        checks = self.plan.checks
        if not checks:
            return []
        data = {"output": output.value, "context": dict(self.session.context), "input": self.session.input}
        found: dict[str, Verdict] = {
            check.name: by_logic(check, data) for check in checks if check.by == "logic"
        }
        registered = [check for check in checks if check.by == "registered"]
        if registered:
            found.update((yield from self.by_functions(registered, data)))
        asked = [check for check in checks if check.by == "judge"]
        if asked and all(passed for passed, _ in found.values()):
            found.update((yield from self.by_judge(asked, output.value)))
        return self.failures(checks, found)

    def failures(self, checks: Iterable[Check], found: Mapping[str, Verdict]) -> list[dict[str, str]]:
        """Note every verdict; those that did not pass, in the order of the definition."""
        failed: list[dict[str, str]] = []
        for check in checks:
            if check.name not in found:  # a judge is not asked about what has failed already
                continue
            passed, reason = found[check.name]
            self.note(
                ev.KeyResultChecked(
                    name=check.name, passed=passed, by=check.by, reason=cut(reason, _REASON_CHARS)
                )
            )
            if not passed:
                why = reason or check.description or "it does not hold"
                failed.append({"name": check.name, "reason": cut(why, _REASON_CHARS)})
        return failed

    def by_functions(
        self, checks: list[Check], data: Mapping[str, Any]
    ) -> Generator[Effect, Result, Mapping[str, Verdict]]:
        found = yield CheckKeyResults(
            state=self.plan.id,
            checks=tuple((check.name, check.function) for check in checks),
            data=data,
            left=self.time_left(),
        )
        if not isinstance(found, Verdicts):
            raise TypeError(f"checks want Verdicts, got {type(found).__name__}")
        self.elapsed += found.seconds
        return found.verdicts

    def by_judge(self, checks: list[Check], output: Any) -> Generator[Effect, Result, Mapping[str, Verdict]]:
        """One call for all; a second one where the first was nonsense. What is not clear fails."""
        size = len(json.dumps(output))
        if size > MAX_JUDGED_CHARS:
            reason = (
                f"the output has {size} characters, too many to be judged; at most {MAX_JUDGED_CHARS} are"
            )
            return dict.fromkeys((check.name for check in checks), (False, reason))
        schema = verdict_schema(self.program, checks)
        request = self.question(
            judge_messages(self.program, self.session, checks, output), schema, temperature=0.0
        )
        for _ in range(2):
            reply = yield from self.call("judge", request, self.no_look())
            if reply is None:
                self.stopped = "limit"
                return {}
            try:
                said = judged(checks, reply.text)
            except ReplyError as error:
                self.note(ev.ReplyRejected(fault=error.fault, reason=str(error)))
                request = self.again(request, reply.text, str(error))
            else:
                silent = (False, "the judge gave no clear verdict on it")
                return {check.name: said.get(check.name, silent) for check in checks}
        return dict.fromkeys((check.name for check in checks), (False, "the judge gave no usable verdict"))

    # -- where it leads

    def exhausted(self, output: Any) -> Generator[Effect, Result, Move | None]:
        """What follows when no attempt passed."""
        then = self.plan.state.on_exhausted
        self.note(ev.TaskExhausted(state=self.plan.id, then=then, output=output))
        if then == "raise":
            self.stopped = "exhausted"
            return None
        if then == "continue":
            return (yield from self.follow(output))
        return Move(pointer=f"/states/{self.plan.id}/on_exhausted", target=then)

    def follow(self, output: Any) -> Generator[Effect, Result, Move | None]:
        """The move that an output leads to; None ends the run: passed where there are no transitions."""
        moves = self.plan.moves
        if not moves:
            self.stopped = "passed"
            return None
        label = output.get("_transition") if isinstance(output, dict) else output
        if label is None or isinstance(label, bool | int | float):
            label = json.dumps(label)  # the model's `true` is read as JSON, and the label is a text
        named = [move for move in moves if isinstance(label, str) and move.on == label.strip()]
        default = [move for move in moves if move.on == "default"]
        rest = [move for move in moves if move.on is None]
        move = yield from self.first((*named, *default, *rest))
        if move is None:
            self.stopped = "stuck"
        return move
