"""The thing that a reply names: looked up once, and judged by the values that the reply gave."""

from __future__ import annotations

from dataclasses import dataclass

from llm_fsm.definition.subflows import MAX_DEPTH
from llm_fsm.session.meant import meant_name
from llm_fsm.session.normalize import letters
from llm_fsm.session.session import Session
from llm_fsm.turn.agreement import withheld
from llm_fsm.turn.available import AvailableMoves, OfferedDigression
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import NOT_ASKED, Move, Moves, Refusal, judge, lacks_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The thing that a reply names.

    Attributes:
        target: The name of a state or a pattern; what the model wrote if there is none of that
            name.
        here: True for the current state.
        pattern: True for a repair pattern that has no state of its own.
        moves: The moves to that state, in order of priority. () if no move leads there.
        aside: The digression of another definition, if it is one.
        behind: True if the moves lead to a crossroads, and the named state comes after it.
    """

    target: str
    here: bool = False
    pattern: bool = False
    moves: Moves = ()
    aside: OfferedDigression | None = None
    behind: bool = False

    @property
    def is_own(self) -> bool:
        """True if it is the current state, or a transition of it leads there."""
        return self.here or bool(self.moves and self.aside is None and not self.behind)

    @property
    def returns(self) -> bool:
        """True for a digression of the definition at work."""
        return self.aside is None and any(move.returns for move in self.moves)


def named_by(
    machine: CompiledMachine, session: Session, target: str, available: AvailableMoves
) -> Named:
    """Look up what a reply names.

    Args:
        machine: The machine at work.
        session: The session.
        target: The name as the model wrote it.
        available: The menu that the model read.
    """
    target = _spelt(machine, target, available)
    state = machine.states[session.state]
    # A pattern for which the definition has a state is none of these.
    if target in machine.named_patterns:
        return Named(target=target, pattern=True)
    if target == state.id:
        return Named(target=target, here=True)
    # An open state is resumed, even if a transition leads there as well.
    if target in session.open_places():
        return Named(target=target, moves=(Move(pointer="", target=target),))
    moves = tuple(move for move in state.moves if move.target == target)
    if moves:
        return Named(target=target, moves=moves)
    # Names of this definition hide those of others.
    aside = available.asides.get(target)
    if aside is not None:
        return Named(target=target, moves=(aside.move,), aside=aside)
    leading = tuple(move for move in state.moves if _leads_behind(move, target, available))
    return Named(target=target, moves=leading, behind=bool(leading))


def is_end(machine: CompiledMachine, named: Named) -> bool:
    """Return true if an end is named, so that the words of the reply say that all is done."""
    state = machine.states.get(named.target)
    return state is not None and state.kind == "final" and named.is_own


def _leads_behind(move: Move, target: str, available: AvailableMoves) -> bool:
    """Return true if a move leads to a state that decides, behind which the prompt showed the named
    one.
    """
    is_open = move.pointer in available.open
    return is_open and not move.returns and target in available.arrivals.get(move.target, ())


def _spelt(machine: CompiledMachine, target: str, available: AvailableMoves) -> str:
    """Return the one name that a target is in other letters or marks (`Done` for `done`), if there
    is one.
    """
    if target in machine.states or target in machine.patterns or target in available.valid:
        return target
    offered = tuple(dict.fromkeys((*available.valid, *available.patterns)))
    plain = {letters(name) for name in offered}
    # A name that may mean several options is none: another state does not make it certain.
    others = tuple(name for name in machine.states if letters(name) not in plain)
    return meant_name(target, offered) or meant_name(target, others) or target


def possible_move(machine: CompiledMachine, session: Session, named: Named) -> Move | Refusal:
    """Return the move to what a reply names, or why it is not possible with the values of the
    session.

    A yes that does not count is refused by `agrees`, if its conditions hold.
    """
    if not named.moves:
        return Refusal(by="unknown", reason="no transition leads there from this state")
    if named.target in session.open_places():
        return named.moves[0]
    # A digression of a caller reads the caller's values.
    data = session.data() if named.aside is None else named.aside.data_in(session)
    unmet = {move.pointer: withheld(machine, session, move) for move in named.moves}
    found = judge([move for move in named.moves if unmet[move.pointer] is None], data)
    if isinstance(found, Refusal):
        # Told only if it would be open otherwise: a closed way needs its conditions first.
        yes = judge([move for move in named.moves if unmet[move.pointer] is not None], data)
        broken = unmet[yes.pointer] if isinstance(yes, Move) else None
        if broken is not None:
            return Refusal(by="agrees", reason=broken.reason, sentence=broken.sentence)
    if isinstance(found, Move) and lacks_answer(session, found):
        return Refusal(by="closed", reason=NOT_ASKED)
    # The stack is stored with every turn, and a user who nests deeper has lost the thread.
    if isinstance(found, Move) and found.returns and len(session.stack) >= MAX_DEPTH:
        reason = "too much is left open already; go back to one of the open states"
        return Refusal(by="closed", reason=reason)
    return found
