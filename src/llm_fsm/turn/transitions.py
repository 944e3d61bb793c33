"""How a run goes on by itself: through autos, deciding states and tasks, to the first state that waits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from llm_fsm._copies import made
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply, has
from llm_fsm.session.history import surplus
from llm_fsm.session.memory import Background, MemoryFault
from llm_fsm.session.redaction import blotted
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.available import own_words
from llm_fsm.turn.corrections import Correction, correction, outside
from llm_fsm.turn.effects import Effect, Point, Result
from llm_fsm.turn.guards import HANDOVER, Move
from llm_fsm.turn.key_results import summary_of
from llm_fsm.turn.prompt.tasks import SUMMARY_SCHEMA, summary_messages
from llm_fsm.turn.repair.questions import puts
from llm_fsm.turn.subflows import Nested
from llm_fsm.turn.tool_results import shortened
from llm_fsm.turn.turn_state import Run


class Moving(Nested):
    """The part of a turn that moves."""

    __slots__ = ()

    def settle(self) -> Run:
        """Go on to the first state that waits, for the user or for an answer."""
        while not self.plan.rests:
            if not (yield from self.onward()):
                return

    def onward(self) -> Generator[Effect, Result, bool]:
        """Go one step on without the user; False where the run waits or goes no further."""
        plan = self.plan
        by = plan.kind if plan.kind in ("decide", "task") else "auto"
        if plan.kind == "final":
            return bool(self.session.stack) and (yield from self.returns())
        if plan.kind == "subflow":
            return (yield from self.calls())
        if plan.kind == "task":
            given = self.session.input
            move = yield from self.work()
            if move is not None and self.repeats(plan.id, given):
                return False
        else:
            move = yield from self.first(plan.moves if plan.kind == "decide" else plan.autos)
            if move is None and plan.kind == "decide":
                self.stopped = "stuck"
            elif move is None and plan.kind == "wait":
                self.wait()
        return (yield from self.go(move, by))

    def go(self, move: Move | None, by: str) -> Generator[Effect, Result, bool]:
        """Make the move, if there is one. A flow that has passed comes back. False where the run goes no further."""
        if move is not None:
            return (yield from self.step(move, by))
        if self.stopped == "passed" and self.session.stack:
            self.stopped = ""
            return (yield from self.returns())
        return False

    def calls(self) -> Generator[Effect, Result, bool]:
        """Begin the flow of the current state; False when the limit of such moves is reached."""
        if not self.counted():
            return False
        yield from self.call_flow()
        self.say_fixed()
        return True

    def returns(self, how: str = "final") -> Generator[Effect, Result, bool]:
        """Come back from a flow or a digression, and go on from there; False where the run goes no further."""
        if not self.counted():
            return False
        before, frame = self.session, self.session.stack[-1]
        move = yield from self.come_back(how)
        if frame.kind == "subflow":
            return (yield from self.go(move, "flow"))
        if frame.caller is not None:
            self.hand_on(before)
            if (yield from self.reconsider_callers(before)):
                return True
        self.reopened = frame
        if not (yield from self.reconsider(frame)):
            self.say_fixed()
        return True

    def step(self, move: Move, by: str) -> Generator[Effect, Result, bool]:
        """One move without the user; False when the limit of such moves is reached."""
        if not self.counted():
            return False
        yield from self.enter(move, by)
        return True

    def enter(self, move: Move, by: str, given: Mapping[str, Any] | None = None) -> Run:
        """Make a move. `given`: what a reply says about the definition that it leads into."""
        if self.plan.state.summarize and self.summaries and not self.comes_back(move):
            yield from self.summarise_left()
        place = self.session.open_places().get(move.target) if move.place is None else move.place
        if place is not None:
            flow = self.session.flow_at(place)
            if (yield from self.resume(place)):
                if given and self.session.flow == flow:
                    yield from self.keep(given)
                return
        else:
            if move.returns and not self.session.is_in(move.target):
                self.leave_open(move.target, move.caller)
            if move.pointer == HANDOVER:  # a person goes on there: nobody comes back to what was left open
                while self.session.stack and self.session.stack[-1].in_place:
                    self.leave("handover")
            exhausted = move.pointer.endswith("/on_exhausted")
            self.note(
                made(
                    ev.StateEntered,
                    state=move.target,
                    previous=self.session.state,
                    by="exhausted" if exhausted else by,
                    transition=move.pointer,
                    on_path=self.has("correct") and not move.returns and not self.session.aside(),
                )
            )
        if given:
            yield from self.keep(given)
        if self.points:
            yield from self.run(Point.POST_TRANSITION)
        self.say_fixed()

    def comes_back(self, move: Move) -> bool:
        """True for a digression that is told of at once, which leaves its state for no further message."""
        there = self.program.states.get(move.target) if move.caller is None else None
        return move.returns and there is not None and there.kind == "final"

    def keep(self, update: Mapping[str, Any]) -> Run:
        """Keep what a reply says, as far as the definition at work lets it."""
        changed: set[str] = set()
        for event in accept_reply(self.program.keys, self.session.context, update, self.session.begun):
            self.note(event)
            if isinstance(event, ev.ContextSet):
                changed.update(event.values, event.removed)
        if changed and self.points:
            yield from self.run(Point.CONTEXT_UPDATE, updated=changed)

    def reconsider(self, frame: Frame) -> Generator[Effect, Result, bool]:
        """Back on the way: True where an answer that was changed meanwhile leads back to where it is decided again."""
        session = self.session
        changed = tuple(
            key
            for key, value in frame.before.items()
            if session.context.get(key) != value and not key.startswith("_")
        )
        if not changed or not self.has("correct"):
            return False
        found = correction(self.program, replace(session, context=frame.before), session, changed)
        if found is None:
            return False
        yield from self.turned(found, changed)
        return True

    def reconsider_callers(self, before: Session) -> Generator[Effect, Result, bool]:
        """As `reconsider`, for the definitions that wait: where one of them is led another way, its flow is left."""
        for place, changed, found in outside(self.root, before, self.session) if self.has("correct") else ():
            if found is not None:
                while len(self.session.stack) > place:
                    self.leave("corrected")
                yield from self.turned(found, changed)
                return True
        return False

    def turned(self, found: Correction, changed: tuple[str, ...]) -> Run:
        """Turn back where nothing was open, and go on from there where one way is left."""
        self.reopened, self.turned_back = None, True
        yield from self.turn_back(found, changed, named=False)
        if found.on is not None:
            yield from self.enter(found.on, "correct")
        else:
            self.say_fixed()

    def turn_back(self, found: Correction, changed: tuple[str, ...], *, named: bool) -> Run:
        """To where the way is decided again, without what was collected on the way that is no longer taken."""
        here, context = self.session.state, self.session.context
        dropped = tuple(key for key in found.dropped if key in context)
        self.note(ev.Corrected(keys=changed, named=named, back_to=found.state, dropped=dropped))
        if dropped:
            self.note(ev.ContextSet(source="model", removed=dropped))
        self.note(ev.StateEntered(state=found.state, previous=here, by="correct", on_path=True))
        yield from self.run(Point.POST_TRANSITION)

    def resume(self, place: int) -> Generator[Effect, Result, bool]:
        """Come back to an open state that was named, on the way out of other definitions, too.

        A digression that is left for the way itself is done with, and so is a flow that is left. True where an
        answer that was changed meanwhile leads another way.
        """
        if not self.session.stack[place].main:
            self.leave_open()
        while place not in self.session.open_frames():
            session = self.session
            border = len(session.stack) - len(session.open_frames()) - 1
            if session.stack[border].kind == "subflow":
                while len(self.session.stack) > border:
                    self.leave("resumed")
                continue
            self.conceal()
            self.come_back_to(border)
            before = session.lowered(border)
            self.hand_on(before)
            if (yield from self.reconsider_callers(before)):
                return True
            if border == place:
                return (yield from self.reconsider(session.stack[border]))
            if place > (session.stack[border].caller or 0):
                place += len(session.stack) - border - 1
            if place in self.session.open_frames():
                self.leave_open()
        return (yield from self.reconsider(self.come_back_to(place)))

    def come_back_to(self, place: int) -> Frame:
        """Be back at a place on the stack that a digression left open, whatever lies above it."""
        frame = self.reopened = self.session.stack[place]
        state, here = frame.kept["state"], self.session.state
        self.note(ev.FlowReturned(kind="digression", state=state, ended=here, how="resumed", frame=place))
        return frame

    def leave_open(self, entered: str = "", caller: int | None = None) -> None:
        """Put the current state on the stack, to come back to. `entered`: the digression that begins; see `Frame`."""
        here, asked, wanted = self.session.state, self.last_question(), self.asked_for()
        if caller is not None:
            self.conceal()
        self.note(
            ev.FlowPushed(
                kind="digression", state=here, entered=entered, asked=asked, wanted=wanted, caller=caller
            )
        )

    def last_words(self, back: int = 0) -> str:
        """What was said in the current flow, so many exchanges back from the misses, as far as the history keeps it."""
        session = self.session
        back += 1 + self.missed()
        return session.window[-back][1] if back <= len(session.window) else ""

    def missed(self) -> int:
        """How many messages in a row were not understood in this state just before this one."""
        session = self.session
        if session.misses is None or session.misses[1] < session.turn - 1:
            return 0
        return max(0, min(session.misses[0] - (session.misses[1] == session.turn), session.turns_in_state - 1))

    def last_question(self) -> str:
        """What was said last in this state that asks something; what was said last at all, where nothing does."""
        since = min(self.session.turns_in_state - self.missed(), len(self.session.window))
        said = map(self.last_words, range(since))
        return next(filter(puts, said), "") or self.last_words()

    def asked_for(self) -> tuple[str, ...]:
        """The keys that the user was asked for here, before this turn."""
        session = self.session
        known = {key for key, (turn, _) in session.origins.items() if turn < session.turn}
        return tuple(key for key in self.plan.collects if not (key in known and has(session.context, key)))

    def repeats(self, state: str, given: Any) -> bool:
        """True, and noted, when this task made the same of the same before: no progress."""
        session = self.session
        whole = [session.flow, state, session.context, given, session.input, session.memory, session.shared]
        digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        if digest in self.seen:
            self.stopped = "limit"
            self.note(ev.LimitReached(limit="no_progress", value=1))
            return True
        self.seen |= {digest}
        return False

    def wait(self) -> None:
        """Park the run in a state that waits."""
        state, now = self.plan.state, self.moment
        self.pause(
            kind="wait",
            what=state.wait_for or state.purpose or state.description or self.plan.id,
            schema=state.answer_schema,
            expires=None if state.timeout is None else now + state.timeout,
            reminders=tuple(now + seconds for seconds in sorted(set(state.remind))),
        )

    # -- summaries

    def summarise_left(self) -> Run:
        """Summarise the state that is about to be left, and in the same call what the history is soon to lose."""
        settings = self.program.definition.history
        gone = surplus(self.session.window, settings, afresh=True) if settings.strategy == "summary" else 0
        if (yield from self.summarise(self.plan.id, self.left_behind(gone))) and gone:
            self.note(ev.HistoryTrimmed(dropped=gone))

    def left_behind(self, gone: int) -> Any:
        """What happened in the state that is about to be left, for a summary. `gone`: the exchanges that go with it."""
        state, window, news = self.plan.state, self.session.window, self.since_summary()
        since = len(window) if len(news) < len(self.events) else max(gone, len(window) - 3)
        happened = {
            "state": self.plan.id,
            "purpose": state.purpose or state.description,
            "output": shortened(self.session.input),
            "context": self.program.keys.visible(self.session.context),
            "events": [found for event in news if (found := _told(event)) is not None],
            "conversation": [list(exchange) for exchange in (*window[:gone], *window[since:])],
        }
        return blotted(self.secrets(), happened)

    def since_summary(self) -> list[ev.Event]:
        """What happened in this turn and is not in the summary yet: each definition has one of its own."""
        begin, known = 0, self.outset.summary
        for place, event in enumerate(self.events, start=1):
            if isinstance(event, ev.FlowPushed | ev.FlowReturned):
                begin, known = 0, ""
            elif isinstance(event, ev.Summarised) and event.summary != known:
                begin, known = place, event.summary
        return self.events[begin:]

    def summarise(self, of: str, happened: Any) -> Generator[Effect, Result, bool]:
        """One call for a summary and a to-do list, and another one where its reply is none.

        A reply that lacks one of them leaves that as it was. False where there is no summary.
        """
        messages = summary_messages(self.program, self.session, happened)
        about = {
            "of": of,
            "happened": happened,
            "summary": self.session.summary,
            "background": self.session.memory.get("background", {}),
        }
        request = self.question(messages, SUMMARY_SCHEMA)
        for _ in range(2):
            used = self.used()
            if any(used[name] >= most for name, most in self.program.bounds):
                return False
            reply = yield from self.call("summary", request, self.no_look(), about=about)
            if reply is None:
                return False
            try:
                summary, todo = summary_of(reply.text)
                break
            except ReplyError as error:
                self.note(ev.ReplyRejected(fault=error.fault, reason=str(error)))
                request = self.again(request, reply.text, str(error))
        else:
            return False
        self.note(ev.Summarised(of=of, summary=summary or self.session.summary, todo_list=todo))
        if todo is not None:
            self.keep_todo(todo)
        return bool(summary)

    def keep_todo(self, todo: tuple[str, ...]) -> None:
        before = self.session.memory.get("background", {})
        try:
            after = Background.from_dict(before).with_todo_list(todo).to_dict()
        except MemoryFault as fault:
            self.note(ev.ReplyRejected(fault="todo-list", reason=str(fault)))
            return
        if after != before:
            self.note(ev.MemorySet(values={"background": after}))

    # -- words without a model

    def say_fixed(self) -> None:
        if self.plan.fixed is not None:
            self.said.append(own_words(self.program, self.plan, self.session))


def _told(event: ev.Event) -> dict[str, Any] | None:
    """What a summary is told of an event; None for what it need not know."""
    match event:
        case ev.ToolReturned():
            result = event.error if event.error is not None else shortened(event.result, 1000)
            return {
                "called": event.name,
                "arguments": shortened(dict(event.arguments), 500),
                "result": result,
            }
        case ev.AttemptFailed():
            return {"attempt_failed": [dict(failure) for failure in event.failures]}
        case ev.UserSaid():
            return {"user": shortened(event.text, 1000)}
        case _:
            return None
