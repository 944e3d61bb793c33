"""The tests for open moves and for picks: the machine's part of every decision."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llm_fsm._json import JsonMap, KeyTest
from llm_fsm.conditions.compiler import CompiledRule, could_hold, test
from llm_fsm.session.context import has
from llm_fsm.session.session import Session

HANDOVER = "/patterns/handover"
"""The pointer of the move to a definition's own state of that pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One compiled condition of a move."""

    description: str
    keys: tuple[str, ...]
    rule: CompiledRule | None
    logic: Any

    @property
    def judged(self) -> bool:
        """True if only the model can judge it."""
        return self.rule is None and not self.keys

    def settled(self, data: JsonMap) -> bool:
        """Return True if every key that it reads is known, and it holds."""
        # The rule may read keys that are missing as false, so the keys come first.
        if not all(has(data, key) for key in self.keys):
            return False
        if self.rule is None:
            return True
        return all(has(data, key) for key in self.rule.reads) and test(self.rule, data).holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Keys that a definition writes itself: each by a compiled rule over the context, and keys that
    it clears.

    `pointer` is the place of its state or transition.
    """

    rules: Mapping[str, CompiledRule]
    clear: tuple[str, ...] = ()
    pointer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One compiled transition. `pointer` is its place in the definition, such as
    /states/a/transitions/0.

    `on`: the label by which a task, a flow or an answer picks it. `returns`: a digression, which
    returns. `caller`: in a flow that was called, the place on the stack of the definition that has
    the transition. `place`: the place on the stack to which it returns, if another definition left
    that open. `agrees`: the user's yes, which is only taken from a message
    (`llm_fsm.turn.agreement`).
    """

    pointer: str
    target: str
    description: str = ""
    guards: tuple[Guard, ...] = ()
    priority: int = 0
    auto: bool = False
    on: str | None = None
    returns: bool = False
    caller: int | None = None
    place: int | None = None
    assignment: Assignment | None = None
    agrees: bool | Literal["picked"] = False

    @property
    def judged(self) -> bool:
        """True if its conditions are only described in words."""
        return all(guard.judged for guard in self.guards)

    @property
    def asks_model(self) -> bool:
        """True if one of its conditions is for the model to judge."""
        return any(guard.judged for guard in self.guards)

    @property
    def is_own(self) -> bool:
        """True for a transition of the state itself, not a global one or one to the state of a
        pattern.
        """
        return self.pointer.startswith("/states/")


Moves = tuple[Move, ...]
"""Moves, in the order in which they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on a move's conditions.

    `reason` names the condition that does not hold, and `rule` is its rule, if it has one. `error`
    says why it could not be evaluated.
    """

    holds: bool
    reason: str = ""
    error: str | None = None
    rule: CompiledRule | None = None


_HOLDS = Verdict(holds=True)

NOT_ASKED = (
    "the fixed text of this state could not be shown, so the user has not answered its question"
)
"""The reason why a move is refused that `lacks_answer`."""


def lacks_answer(session: Session, move: Move) -> bool:
    """Return true for a move that only an answer opens, out of a state whose question was not said.

    Moves with conditions of their own, digressions, and ways back to a state of the path stay
    possible.
    """
    # In the turn of the failure itself, the message answered the question before.
    if session.unsaid is None or session.unsaid == session.turn or not move.is_own or move.auto:
        return False
    passed = {state for state, _ in session.path}
    return move.judged and move.target not in passed


def verdict(move: Move, data: JsonMap) -> Verdict:
    """Judge a move against the context and system names. Conditions for the model to judge hold."""
    for guard in move.guards:
        failed = _failed(guard, data)
        if failed is not None:
            return failed
    return _HOLDS


