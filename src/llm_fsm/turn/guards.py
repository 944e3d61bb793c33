"""The tests for open moves and for picks that stand: the machine's part of every decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm.conditions.compiler import CompiledRule, could_hold, test
from llm_fsm.session.context import has

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
        """True when only the model can tell."""
        return self.rule is None and not self.keys

    def is_known(self, data: Mapping[str, Any]) -> bool:
        """Return True when a prompt leaves something of it out, because it holds or one of its keys is known."""
        return not self.judged and (self.settled(data) or any(has(data, key) for key in self.keys))

    def settled(self, data: Mapping[str, Any]) -> bool:
        """Return True when all that it reads is known, and it holds."""
        reads = self.keys if self.rule is None else (*self.keys, *self.rule.reads)
        return all(has(data, key) for key in reads) and (self.rule is None or test(self.rule, data).holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Keys that a definition writes itself: each by a compiled rule over the context, and keys that it clears.

    `pointer` is the place of the state or transition that says so.
    """

    rules: Mapping[str, CompiledRule]
    clear: tuple[str, ...] = ()
    pointer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One compiled transition. `pointer` is its place in the definition, such as /states/a/transitions/0.

    `on`: the label by which a task, a flow or an answer picks it. `returns`: a digression, which comes back.
    `caller`: in a flow that was called, the place on the stack of the definition whose transition it is.
    `place`: the place on the stack that it goes back to, where another definition left that open.
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

    @property
    def judged(self) -> bool:
        """True when nothing but words says when to take it."""
        return all(guard.judged for guard in self.guards)

    @property
    def asks_model(self) -> bool:
        """True when one of its conditions is for the model to judge."""
        return any(guard.judged for guard in self.guards)

    @property
    def is_own(self) -> bool:
        """True for a transition of the state itself: no global one, and none to the state of a pattern."""
        return self.pointer.startswith("/states/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on a move's conditions. `reason` names what does not hold; `error`: why it could not be told.

    `rule`: the rule that does not hold, if it is one.
    """

    holds: bool
    reason: str = ""
    error: str | None = None
    rule: CompiledRule | None = None


_HOLDS = Verdict(holds=True)


def verdict(move: Move, data: Mapping[str, Any]) -> Verdict:
    """Judge a move against the context and system names. Conditions for the model to judge hold."""
    for guard in move.guards:
        unset = [key for key in guard.keys if not has(data, key)]
        label = f'"{guard.description}" ' if guard.description else ""
        if unset:
            names, are = ", ".join(unset), "are" if len(unset) > 1 else "is"
            return Verdict(holds=False, reason=f"condition {label}needs {names}, which {are} not known yet")
        if guard.rule is not None:
            found = test(guard.rule, data)
            if not found.holds:
                reason = f"condition {label}does not hold"
                if found.error is not None:
                    reason = f"condition {label}cannot be evaluated: {found.error}"
                return Verdict(holds=False, reason=reason, error=found.error, rule=guard.rule)
    return _HOLDS


def open_moves(moves: Iterable[Move], data: Mapping[str, Any]) -> Iterator[Move]:
    """Yield the moves whose conditions hold, in their order."""
    return (move for move in moves if verdict(move, data).holds)


def may_hold(move: Move, data: Mapping[str, Any], is_free: Callable[[str], bool]) -> bool:
    """Return True when a move's conditions hold, or could hold after a reply wrote the free keys."""
    for guard in move.guards:
        if any(not has(data, key) and not is_free(key) for key in guard.keys):
            return False
        if guard.rule is not None and could_hold(guard.rule, data, is_free) is False:
            return False
    return True


def surely_holds(move: Move, data: Mapping[str, Any], is_free: Callable[[str], bool]) -> bool:
    """Return True when a move's conditions hold whatever a reply writes. Conditions for the model to judge hold."""
    return all(
        all(has(data, key) and not is_free(key) for key in guard.keys)
        and (guard.rule is None or could_hold(guard.rule, data, is_free) is True)
        for guard in move.guards
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pick that does not stand. `by`: unknown or closed."""

    by: str
    reason: str


def _unknown(rule: CompiledRule | None, data: Mapping[str, Any]) -> str:
    """Return the names that a rule reads and nobody has said, in words; a reply may have left them out."""
    reads = () if rule is None else rule.reads
    names = ", ".join(sorted(name for name in reads if not name.startswith("_") and not has(data, name)))
    return f" ({names} not known yet)" if names else ""


def judge(moves: Sequence[Move], data: Mapping[str, Any]) -> Move | Refusal:
    """Return the first of these moves whose conditions hold; else why none of them is open."""
    reasons: list[str] = []
    for move in moves:
        judged = verdict(move, data)
        if judged.holds:
            return move
        reasons.append(f"{judged.reason}{_unknown(judged.rule, data)}")
    return Refusal(by="closed", reason="; or ".join(dict.fromkeys(reasons)))


def labelled(moves: Sequence[Move], output: Any) -> tuple[Move, ...]:
    """Order the moves of a state that worked: those whose label the output names, the default, those without."""
    label = output.get("_transition") if isinstance(output, dict) else output
    if label is None or isinstance(label, bool | int | float):
        label = json.dumps(label)  # the model's `true` is read as JSON, and the label is a text
    named = [move for move in moves if isinstance(label, str) and move.on == label.strip()]
    default = [move for move in moves if move.on == "default"]
    return (*named, *default, *(move for move in moves if move.on is None))


def reads(move: Move, changed: Collection[str]) -> bool:
    """Return True when a condition of the move looks at one of the keys."""
    names = {name for guard in move.guards for name in guard.keys}
    names |= {name for guard in move.guards if guard.rule is not None for name in guard.rule.reads}
    return any(name in changed or name.split(".", 1)[0] in changed for name in names)
