"""The conversational part of a turn: the model is asked what to do with a message, and for words.

What it replies is applied to the session only as far as the definition allows; a reply that does not stand
is asked for once more, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Literal

from llm_fsm import events as ev
from llm_fsm.briefs import buckets_of
from llm_fsm.context import accept_reply, blotted, missing
from llm_fsm.effects import Effect, Point, Result
from llm_fsm.errors import ReplyError
from llm_fsm.flows import MAX_DEPTH
from llm_fsm.foresight import Outlook, outlook, own_words
from llm_fsm.messages import LLMMessage, LLMRequest, ModelReply
from llm_fsm.moves import Moving
from llm_fsm.program import StatePlan
from llm_fsm.progress import Run
from llm_fsm.prompts import retry_line, turn_prompt
from llm_fsm.reply import Reply, parse, parse_words
from llm_fsm.rounds import Loop
from llm_fsm.session import cut
from llm_fsm.transition import Move, Refusal, judge
from llm_fsm.wording import asks, own_question, question_in

CANNOT_GO_ON = "Sorry, I cannot continue with this."
_QUOTED_CHARS = 4000


class Talking(Moving):
    """The part of a turn that talks."""

    __slots__ = ()

    def ask(self, waiting: Mapping[str, Any] | None = None) -> Run:
        """Ask the model what to do with the message; once more if its reply does not stand.

        `waiting`: the loop in which the turn paused, with the answer put in.
        """
        look = outlook(self.program, self.session)
        loop = Loop("turn", self.request(look, words_only=False), look)
        if waiting is not None:
            loop.take_up(waiting)
        while loop.tries < 2:
            reply = yield from self.rounds(loop)
            if reply is None:
                break
            reason = yield from self.take(reply, look)
            if reason is None:
                return
            loop.tries += 1
            loop.refused = (*loop.refused, reason)
            loop.request = self.again(loop.request, reply.text, reason, look.valid)
        if not self.paused:
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
        here, flow, program = self.plan, self.session.flow, self.program
        by = "auto"
        move = yield from self.first(here.autos)
        if move is None and reply.target != here.id:
            by = "model"
            judged = self.judged(here, reply.target)
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
        followed = by == "model" or move is None or reply.target in (here.id, move.target)
        arrival = self.plan if self.reopened is None or move is None else program.states[move.target]
        if followed and (move is None or here.fixed is None or arrival.fixed is None):
            self.said.insert(before, reply.message)  # never words that announce a move that was not made
        foreseen = look.arrivals.get(reply.target, frozenset())
        yield from self.complete_words(frozenset((flow, state) for state in foreseen))
        return None

    def judged(self, here: StatePlan, target: str) -> Move | Refusal:
        """The move to a state that was named, if it stands."""
        session = self.session
        if target in session.open_places():
            return Move(pointer="", target=target, description="", guards=(), priority=0, auto=False)
        found = judge(here.moves, target, session.data())
        if isinstance(found, Move) and found.returns and len(session.stack) >= MAX_DEPTH:
            return Refusal(by="closed", reason="too much is left open already; go back to one of the open states")
        return found

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

    def request(self, look: Outlook, *, words_only: bool, greeting: bool = False) -> LLMRequest:
        program, session, plan = self.program, self.session, self.plan
        scope = plan.state.context_scope
        user, sizes = turn_prompt(
            program.prompts,
            words=plan.words,
            window=session.window,
            keys=self.keys_here() if program.key_lines else "",
            context=program.keys.visible(session.context, None if scope is None else scope.read),
            missing=missing(session.context, plan.collects),
            notes=session.notes,
            items=look.items,
            valid=look.valid,
            user=self.heard(words_only=words_only),
            time=session.time,
            words_only=words_only,
            greeting=greeting,
            summary=session.summary,
            memory=buckets_of(session) if plan.state.memory else None,
        )
        return LLMRequest(
            messages=(LLMMessage("system", program.system), LLMMessage("user", user)),
            schema=program.schema_of(plan, look.further),
            model=plan.model.name,
            temperature=plan.model.temperature,
            max_tokens=plan.model.max_tokens,
            conversation_id=session.conversation_id,
            state=plan.id,
            tools=() if words_only else self.offered(),
            sizes={"system": program.system_tokens, "schema": plan.schema_tokens, **sizes},
        )

    def heard(self, *, words_only: bool) -> str | None:
        """The user's message: without secrets of flows that were left, and for words alone without any."""
        user = self.session.user_input
        hidden = self.secrets() if words_only else sorted(self.hidden, key=len, reverse=True)
        return user if user is None else blotted(hidden, user)

    def keys_here(self) -> str:
        """The key list of this state in a large machine: the keys nearby, and those that have values."""
        lines = self.program.key_lines
        names = dict.fromkeys((*self.plan.near, *self.session.context))
        return "\n".join(lines[name] for name in names if name in lines)

    def again(self, request: LLMRequest, text: str, reason: str, valid: tuple[str, ...] | None) -> LLMRequest:
        """The same question with the refused reply and a line that says why."""
        line = LLMMessage("user", retry_line(self.program.prompts, reason, valid))
        refused = LLMMessage("assistant", cut(text, _QUOTED_CHARS))
        return replace(request, messages=self.blotted((*request.messages, refused, line)))

    # -- words

    def say_cannot_go_on(self) -> None:
        self.fallback = True
        self.said = [self.plan.model.on_failure or CANNOT_GO_ON]

    def say_stopped(self) -> None:
        """Nothing where a run has done its work, an apology where it cannot go on."""
        if self.stopped != "passed" and not self.program.alone:
            self.say_cannot_go_on()

    def say_paused(self) -> None:
        """What a user is told who waits with the run, where nothing was said yet."""
        pause = self.session.pause
        if pause is None or self.program.alone or any(self.said):
            return
        if pause.kind == "wait":
            self.said.append(self.own_question(sorry=False))
        else:
            self.said.append("Before I can go on, somebody has to answer a question about this.")

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

    def complete_words(self, spoken_for: frozenset[tuple[str, str]]) -> Run:
        """Add what is still to be said; `spoken_for` are the arrivals that the message was written for."""
        if self.stopped:
            self.say_stopped()
        elif self.paused:
            self.say_paused()
        elif self.reopened is not None and self.plan.id == self.reopened.kept["state"]:
            self.ask_again(self.reopened.asked)
        elif self.here not in spoken_for and self.plan.fixed is None:
            yield from self.words("words")
        elif not any(self.said):
            self.said.append(self.own_question(sorry=False))

    def ask_again(self, asked: str) -> None:
        """The open question, unless the words of this turn ask something already. `asked`: what was asked last."""
        if self.plan.fixed is None and not any(asks(words) for words in self.said):
            self.said.append(question_in(asked) or self.own_question(sorry=False))

    def words(self, asked_for: Literal["greeting", "words"]) -> Run:
        """One call for words alone: nothing else in its reply counts."""
        look = Outlook(items=(), valid=(self.plan.id,), open=frozenset(), arrivals={})
        request = self.request(look, words_only=True, greeting=asked_for == "greeting")
        for _ in range(2):
            reply = yield from self.call(asked_for, request, look)
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
