"""Repair patterns without a model: plain English phrases that name one, in short messages only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llm_fsm.llm.offline.vocabulary import words_of

_MOST_WORDS = 8
_PHRASES: Mapping[str, tuple[str, ...]] = {
    "restart": ("restart", "start over", "start again", "from the beginning", "from the start"),
    "repeat": ("repeat", "say that again", "say it again", "what did you say", "come again", "pardon"),
    "handover": ("human", "real person", "a person", "an agent", "operator", "representative"),
    "cancel": ("cancel", "stop", "abort", "quit", "forget it", "never mind", "nevermind"),
    "skip": ("skip", "rather not say", "rather not", "prefer not to"),
    "clarify": ("what do you mean", "what does that mean", "do not understand", "don't understand", "why do you ask"),
}
_GROUPS: Mapping[str, str] = {"cancel": "@cancel", "handover": "@human", "restart": "@again", "repeat": "@again"}
"""What a transition of the definition is about that goes before the pattern."""


def pattern_of(text: str, patterns: Iterable[str], offered: Iterable[set[str]]) -> str | None:
    """The pattern that a message names; `offered` are the meanings of the transitions that can be taken."""
    said = words_of(text)
    if not said or len(said) > _MOST_WORDS:
        return None
    whole = f" {' '.join(said)} "
    meant = {meaning for meanings in offered for meaning in meanings}
    known = [name for name in _PHRASES if name in set(patterns) and _GROUPS.get(name) not in meant]
    return next((name for name in known if any(_spoken(phrase) in whole for phrase in _PHRASES[name])), None)


def _spoken(phrase: str) -> str:
    return f" {' '.join(words_of(phrase))} "
