"""Repair patterns: what people do in every conversation, whatever it is about. They correct,
cancel, ask back.

Each is a small definition of the same format (`patterns/*.json`). A model is told of it by one
line, its name standing for a state. What it says by itself is the reply of the state in which it
ends. A definition's own state of that name takes its place. The `outcome` of that state names the
verb, see `llm_fsm.turn.repair.verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from llm_fsm._json import JsonMap
from llm_fsm.definition.models import Definition
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.guards import open_moves

Pieces = Callable[[str], Definition]
"""Name of a pattern to the definition that it is."""

UNNAMED = frozenset({"silence"})
"""Patterns that no model names."""
COMES_BACK = frozenset({"correct", "digress", "clarify", "repeat", "skip", "cannot_handle"})
"""Patterns whose own state, where a definition has one, is a digression."""


def no_pieces(name: str) -> Definition:
    """Raise KeyError: there are none."""
    raise KeyError(name)


def named(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that a model may name."""
    return tuple(name for name in patterns if name not in UNNAMED)


def end_of(piece: CompiledMachine, data: JsonMap) -> str:
    """Return the state in which a piece ends; `data` are its keys."""
    state = piece.states[piece.definition.initial_state]
    seen = set()
    while state.kind == "decide" and state.id not in seen:
        seen.add(state.id)
        move = next(open_moves(state.moves, data), None)
        if move is None:
            break
        state = piece.states[move.target]
    return state.id


def words_of(piece: CompiledMachine, state: str, data: JsonMap) -> str:
    """Return what a piece says in a state. Raises WordingError."""
    fixed = piece.states[state].fixed
    return "" if fixed is None else fixed.render(dict(data)).strip()


def lines(pieces: Mapping[str, CompiledMachine]) -> str:
    """Return what a prompt says of patterns, a line for each."""
    return "\n".join(f"{name}: {pieces[name].definition.description}" for name in named(pieces))
