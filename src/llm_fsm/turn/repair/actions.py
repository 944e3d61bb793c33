"""What repair patterns do: to the place where a conversation is, to its answers, and which words say so.

The words come from the pattern's definition (see `turn.repair.patterns`). None of them needs a further model call,
unless it comes back into another definition, whose questions the model has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm._text import TRUNCATED
from llm_fsm.session import events as ev
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.compiled import Outlook
from llm_fsm.turn.corrections import own_moves
from llm_fsm.turn.effects import Point
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.repair.corrections import Amending
from llm_fsm.turn.repair.patterns import end_of
from llm_fsm.turn.repair.questions import is_nearer, question_in, told_in
from llm_fsm.turn.reply.parser import Reply
from llm_fsm.turn.turn_state import Run


class Repairing(Amending):
    """The part of a turn that repairs."""

    __slots__ = ()

    def repair(self, reply: Reply, look: Outlook) -> Run:
        """Do what the pattern that a reply names is there for."""
        name = reply.target
        if name == "cancel":
            yield from self.cancel(reply.message)
        elif name == "restart":
            yield from self.restart(reply.message)
        elif name == "skip":
            yield from self.skip(reply.message, look)
        elif name == "cannot_handle":
            yield from self.miss(reply.message)
        elif name == "handover":
            yield from self.hand_over(reply.message)
        elif name in ("correct", "digress") and (move := self.way_on()) is not None:
            yield from self.answer_both(name, reply.message, move)
        else:
            self.answer_aside(name, reply.message)

    def way_on(self) -> Move | None:
        """The way on where the message has answered the open question; no end and no work begins that nobody picked."""
        move = self.only_way() if self.asked_for() else None
        return None if move is None or self.program.states[move.target].kind in ("final", "task") else move

    def answer_both(self, name: str, message: str, move: Move) -> Run:
        """Go on where a message has answered the open question besides."""
        if (yield from self.vetoed(move)) is not None:
            self.answer_aside(name, message)
            return
        self.note(ev.Repaired(pattern=name, how="moved"))
        flow, first, asked = self.session.flow, len(self.said), self.open_question(self.last_question())
        untrue = self.claims_too_much(name)
        if untrue:
            self.complain()
        yield from self.enter(move, name)
        yield from self.settle()
        if is_nearer(question_in(message), asked, self.open_question()):
            message = told_in(message)
        if not untrue:
            self.say_first(first, name, message)
        if self.session.flow != flow or self.stopped or self.paused or self.plan.kind == "final":
            yield from self.complete_words()
        else:
            self.ask_again("")

    def claims_too_much(self, name: str) -> bool:
        """True where the words of a correction would announce a change that was refused."""
        corrected = any(isinstance(event, ev.Corrected) for event in self.events)
        return name == "correct" and bool(self.session.notes) and not corrected

    def answer_aside(self, name: str, message: str) -> None:
        """Patterns that change nothing: words, and what is open stays so."""
        self.note(ev.Repaired(pattern=name))
        if name == "repeat":
            last = self.last_words()
            self.say(name, question=self.open_question() if not last or last.endswith(TRUNCATED) else last)
            return
        asked = self.last_question()
        if self.claims_too_much(name):
            self.complain()
        elif message or name == "digress" or self.plan.fixed is None:  # a fixed reply shows what was changed, and asks
            self.say(name, words=message, question=self.open_question(asked))
        self.say_fixed()
        if name in ("correct", "digress"):
            self.ask_again(asked)

    # -- words

    def say(self, name: str, state: str | None = None, **data: Any) -> None:
        """What a pattern says in one of its states, the first one if none is named."""
        piece = self.program.patterns[name]
        self.said.append(self.of_pattern(piece, state or end_of(piece, data), data))

    # -- ends

    def hand_over(self, message: str) -> Run:
        """End the conversation for a person, or do what the nearest calling definition has a state of its own for."""
        session = self.session
        places = (n for n in session.callers() if "handover" in self.root.of(session.of_caller(n)).own_patterns)
        place = next(places, None)
        if place is None:
            self.note(ev.Repaired(pattern="handover"))
            self.stopped = "handover"
            self.say("handover", words=message)
            return
        self.note(ev.Repaired(pattern="handover", how="moved"))
        while len(self.session.stack) > place:
            self.leave("handover")
        self.said.append(message)
        yield from self.enter(Move(pointer="/patterns", target="handover"), "handover")
        yield from self.settle()
        yield from self.complete_words(spoken_for=bool(message))

    def cancel(self, message: str) -> Run:
        """End what is going on: a digression, a subflow, or the conversation."""
        self.note(ev.Repaired(pattern="cancel", how=self.session.stack[-1].kind if self.session.stack else ""))
        self.say("cancel", words=message)
        while self.session.stack:
            frame = self.session.stack[-1]
            going = yield from self.returns("cancelled")
            if self.stopped == "limit":
                return
            if frame.kind == "digression":
                yield from self.back_from(frame)
                return
            before = frame.kept["previous_state"]
            if self.stopped == "stuck" and before is not None and self.leads_back(before):
                self.stopped = ""
                going = True
                self.note(ev.StateEntered(state=before, previous=self.session.state, by="cancel"))
                self.say_fixed()
            if going:
                yield from self.settle()
                yield from self.complete_words()
                return
            self.stopped = ""
        if "cancelled" in self.program.states:
            yield from self.enter(Move(pointer="/patterns", target="cancelled"), "cancel")
            yield from self.settle()
            yield from self.complete_words(spoken_for=True)
        else:
            self.stopped = "cancelled"

    def step_back(self) -> Run:
        """Leave a digression before its end."""
        frame = self.session.stack[-1]
        yield from self.returns("cancelled")
        if self.stopped != "limit":
            yield from self.back_from(frame)

    def back_from(self, frame: Frame) -> Run:
        """What is said where a digression was left."""
        if self.turned_back:
            yield from self.settle()
            yield from self.complete_words()
        else:
            self.ask_again(frame.asked)

    def leads_back(self, state: str) -> bool:
        plan = self.program.states.get(state)
        return plan is not None and plan.kind == "converse"

    def restart(self, message: str) -> Run:
        """Begin again, with what the caller and the host have given, and what the same message says."""
        session = self.session
        left, origins = session.state, _root_origins(session)
        kept = {
            key: value
            for key, value in session.root_context().items()
            if (origin := origins.get(key, (0, "")))[1] == "host" or origin == (session.turn, "model")
        }
        flow, initial = session.flow, self.root.definition.initial_state
        piece = self.program.patterns["restart"]
        self.conceal()
        self.note(ev.Repaired(pattern="restart"))
        self.note(ev.Restarted(state=initial, context=kept))
        self.note(ev.StateEntered(state=initial, previous=left, by="restart"))
        yield from self.run(Point.POST_TRANSITION)
        self.said.append(self.of_pattern(piece, "restart", {"words": message}))
        self.say_fixed()
        yield from self.settle()
        if self.here == ("", initial) and flow == "":
            self.ask_again("")
        else:
            yield from self.complete_words()

    # -- keys that are not given

    def skip(self, message: str, look: Outlook) -> Run:
        """Leave out what is asked here, and go on where one way is open without it."""
        keys, data, flow = self.lacking(), self.session.data(), self.session.flow
        moves = [move for move in own_moves(self.plan) if not move.returns and verdict(move, data).holds]
        if not keys:  # then what is asked is for words to tell, and leaving it out is not saying them
            moves = [move for move in moves if not (move.judged and (move.description or move.guards))]
        past = {state for state, _ in self.session.path}
        targets = list(dict.fromkeys(move.target for move in moves if move.target not in past))
        going_on = [name for name in targets if self.program.states[name].kind != "final"]
        closed = {move.target for move in own_moves(self.plan)} - set(targets) - past
        if len(targets) > 1 or closed:
            targets = going_on  # nobody ends a conversation by leaving an answer out
        if not targets and self.session.aside():
            self.note(ev.Repaired(pattern="skip", how="left"))
            self.say("skip", words=message)
            yield from self.step_back()
            return
        if not targets:
            self.note(ev.Repaired(pattern="skip", how="needed"))
            self.say("skip", needed=", ".join(keys) or "it", question=self.open_question(self.last_question()))
            return
        if keys:
            self.note(ev.KeysSkipped(keys=keys))
        if len(targets) > 1:
            self.note(ev.Repaired(pattern="skip", how="stayed"))
            self.say("skip", words=message)
            self.say_fixed()
            self.ask_again("")
            return
        move = next(move for move in moves if move.target == targets[0])
        if (yield from self.vetoed(move)) is not None:
            self.say_fixed()
            self.ask_again(self.last_question())
            return
        self.note(ev.Repaired(pattern="skip", how="moved"))
        self.say("skip", words=message)
        yield from self.enter(move, "skip")
        yield from self.settle()
        foreseen = self.session.flow == flow and self.session.state in look.arrivals.get(targets[0], ())
        yield from self.complete_words(spoken_for=foreseen)
        if foreseen and self.plan.kind == "converse" and not self.stopped:
            self.ask_again("")

    # -- misses

    def miss(self, message: str = "", *, fallback: bool = False) -> Run:
        """Not understood: rephrase, then offer what is possible, then give up."""
        session = self.session
        in_row = session.misses is not None and session.misses[1] >= session.turn - 1
        count = session.misses[0] + 1 if session.misses is not None and in_row else 1
        self.note(ev.Missed(count=count))
        if "cannot_handle" in self.program.own_patterns:
            if count > 2:
                yield from self.go_to("cannot_handle")
            else:
                self.last_resort()
            return
        question = self.open_question(self.last_question())
        question = "" if self.ends_in(question, message) else question
        data = {"misses": count, "choices": self.choices(), "question": question}
        end = end_of(self.program.patterns["cannot_handle"], data)
        self.note(ev.Repaired(pattern="cannot_handle", how=end))
        if end == "give_up":
            if "handover" in self.program.own_patterns:
                yield from self.go_to("handover")
            elif "handover" in self.program.patterns:
                yield from self.hand_over("")
            else:
                self.stopped = "given_up"
                self.say_given_up()
        elif fallback and end == "rephrase":
            self.last_resort()
        else:
            self.say("cannot_handle", end, words=message, **data)
            if end == "rephrase" and message:
                self.say_fixed()
                self.ask_again(self.last_question())

    def say_given_up(self) -> None:
        """The apology of the definition, if it has one, else that of the pattern."""
        if (apology := self.plan.model.on_failure) is not None:
            self.said.append(apology)
        else:
            self.say("cannot_handle", "give_up")

    def go_to(self, pattern: str) -> Run:
        """Enter the definition's own state of a pattern."""
        move = next((move for move in self.plan.moves if move.target == pattern), None)
        if move is None:
            self.last_resort()
            return
        yield from self.enter(move, pattern)
        yield from self.settle()
        yield from self.complete_words()

    def choices(self) -> str:
        """What is possible here, in the words of the definition; without words around them, each a point of a list."""
        data = self.session.data()
        open_moves = [move for move in own_moves(self.plan) if verdict(move, data).holds]
        said = (
            move.description or self.program.states[move.target].state.purpose or move.target for move in open_moves
        )
        points = dict.fromkeys(" ".join(text.split()).rstrip(".") for text in said)
        return "; ".join(points) if self.program.english else "\n".join(f"• {point}" for point in points)


def _root_origins(session: Session) -> Mapping[str, tuple[int, str]]:
    root = session.root_frame()
    return session.origins if root is None else root.kept["origins"]
