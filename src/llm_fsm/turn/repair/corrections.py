"""What follows in a turn from answers that were changed: where the way depends on them, it is decided again."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_reply
from llm_fsm.session.session import Session
from llm_fsm.turn.corrections import Correction, apart, correction, onward, outside, own_moves
from llm_fsm.turn.effects import Effect, Result
from llm_fsm.turn.guards import Move, verdict
from llm_fsm.turn.repair.questions import is_nearer, question_in, told_in
from llm_fsm.turn.reply.parser import Reply
from llm_fsm.turn.response import Speaking
from llm_fsm.turn.turn_state import Run

_ENDS = ("cancel", "restart", "handover")
"""Patterns after which it does not matter what was corrected."""


class Amending(Speaking):
    """The part of a turn that follows up corrections."""

    __slots__ = ()

    def corrected(self, reply: Reply, before: Session) -> Generator[Effect, Result, bool]:
        """Note which earlier answers a reply changed, and go back where the way depends on them.

        True when that was all; False where what the reply picks is to be looked at still.
        """
        if (yield from self.corrected_outside(reply, before)):
            return True
        session = self.session
        changed = tuple(
            key
            for key, value in before.context.items()
            if session.context.get(key) != value
            and before.origins.get(key, (session.turn, ""))[0] < session.turn
            and (key not in session.context or session.origins[key] == (session.turn, "model"))
            and not key.startswith("_")
        )
        named = reply.target == "correct"
        if not changed or reply.target in _ENDS or not self.has("correct"):
            return False
        found = None
        if not session.aside():
            leads = {self.plan.id, *(move.target for move in self.plan.moves)}
            picked = "" if reply.target in leads else reply.target
            found = correction(self.program, before, session, changed, picked)
        if found is None or reply.target in found.past:
            self.note(ev.Corrected(keys=changed, named=named))
            return False
        return (yield from self.go_back(found, reply, changed))

    def change_answers(self, update: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change answers of the definitions that wait for this one; the rest of the update.

        What this one was given of them changes with them.
        """
        session = self.session
        rest, found = apart(self.root, session, update)
        for place, values in found.items():
            caller = session.of_caller(place)
            program = self.root.of(caller)
            for event in accept_reply(program.keys, caller.context, values):
                if isinstance(event, ev.ContextSet):
                    self.note(ev.AnswersChanged(frame=place, values=event.values))
                else:
                    self.note(event)
        if found:
            self.hand_on(session)
        return rest

    def corrected_outside(self, reply: Reply, before: Session) -> Generator[Effect, Result, bool]:
        """Note which answers of waiting definitions a reply changed; True when that led back to one of them."""
        named = reply.target == "correct"
        for place, changed, found in () if reply.target in _ENDS else outside(self.root, before, self.session):
            if found is None:
                self.note(ev.Corrected(keys=changed, named=named))
                continue
            while len(self.session.stack) > place:
                self.leave("corrected")
            return (yield from self.go_back(found, reply, changed))
        return False

    def go_back(
        self, found: Correction, reply: Reply, changed: tuple[str, ...]
    ) -> Generator[Effect, Result, bool]:
        """Turn back in the midst of a reply: say what of it still holds, and ask what is open there.

        False, and nothing said, where the new way leads to the same place, and the reply picks a way on from there.
        """
        named, here, first = reply.target == "correct", self.session.state, len(self.said)
        asked = self.open_question(self.last_question())
        taken = {state: pointer for state, pointer in self.session.path if state != here}
        yield from self.turn_back(found, changed, named=named)
        flow = self.session.flow
        if found.on is not None and (yield from self.vetoed(found.on)) is None:
            yield from self.enter(found.on, "correct")
        yield from self.settle()
        yield from self.pass_by(taken, flow)
        if not (named or self.stopped or self.paused) and self.here == (flow, here) != (flow, reply.target):
            del self.said[first:]
            return False
        spoken = reply.message if named or reply.target in (here, self.plan.id) or self.is_aside(reply.target) else ""
        if self.here != (flow, here) and reply.target != self.plan.id and (
            not named or is_nearer(question_in(spoken), asked, self.open_question())
        ):
            spoken = told_in(spoken)  # it asks what was open before
        self.say_first(first, "correct", spoken)
        if self.plan.id == found.state:
            self.say_fixed()
        if self.session.flow != flow or self.stopped or self.paused or self.plan.kind == "final":
            yield from self.complete_words()
        elif named:
            self.ask_again("")
        elif self.plan.fixed is None and not (reply.target == self.plan.id and reply.message):
            self.said.append(self.own_question(sorry=False))
        return True

    def is_aside(self, target: str) -> bool:
        """True for the name of a digression, whose words hold wherever it was begun."""
        return any(move.returns and move.target == target for move in self.plan.moves)

    def say_first(self, place: int, pattern: str, message: str) -> None:
        """Words of a pattern before what was said since; before a fixed reply only those of the model."""
        piece = self.program.patterns.get(pattern)
        if piece is not None and (message or self.plan.fixed is None):
            message = self.of_pattern(piece, pattern, {"words": message})
        self.said.insert(place, message)

    def pass_by(self, taken: dict[str, str], flow: str) -> Run:
        """Pass by the questions that are answered: by this message, or before, where `taken` says how it went on."""
        while (move := self.passing(taken if self.session.flow == flow else {})) is not None:
            steps, again = self.steps, taken.pop(self.plan.id, None) is not None
            if (yield from self.vetoed(move)) is not None or not (yield from self.step(move, "correct")):
                return
            yield from self.settle()
            if again and not self.stopped:
                self.steps = steps  # a long way, taken before and each state of it once, is no endless one

    def passing(self, taken: Mapping[str, str]) -> Move | None:
        """The way on from a state whose questions are answered: the one of before, or the one that conditions leave."""
        session, plan = self.session, self.plan
        if not plan.collects or self.lacking():
            return None
        if all(session.origins.get(key, (0, ""))[0] == session.turn for key in plan.collects):
            return self.only_way()
        move = next((move for move in plan.moves if move.pointer == taken.get(plan.id)), None)
        holds = move is not None and not move.returns and verdict(move, session.data()).holds
        return move if holds else None

    def only_way(self) -> Move | None:
        """The one move of a state in which all is known, where conditions say it and no words."""
        data = self.session.data()
        return onward(self.plan, [move for move in own_moves(self.plan) if verdict(move, data).holds], data)
