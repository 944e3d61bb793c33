"""Every rule, and its lookup by name, by code, or by the beginning of a code (`F`, `F1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import MappingProxyType, ModuleType

from llm_fsm._json import TextMap
from llm_fsm._text import nearest
from llm_fsm.lint import catalogue
from llm_fsm.lint import rules as rule_modules
from llm_fsm.lint.rule import LintRule

FAMILIES: TextMap = MappingProxyType(
    {
        "E": "Reading",
        "S": "Form",
        "F": "Graph",
        "C": "Decision",
        "K": "Data flow",
        "W": "Words",
        "T": "Work",
        "P": "Properties",
        "M": "Older forms",
        "R": "Running",
    }
)
"""First letter of a code to the name of its family, in the order of the handbook."""

MODULES: tuple[ModuleType, ...] = tuple(
    import_module(found.name)
    for found in walk_packages(rule_modules.__path__, f"{rule_modules.__name__}.")
    if not found.ispkg
)
"""The modules of `rules/`: each defines rules with `lint_rule`."""

_CODE = re.compile(r"[A-Z][0-9]{0,3}")


def _place(rule: LintRule) -> tuple[int, str]:
    return list(FAMILIES).index(rule.code[0]), rule.code


def _all_rules() -> tuple[LintRule, ...]:
    rules = set(catalogue.RULES.values())
    for module in MODULES:
        rules.update(value for value in vars(module).values() if isinstance(value, LintRule))
    return tuple(sorted(rules, key=_place))


RULES: tuple[LintRule, ...] = _all_rules()
"""Every rule, in the order of codes."""

BY_NAME: Mapping[str, LintRule] = MappingProxyType({rule.name: rule for rule in RULES})


def matches(word: str, name: str, code: str) -> bool:
    """Return true if a word means the rule of this name and code. Codes are compared without
    case.
    """
    upper = word.upper()
    return word == name or (_CODE.fullmatch(upper) is not None and code.startswith(upper))


def names_a_rule(word: str) -> bool:
    """Return true if a word means at least one rule."""
    return any(matches(word, rule.name, rule.code) for rule in RULES)


def near_rule(word: str) -> str | None:
    """Return the name of the most similar rule."""
    return nearest(word.replace("_", "-"), BY_NAME)


def find_rule(word: str) -> LintRule | None:
    """Return the rule of this name or whole code."""
    return next((rule for rule in RULES if word == rule.name or word.upper() == rule.code), None)
