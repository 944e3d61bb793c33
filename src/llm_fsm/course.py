"""The course of one turn: what happens between a message and the words that answer it.

Pure: no clock, network, random number, log, lock or await. A turn is written as generators that yield
effects and are sent their results, so that its order is the order of the lines in `Course.message`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from llm_fsm import events as ev
from llm_fsm.context import accept_host, accept_reply, initial_context, missing, secret_texts, without
from llm_fsm.effects import AskModel, Effect, HandlerResult, HandlerResults, Point, Result, RunHandlers
from llm_fsm.errors import ReplyError
from llm_fsm.foresight import Outlook, outlook, own_words, turn_view
from llm_fsm.history import surplus
from llm_fsm.limits import exceeded
from llm_fsm.messages import LLMMessage, LLMRequest, ModelReply, Usage
from llm_fsm.program import Program, StatePlan
from llm_fsm.prompts import retry_line, turn_prompt
from llm_fsm.reply import Reply, parse, parse_words
from llm_fsm.session import Session, apply, cut
from llm_fsm.transition import Move, Refusal, judge, verdict
from llm_fsm.wording import own_question

MAX_MESSAGE_CHARS = 100_000
_QUOTED_CHARS = 4000
_CANNOT_GO_ON = "Sorry, I cannot continue with this."

Run = Generator[Effect, Result, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message that came in at `time` (seconds since the epoch)."""

    text: str
    time: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a conversation begins. `state` None: the definition's initial state."""

    conversation_id: str
    time: float
    context: Mapping[str, Any] | None = None
    state: str | None = None
    greet: bool = True


