"""The conversational part of a turn: the model is asked what to do with a message, and for words.

What it replies is applied to the session only as far as the definition allows; a reply that does not stand
is asked for once more, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from llm_fsm._copies import made, row
from llm_fsm._text import cut
from llm_fsm.definition.subflows import MAX_DEPTH
from llm_fsm.errors import ReplyError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.normalize import letters
from llm_fsm.session.session import Session
from llm_fsm.turn.available import asides, outlook
from llm_fsm.turn.compiled import Outlook, StatePlan
from llm_fsm.turn.corrections import divided
from llm_fsm.turn.effects import AskedFor, Effect, Point, Result
from llm_fsm.turn.fast_path import certain_move, certain_value
from llm_fsm.turn.guards import Move, Refusal, judge
from llm_fsm.turn.repair.actions import Repairing
from llm_fsm.turn.repair.patterns import UNNAMED
from llm_fsm.turn.reply.parser import Reply, parse
from llm_fsm.turn.response import UPDATE
from llm_fsm.turn.tool_loop import Loop
from llm_fsm.turn.turn_state import Run

T = TypeVar("T")
_AROUND = "`'\"*<>[](){}.:,"
"""What may stand around a name, and in none."""
_NOWHERE = Outlook(items=(), valid=(), open=frozenset(), arrivals={})


class Decision(NamedTuple):
    """What a reply leads to. `by`: auto, pattern, model, or refused for a move that a refused value keeps from an end;
    `followed`: its words were written for where it leads.
    """

    move: Move | None
    by: str
    followed: bool


class Complaint(NamedTuple):
    """Why a reply does not stand. `target`: the state that it named; `unmet`: its conditions keep it closed."""

    reason: str
    target: str = ""
    unmet: bool = False


class Talking(Repairing):
    """The part of a turn that talks."""

    __slots__ = ()

    def ask(self, waiting: Mapping[str, Any] | None = None) -> Run:
        """Ask the model what to do with the message; once more if its reply does not stand.

        `waiting`: the loop in which the turn paused, with the answer put in.
        """
        if waiting is None and self.program.fast and (yield from self.sure()):
            return
        look = self.look()
        self.outset = self.session
        loop = Loop("turn", self.request(look, words_only=False), look)
        if waiting is not None:
            loop.take_up(waiting)
        while loop.tries < 2:
            reply = yield from self.rounds(loop)
            if reply is None:
                break
            complaint = yield from self.take(reply, loop.look)
            if complaint is None:
                return
            loop.tries += 1
            loop.refused = (*loop.refused, complaint.reason)
            valid = tuple(name for name in (*loop.look.valid, *loop.look.patterns) if name != complaint.target)
            unmet = complaint.target if complaint.unmet and complaint.target in loop.look.valid else ""
            possible = valid if complaint.target else None  # else <valid_states> and <patterns> say it all
            loop.request = self.again(loop.request, reply.text, complaint.reason, possible, unmet=unmet)
        if self.paused:
            return
        if self.has("cannot_handle"):
            yield from self.miss(fallback=True)
        else:
            self.last_resort()

    def renew(self, loop: Loop) -> None:
        """What tools wrote may open a move, and is known to the reply that follows."""
        if loop.asked_for == "turn":
            look = self.look()
            loop.reopen(self.request(look, words_only=False), look)

    def look(self) -> Outlook:
        """What a reply may do here."""
        return outlook(self.program, self.session, asides(self.root, self.session))

    def sure(self) -> Generator[Effect, Result, bool]:
        """Do without the model what a message says for certain; False where the model is to be asked."""
        found = certain_value(self.root, self.session, self.lacking(), self.outset)
        if found is None:
            return False
        key, value = found
        here, before = self.plan, self.session.data()
        self.note(ev.Recognised(key=key))
        self.note(ev.ContextSet(source="user", values={key: value}))
        yield from self.run(Point.CONTEXT_UPDATE, updated=(key,))
        by, move = "auto", (yield from self.first(here.autos))
        if move is None:
            by, move = "user", certain_move(here, before, self.session.data())
            if move is None or (yield from self.vetoed(move)) is not None:
                return False
        yield from self.enter(move, by)
        yield from self.settle()
        yield from self.complete_words()
        return True

    def take(self, raw: ModelReply, look: Outlook) -> Generator[Effect, Result, Complaint | None]:
        """Do what a reply says, if it stands; else say why not."""
        try:
            reply = parse(raw.text)
        except ReplyError as error:
            reason = f"{error}, at its limit of tokens" if raw.finish_reason == "length" else str(error)
            self.note(ev.ReplyRejected(fault=error.fault, reason=reason))
            return Complaint(reason)
        reply = self.named(reply, look)
        self.note(made(ev.MovePicked, target=cut(reply.target, 200), reasoning=reply.reasoning))
        theirs = yield from self.update(reply)
        here, flow = self.plan, self.session.flow
        if self.has("correct") and (yield from self.corrected(reply, self.outset)):
            return None
        decision = yield from self.decided(reply)
        if isinstance(decision, Complaint):
            return decision
        if theirs and (decision.move is None or decision.move.target != reply.target):
            yield from self.keep(theirs)  # nothing leads to where they belong: kept as what nobody here knows
        if decision.by == "pattern":
            yield from self.repair(reply, look)
            return None
        if decision.by == "refused":
            self.stay_with_refused(reply.target)
            return None
        move, arrival = decision.move, here
        flows = {flow} if move is None else {flow, self.flow_to(move)}
        first = len(self.said)
        if move is None:
            if here.fixed is not None:
                self.complain()
            self.say_fixed()
        else:
            arrival = yield from self.arrive(move, decision.by, theirs if move.target == reply.target else None)
        if decision.followed and (move is None or here.fixed is None or arrival.fixed is None):
            self.said.insert(first, reply.message)  # never words that announce a move that was not made
        foreseen = self.session.state in look.arrivals.get(reply.target, ()) and self.session.flow in flows
        yield from self.complete_words(spoken_for=foreseen)
        return None

    def named(self, reply: Reply, look: Outlook | None = None) -> Reply:
        """A reply with the one name that it may give, where its target is that in other letters (`Done` for `done`)."""
        states = self.program.states
        if reply.target in states or reply.target in self.program.patterns:
            return reply
        look, bare = look or self.look(), reply.target.strip(_AROUND)
        for names in ((*look.valid, *look.patterns), states) if reply.target not in look.valid else ():
            same = [bare] if bare in names else [name for name in names if letters(name) == letters(bare)]
            if same:
                return reply._replace(target=same[0]) if len(same) == 1 else reply
        return reply

    def led_to(self, move: Move) -> StatePlan:
        """Where a move leads, in whichever definition."""
        return self.root.named(self.flow_to(move)).states[move.target]

    def flow_to(self, move: Move) -> str:
        """The definition that a move leads into."""
        if move.place is not None:
            return self.session.flow_at(move.place)
        return self.session.flow if move.caller is None else self.session.of_caller(move.caller).flow

    def decided(self, reply: Reply) -> Generator[Effect, Result, Decision | Complaint]:
        """What follows from a pick, now that its values are kept; or why it does not stand."""
        here = self.plan
        move = (yield from self.first(here.autos)) if here.autos else None
        if move is not None:
            return Decision(move, "auto", reply.target in (here.id, move.target))
        if reply.target in self.program.patterns and reply.target not in UNNAMED:
            return Decision(None, "pattern", followed=False)
        if reply.target == here.id:
            return Decision(None, "model", followed=True)
        judged = self.judged(here, reply.target)
        if isinstance(judged, Refusal):
            self.note(ev.MoveRefused(target=cut(reply.target, 200), reason=judged.reason, by=judged.by))
            return self.complaint(reply.target, judged.reason, unmet=judged.by == "closed")
        veto = (yield from self.vetoed(judged)) if self.points else None
        if veto is not None:
            return self.complaint(reply.target, veto)
        if self.goes_too_far(judged):
            return Decision(None, "refused", followed=False)
        return row(Decision, judged, "model", True)

    def goes_too_far(self, move: Move) -> bool:
        """True where a move makes an end of answers of which one was to be changed, and the new value was refused."""
        session = self.session
        return (
            self.has("correct")
            and any(session.origins.get(key, (session.turn, ""))[0] < session.turn for key, _ in session.notes)
            and move.pointer.startswith("/states/")
            and self.led_to(move).kind in ("final", "task")
        )

    def stay_with_refused(self, target: str) -> None:
        """Say which change was refused, and why, instead of going on with the old answer."""
        reasons = "; ".join(f"{key}: {why}" for key, why in self.session.notes)
        self.note(ev.MoveRefused(target=target, reason=f"a changed answer was refused: {reasons}", by="closed"))
        asked = self.last_question()
        self.complain()
        self.say_fixed()
        self.ask_again(asked)

    def arrive(
        self, move: Move, by: str, given: Mapping[str, Any] | None
    ) -> Generator[Effect, Result, StatePlan]:
        """Make a move and go on by itself from there: the state for which the reply's words are to speak."""
        there = self.led_to(move)
        yield from self.enter(move, by, given)
        if not self.plan.rests:
            yield from self.settle()
        return self.plan if self.reopened is None else there

    def rehearsal(self, head: str, asked_for: AskedFor) -> Run:
        """Check the move of a reply whose words are not there yet, in a fork; `promise` says whether they count.

        Nothing is promised where that depends on what comes after the move from outside: handlers, tasks, replies.
        """
        words = _stand_in(self.session, head)
        if asked_for != "turn":
            self.promise = _before(words, (*self.said, words))
            return
        self.note(ev.ModelReplied(asked_for=asked_for, text=head))
        try:
            reply = self.named(parse(head)._replace(message=words))
        except ReplyError:
            return
        self.note(made(ev.MovePicked, target=cut(reply.target, 200)))  # handlers' keys count events, here as in `take`
        theirs = yield from self.update(reply)
        here, said = self.plan, tuple(self.said)
        place = self.here
        if self.has("correct") and _alone(self.corrected(reply, self.outset)) is not False:
            if self.here == place or reply.target == self.plan.id:  # else questions among the words may be left out
                self.promise = _before(words, self.said)
            return
        decision = yield from self.decided(reply)
        if isinstance(decision, Complaint):
            return
        if decision.by == "pattern":
            _alone(self.repair(reply, _NOWHERE))
            if self.here == place or reply.target not in ("correct", "digress"):  # as for corrections above
                self.promise = _before(words, self.said)
        elif decision.followed:
            move = decision.move
            if move is not None and here.fixed is not None:
                arrival = _alone(self.arrive(move, decision.by, theirs if move.target == reply.target else None))
                if arrival is None or arrival.fixed is not None:
                    return
            self.promise = _before(words, (*said, words))

    def judged(self, here: StatePlan, target: str) -> Move | Refusal:
        """The move to a state that was named, if it stands."""
        session = self.session
        if target in session.open_places():
            return Move(pointer="", target=target)
        found = judge(here.moves, target, session.data())
        if isinstance(found, Refusal) and found.by == "unknown" and session.stack:
            aside = asides(self.root, session).get(target)
            found = found if aside is None else judge((aside.move,), target, aside.data)
        if isinstance(found, Move) and found.returns and len(session.stack) >= MAX_DEPTH:
            return Refusal(by="closed", reason="too much is left open already; go back to one of the open states")
        return found

    def complaint(self, target: str, reason: str, *, unmet: bool = False) -> Complaint:
        shown = json.dumps(cut(target, 100))
        refused = "; ".join(f"{key}: {why}" for key, why in self.refusals())
        told = f"the move to {shown} is not possible: {reason}" + (f". Refused values: {refused}" if refused else "")
        return Complaint(told, target, unmet)

    def update(self, reply: Reply) -> Generator[Effect, Result, Mapping[str, Any]]:
        """Keep what a reply says about the definition at work; what it says about the one that its pick leads into."""
        if reply.update_fault is not None:
            self.note(ev.ContextRefused(key=UPDATE, reason=reply.update_fault, source="model", told=True))
        mine, theirs = self.divided(reply)
        if mine:
            yield from self.keep(self.change_answers(mine) if self.session.flow and self.has("correct") else mine)
        return theirs

    def divided(self, reply: Reply) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What a reply says about the definition at work, and about another one that its pick leads into."""
        session, program = self.session, self.program
        if not session.stack or reply.target in program.states:
            return reply.update, {}
        aside = asides(self.root, session).get(reply.target)
        return (reply.update, {}) if aside is None else divided(program.keys, aside.program.keys, reply.update)


def _alone(run: Generator[Effect, Result, T]) -> T | None:
    """What a part of a turn comes to by itself; None where it stops because it wants something from outside."""
    try:
        next(run)
    except StopIteration as done:
        found: T = done.value
        return found
    run.close()
    return None


def _stand_in(session: Session, head: str) -> str:
    """What stands for words that are not there yet; wording that changes words (their case, say) changes it, too.

    Nobody can have written it before: it depends on the reply's own beginning and the time.
    """
    seed = f"{session.conversation_id}\n{session.time}\n{head}".encode("utf-8", "replace")
    return f"\ue000wOrDs{sha256(seed).hexdigest()}\ue001"


def _before(stand_in: str, said: Iterable[str]) -> str | None:
    """What stands before the words of a reply in all that is said; None where they are not said."""
    text = "\n\n".join(words for words in said if words)
    place = text.find(stand_in)
    return None if place < 0 else text[:place]
