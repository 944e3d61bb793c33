"""How rules are called: by name, by code, or by the beginning of a code (`F`, `F1`)."""

from __future__ import annotations

import re

from llm_fsm._text import nearest
from llm_fsm.lint.registry import RULES
from llm_fsm.lint.rule import Rule

_CODE = re.compile(r"[A-Z][0-9]{0,3}")


def matches(word: str, name: str, code: str) -> bool:
    """True when a word stands for the rule of this name and code; codes are compared without case."""
    upper = word.upper()
    return word == name or (_CODE.fullmatch(upper) is not None and code.startswith(upper))


def names_a_rule(word: str) -> bool:
    """True when a word stands for at least one rule."""
    return any(matches(word, rule.name, rule.code) for rule in RULES)


def near_rule(word: str) -> str | None:
    """The name of the rule that was probably meant."""
    return nearest(word.replace("_", "-"), [rule.name for rule in RULES])


def find_rule(word: str) -> Rule | None:
    """The rule of this name or whole code."""
    return next((rule for rule in RULES if word == rule.name or word.upper() == rule.code), None)
