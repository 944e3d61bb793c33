"""The options of a reply as a prompt shows them: one line each in <transitions>.

A line names the state, tells when it is meant and what is needed, and what its state asks. It looks
no further than one step: the machine goes on from there by itself. Moves that the machine makes
without being asked have no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from llm_fsm._json import JsonMap
from llm_fsm._text import clean, escaped, estimate
from llm_fsm.session.context import has
from llm_fsm.turn.available import AvailableMoves, Option
from llm_fsm.turn.compiled import CompiledState
from llm_fsm.turn.fixed_replies import ended
from llm_fsm.turn.guards import Guard

_PURPOSE_CHARS = 200
"""A purpose that is longer is cut at a word: the state's own prompt has all of it."""
_ANSWER_TOKENS = 800
"""Instructions of a digression that are longer are left out."""
_TEXTS = 1024
"""Texts of definitions that are kept in their form for a line: they are the same in every turn."""
_ELSE = "stay: all else"
_LEFT_OPEN = "back to what was left open"


def option_lines(state: CompiledState, available: AvailableMoves, data: JsonMap) -> str:
    """Return the lines of <transitions>: of each option that a reply may name, and of the state.

    Args:
        state: The current state.
        available: What a reply may do there.
        data: The values that conditions read.
    """
    lines = [_line(option, data) for option in available.options if option.is_offered]
    # The state itself comes last, as the place for all else.
    stay = _line_of(state.id, _ELSE, state.words.note)
    # Several moves to one state with the same words are one line.
    return "\n".join(dict.fromkeys((*lines, stay)))


def _line(option: Option, data: JsonMap) -> str:
    move = option.move
    is_left_open = option.kind == "left_open" or move.place is not None
    when = _LEFT_OPEN if is_left_open else _plain(move.description)
    needs = ["a yes to what was read back"] if move.agrees else []
    needs += _needs(move.guards, data, said=when)
    if needs:
        when = f"{when} (needs {'; '.join(needs)})".lstrip()
    # Only an end leads back; a digression of several states says so in its last one.
    back_to = option.back_to if option.target.kind == "final" else None
    words = _words(option.target, answers=back_to is not None)
    if back_to is not None:
        words = f"{words} Then back to {back_to.id}.".lstrip()
    return _line_of(option.target.id, when, words)


@lru_cache(maxsize=_TEXTS)
def _line_of(name: str, when: str, words: str) -> str:
    told = f"{ended(when) if when else ''} {words}".strip()
    return f"{name}: {told}" if told else name


def _needs(guards: tuple[Guard, ...], data: JsonMap, *, said: str) -> Iterator[str]:
    """Yield in words what conditions still need: their own descriptions, else their keys.

    `said`: what the line says already.
    """
    for guard in guards:
        # A condition that holds would only distract.
        if not guard.judged and guard.settled(data):
            continue
        words = _plain(guard.description)
        if words and words != said:
            yield words
            continue
        names = guard.keys if guard.rule is None else (*guard.keys, *sorted(guard.rule.reads))
        missing = [name for name in dict.fromkeys(names) if not has(data, name)]
        if missing:
            yield ", ".join(missing)


def _words(target: CompiledState, *, answers: bool) -> str:
    """Return what the state of an option says on arrival.

    `answers`: it answers a digression at once, so the reply needs its instructions, too.
    """
    own = target.words.note
    if own or target.kind == "decide":
        return own
    purpose = _plain(target.words.purpose or target.words.description)
    if answers:
        notes = target.words.instructions
        told = " ".join(
            (purpose, _plain(notes) if estimate(notes) <= _ANSWER_TOKENS else "")
        ).strip()
        return f"Then say: {escaped(told)}." if told else ""
    if not purpose:
        return ""
    if len(purpose) > _PURPOSE_CHARS:
        purpose = f"{purpose[:_PURPOSE_CHARS].rpartition(' ')[0]} …"
    return f"Then {'say' if target.kind == 'final' else 'ask'}: {escaped(purpose)}"


@lru_cache(maxsize=_TEXTS)
def _plain(text: str) -> str:
    return " ".join(clean(text).split())