def _failed(guard: Guard, data: JsonMap) -> Verdict | None:
    """Return the verdict on a condition that does not hold; None if it holds."""
    condition = f'condition "{guard.description}"' if guard.description else "condition"
    # Missing keys come before the rule: they tell the model what to ask for.
    unset = [key for key in guard.keys if not has(data, key)]
    if unset:
        are = "are" if len(unset) > 1 else "is"
        reason = f"{condition} needs {', '.join(unset)}, which {are} not known yet"
        return Verdict(holds=False, reason=reason)
    if guard.rule is None:
        return None
    result = test(guard.rule, data)
    if result.holds:
        return None
    reason = f"{condition} does not hold"
    if result.error is not None:
        reason = f"{condition} cannot be evaluated: {result.error}"
    return Verdict(holds=False, reason=reason, error=result.error, rule=guard.rule)


def open_moves(moves: Iterable[Move], data: JsonMap) -> Iterator[Move]:
    """Yield the moves whose conditions hold, in their order."""
    return (move for move in moves if verdict(move, data).holds)


def newly_open(moves: Iterable[Move], before: JsonMap, after: JsonMap) -> list[Move]:
    """Return the moves that the values of a message opened.

    The data before it have none of its words, whatever it says.
    """
    unheard = {**before, "_user_input": None}
    return [move for move in open_moves(moves, after) if not verdict(move, unheard).holds]


def may_hold(move: Move, data: JsonMap, is_free: KeyTest) -> bool:
    """Return True if a move's conditions hold, or could hold after a reply wrote the free keys."""
    for guard in move.guards:
        if any(not has(data, key) and not is_free(key) for key in guard.keys):
            return False
        if guard.rule is not None and could_hold(guard.rule, data, is_free) is False:
            return False
    return True


def surely_holds(move: Move, data: JsonMap, is_free: KeyTest) -> bool:
    """Return True if a move's conditions hold whatever a reply writes.

    Conditions for the model to judge hold.
    """
    for guard in move.guards:
        if any(is_free(key) or not has(data, key) for key in guard.keys):
            return False
        if guard.rule is not None and could_hold(guard.rule, data, is_free) is not True:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pick that is refused. `by`: unknown, closed or agrees, with the broken `sentence` of a yes."""

    by: str
    reason: str
    sentence: str = ""


def _unknown(rule: CompiledRule | None, data: JsonMap) -> str:
    """Return a note on the names that a rule reads and that are not set. A reply may have omitted
    them.
    """
    if rule is None:
        return ""
    own = (name for name in rule.reads if not name.startswith("_"))
    unset = sorted(name for name in own if not has(data, name))
    return f" ({', '.join(unset)} not known yet)" if unset else ""


def judge(moves: Sequence[Move], data: JsonMap) -> Move | Refusal:
    """Return the first of these moves whose conditions hold; else why none of them is open."""
    reasons: list[str] = []
    for move in moves:
        judged = verdict(move, data)
        if judged.holds:
            return move
        reasons.append(judged.reason + _unknown(judged.rule, data))
    return Refusal(by="closed", reason="; or ".join(dict.fromkeys(reasons)))


def labelled(moves: Sequence[Move], output: Any) -> Moves:
    """Order the moves of a state that worked: those that the output names, the default, those
    without a label.
    """
    label = output.get("_transition") if isinstance(output, dict) else output
    if label is None or isinstance(label, bool | int | float):
        label = json.dumps(label)  # the model's `true` is read as JSON, and the label is a text
    named: list[Move] = []
    if isinstance(label, str):
        named = [move for move in moves if move.on == label.strip()]
    default = [move for move in moves if move.on == "default"]
    unlabelled = [move for move in moves if move.on is None]
    return (*named, *default, *unlabelled)


def reads(move: Move, changed: Collection[str]) -> bool:
    """Return True if a condition of the move reads one of the keys, or a part of one."""
    names: set[str] = set()
    for guard in move.guards:
        names.update(guard.keys)
        if guard.rule is not None:
            names.update(guard.rule.reads)
    # A change of the whole changes each of its parts.
    names.update([name.partition(".")[0] for name in names])
    return any(name in changed for name in names)