class Course:
    """The turn under way: the session folded over what happened so far, and what will be said."""

    __slots__ = ("events", "fallback", "points", "program", "said", "session", "stopped", "usage")

    def __init__(self, program: Program, session: Session, points: frozenset[Point]) -> None:
        self.program = program
        self.session = session
        self.points = points
        self.events: list[ev.Event] = []
        self.said: list[str] = []
        self.usage = Usage()
        self.fallback = False
        self.stopped: Literal["", "stuck", "limit"] = ""

    def note(self, event: ev.Event) -> None:
        self.session = apply(self.session, event)
        self.events.append(event)

    @property
    def plan(self) -> StatePlan:
        return self.program.states[self.session.state]

    # -- the order of a turn

    def message(self, heard: Heard) -> Run:
        self.note(ev.UserSaid(text=heard.text, time=heard.time, request_id=heard.request_id))
        yield from self.run(Point.PRE_PROCESSING)
        came_from = self.session.state
        yield from self.settle()
        if self.stopped:
            self.say_cannot_go_on()
        elif self.plan.kind == "converse":
            if self.session.state != came_from and self.plan.fixed is not None:
                self.said.pop()  # the reply to the message will speak for this state
            yield from self.ask()
        elif self.plan.fixed is None:
            yield from self.words("words")
        yield from self.finish()

    def opening(self, opening: Opening) -> Run:
        definition = self.program.definition
        self.note(
            ev.Started(
                conversation_id=opening.conversation_id,
                definition=self.program.identity,
                state=opening.state or definition.initial_state,
                time=opening.time,
                context=initial_context(self.program.keys, opening.context),
            )
        )
        yield from self.run(Point.START_CONVERSATION)
        self.say_fixed()
        yield from self.settle()
        if not opening.greet:
            self.said.clear()
        elif self.stopped:
            self.say_cannot_go_on()
        elif self.plan.fixed is None:
            yield from self.words("greeting")
        yield from self.finish()

    def finish(self) -> Run:
        text = "\n\n".join(words for words in self.said if words)
        if text or self.session.user_input is not None:
            for result in (yield from self.run(Point.POST_PROCESSING, text=text)):
                text = text if result.text is None else result.text
            self.note(self.words_said(text or _CANNOT_GO_ON))
            dropped = surplus(self.session.window, self.program.definition.history)
            if dropped:
                self.note(ev.HistoryTrimmed(dropped=dropped))
        if self.plan.kind == "final":
            self.note(ev.Ended(outcome="final"))
        elif self.stopped == "stuck":
            self.note(ev.Ended(outcome="stuck"))

    def words_said(self, text: str) -> ev.BotSaid:
        """The words of the turn; what the history will show of it holds no value of a secret key."""
        user = self.session.user_input
        secrets = secret_texts(self.program.keys, self.session.context)
        return ev.BotSaid(
            text=text,
            kept_chars=self.program.definition.history.max_message_chars,
            fallback=self.fallback,
            kept_user=None if user is None else without(secrets, user),
            kept_text=without(secrets, text),
        )

    # -- handlers

    def run(
        self, point: Point, *, target: str | None = None, updated: Iterable[str] = (), text: str | None = None
    ) -> Generator[Effect, Result, tuple[HandlerResult, ...]]:
        if point not in self.points:
            return ()
        found = yield RunHandlers(
            point=point, session=self.session, target=target, updated=frozenset(updated), text=text
        )
        if not isinstance(found, HandlerResults):
            raise TypeError(f"{point} wants HandlerResults, got {type(found).__name__}")
        for result in found.results:
            if result.error is not None:
                self.note(ev.HandlerFailed(handler=result.handler, point=point.value, error=result.error))
            for event in accept_host(self.program.keys, self.session.context, result.changes):
                self.note(event)
        return found.results

    def vetoed(self, move: Move) -> Generator[Effect, Result, str | None]:
        """The reason of the first handler that forbids a move; the refusal is noted."""
        for result in (yield from self.run(Point.PRE_TRANSITION, target=move.target)):
            if result.veto is not None:
                self.note(ev.MoveRefused(target=move.target, reason=result.veto, by="veto"))
                return result.veto
        return None

    # -- moves

    def first(self, moves: Iterable[Move]) -> Generator[Effect, Result, Move | None]:
        """The first move whose conditions hold and that no handler forbids."""
        for move in moves:
            found = verdict(move, self.session.data())
            if found.error is not None:
                self.note(ev.ConditionFailed(transition=move.pointer, reason=found.error))
            if found.holds and (yield from self.vetoed(move)) is None:
                return move
        return None

    def enter(self, move: Move, by: str) -> Run:
        self.note(
            ev.StateEntered(state=move.target, previous=self.session.state, by=by, transition=move.pointer)
        )
        yield from self.run(Point.POST_TRANSITION)
        self.say_fixed()

    def settle(self) -> Run:
        """Go on through autos and deciding states to the first state that waits."""
        steps = 0
        while self.plan.kind != "final":
            decides = self.plan.kind == "decide"
            move = yield from self.first(self.plan.moves if decides else self.plan.autos)
            if move is None:
                self.stopped = "stuck" if decides else ""
                return
            most = self.program.definition.limits.auto_steps
            if steps >= most:
                self.stopped = "limit"
                self.note(ev.LimitReached(limit="auto_steps", value=most))
                return
            steps += 1
            yield from self.enter(move, "decide" if decides else "auto")

    # -- the model

    def ask(self) -> Run:
        """Ask the model what to do with the message; once more if its reply does not stand."""
        look = outlook(self.program, self.session)
        request = self.request(look, words_only=False)
        refused: tuple[str, ...] = ()
        for _ in range(2):
            reply = yield from self.call("turn", request, look, refused)
            if reply is None:
                break
            reason = yield from self.take(reply, look)
            if reason is None:
                return
            refused = (*refused, reason)
            request = self.again(request, reply.text, reason, look.valid)
        self.fall_back()

    def take(self, raw: ModelReply, look: Outlook) -> Generator[Effect, Result, str | None]:
        """Do what a reply says, if it stands; else say why not."""
        try:
            reply = parse(raw.text)
        except ReplyError as error:
            self.note(ev.ReplyRejected(fault=error.fault, reason=str(error)))
            return str(error)
        self.note(ev.MovePicked(target=cut(reply.target, 200), reasoning=reply.reasoning))
        yield from self.update(reply)
        here = self.plan
        by = "auto"
        move = yield from self.first(here.autos)
        if move is None and reply.target != here.id:
            by = "model"
            judged = judge(here.moves, reply.target, self.session.data())
            if isinstance(judged, Refusal):
                self.note(ev.MoveRefused(target=cut(reply.target, 200), reason=judged.reason, by=judged.by))
                return self.complaint(reply.target, judged.reason)
            veto = yield from self.vetoed(judged)
            if veto is not None:
                return self.complaint(reply.target, veto)
            move = judged
        before = len(self.said)
        if move is None:
            self.say_fixed()
        else:
            yield from self.enter(move, by)
            yield from self.settle()
        if move is None or here.fixed is None or self.plan.fixed is None:
            self.said.insert(before, reply.message)
        yield from self.complete_words(look.arrivals.get(reply.target, frozenset()))
        return None

    def complaint(self, target: str, reason: str) -> str:
        shown = json.dumps(cut(target, 100))
        refused = "; ".join(f"{key}: {why}" for key, why in self.session.notes)
        return f"the move to {shown} is not possible: {reason}" + (
            f". Refused values: {refused}" if refused else ""
        )

    def update(self, reply: Reply) -> Run:
        if reply.update_fault is not None:
            self.note(
                ev.ContextRefused(key="context_update", reason=reply.update_fault, source="model", told=True)
            )
        changed: set[str] = set()
        for event in accept_reply(self.program.keys, self.session.context, reply.update):
            self.note(event)
            if isinstance(event, ev.ContextSet):
                changed.update(event.values, event.removed)
        if changed:
            yield from self.run(Point.CONTEXT_UPDATE, updated=changed)

    def call(
        self,
        asked_for: Literal["turn", "greeting", "words"],
        request: LLMRequest,
        look: Outlook,
        refused: tuple[str, ...],
    ) -> Generator[Effect, Result, ModelReply | None]:
        """One model call; None when a limit forbids it."""
        reached = exceeded(self.program.definition.limits, self.usage)
        if reached is not None:
            self.note(reached)
            return None
        view = partial(
            turn_view, self.program, self.session, look, speak=asked_for != "turn", refused=refused
        )
        reply = yield AskModel(request=request, asked_for=asked_for, view=view)
        if not isinstance(reply, ModelReply):
            raise TypeError(f"a model call wants a ModelReply, got {type(reply).__name__}")
        self.usage += reply.usage
        self.note(
            ev.ModelReplied(
                asked_for=asked_for,
                text=cut(reply.text, MAX_MESSAGE_CHARS),
                model=reply.model,
                mode=reply.mode,
                attempts=reply.attempts,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                seconds=reply.seconds,
                cost=reply.cost,
                prompt={"system": len(request.messages[0].content), "user": len(request.messages[1].content)},
            )
        )
        return reply

    def request(self, look: Outlook, *, words_only: bool) -> LLMRequest:
        program, session, plan = self.program, self.session, self.plan
        scope = plan.state.context_scope
        user = turn_prompt(
            program.prompts,
            words=plan.words,
            window=session.window,
            context=program.keys.visible(session.context, None if scope is None else scope.read),
            missing=missing(session.context, plan.collects),
            notes=session.notes,
            items=look.items,
            valid=look.valid,
            user=session.user_input,
            time=session.time,
            words_only=words_only,
        )
        return LLMRequest(
            messages=(LLMMessage("system", program.system), LLMMessage("user", user)),
            schema=plan.schema,
            model=plan.model.name,
            temperature=plan.model.temperature,
            max_tokens=plan.model.max_tokens,
            conversation_id=session.conversation_id,
            state=plan.id,
        )

    def again(self, request: LLMRequest, text: str, reason: str, valid: tuple[str, ...] | None) -> LLMRequest:
        """The same question with the refused reply and a line that says why."""
        line = retry_line(self.program.prompts, reason, valid)
        refused = LLMMessage("assistant", cut(text, _QUOTED_CHARS))
        return replace(request, messages=(*request.messages[:2], refused, LLMMessage("user", line)))

    # -- words

    def say_fixed(self) -> None:
        if self.plan.fixed is not None:
            self.said.append(own_words(self.program, self.plan, self.session))

    def say_cannot_go_on(self) -> None:
        self.fallback = True
        self.said = [self.plan.model.on_failure or _CANNOT_GO_ON]

    def own_question(self, *, sorry: bool) -> str:
        state = self.plan.state
        wanted = {
            key: self.program.keys.offered.get(key, {})
            for key in missing(self.session.context, self.plan.collects)
        }
        question = own_question(state.purpose or state.description, wanted)
        return f"Sorry, I did not get that. {question}" if sorry else question

    def fall_back(self) -> None:
        """The words of last resort, after two replies that do not stand: the state is kept."""
        self.fallback = True
        words = self.plan.model.on_failure
        if words is None and self.plan.fixed is not None:
            words = own_words(self.program, self.plan, self.session)
        self.said.append(words or self.own_question(sorry=True))

    def complete_words(self, spoken_for: frozenset[str]) -> Run:
        """Add what is still to be said; `spoken_for` are the arrivals that the message was written for."""
        if self.stopped:
            self.say_cannot_go_on()
        elif self.plan.id not in spoken_for and self.plan.fixed is None:
            yield from self.words("words")
        elif not any(self.said):
            self.said.append(self.own_question(sorry=False))

    def words(self, asked_for: Literal["greeting", "words"]) -> Run:
        """One call for words alone: nothing else in its reply counts."""
        look = Outlook(items=(), valid=(self.plan.id,), open=frozenset(), arrivals={})
        request = self.request(look, words_only=True)
        for _ in range(2):
            reply = yield from self.call(asked_for, request, look, ())
            if reply is None:
                break
            try:
                words = parse_words(reply.text)
            except ReplyError as error:
                self.note(ev.ReplyRejected(fault=error.fault, reason=str(error)))
                request = self.again(request, reply.text, str(error), None)
            else:
                self.said.append(words)
                return
        self.fallback = True
        self.said.append(self.plan.model.on_failure or self.own_question(sorry=False))
