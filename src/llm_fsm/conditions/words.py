"""Write a rule in words, `age is at least 18 and country is "IE"`, for people who do not read
expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_fsm._json import TextMap, json_text
from llm_fsm.conditions import infix

_MAX_DEPTH = 40
_VERBS: TextMap = {
    "==": "is", "===": "is", "!=": "is not", "!==": "is not",
    "<": "is less than", "<=": "is at most", ">": "is more than", ">=": "is at least",
    "in": "is in",
}  # fmt: skip
_UNKNOWN = {"==": "is not known", "===": "is not known", "!=": "is known", "!==": "is known"}
_NEGATED: TextMap = {"==": "!=", "===": "!==", "!=": "==", "!==": "==="}


def in_words(rule: Any) -> str:
    """Return a rule in words. An operator without words is written by `infix`."""
    return _said(rule, 0, within=False)


def known(keys: Sequence[str]) -> str:
    """Return the sentence that some keys are known."""
    return f"{listed(keys, 'and')} {'is' if len(keys) == 1 else 'are'} known"


def listed(parts: Sequence[str], word: str) -> str:
    """Return `a, b and c`."""
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _said(rule: Any, depth: int, *, within: bool) -> str:
    if not isinstance(rule, Mapping) or len(rule) != 1 or depth > _MAX_DEPTH:
        return _literal(rule)
    [(name, given)] = rule.items()
    parts = list(given) if isinstance(given, list) else [given]
    if name in ("and", "or") and parts:
        return _joined(name, parts, depth, within=within)
    if name == "!" and len(parts) == 1:
        return _not(parts[0], depth)
    if name == "!!" and len(parts) == 1:
        return _said(parts[0], depth + 1, within=within)
    if name == "has_context" and len(parts) == 1 and isinstance(parts[0], str):
        return known([parts[0]])
    if name in ("<", "<=") and len(parts) == 3:
        low, value, high = parts
        return _said({"and": [{name: [low, value]}, {name: [value, high]}]}, depth, within=within)
    if name in _VERBS and len(parts) == 2:
        return _compared(name, parts, depth)
    return infix.write(rule, loose=True) or ""


def _joined(name: str, parts: Sequence[Any], depth: int, *, within: bool) -> str:
    if name == "and":
        keys = [key for part in parts if (key := _known_key(part)) is not None]
        others = [part for part in parts if _known_key(part) is None]
        said = [known(keys)] if keys else []
        said += [_said(part, depth + 1, within=True) for part in others]
    else:
        said = [_said(part, depth + 1, within=True) for part in parts]
    text = f" {name} ".join(said)
    return f"({text})" if within and len(said) > 1 else text


def _known_key(rule: Any) -> str | None:
    """Return the key of a rule that only asks if the key is known."""
    match rule:
        case {"has_context": str(key) | [str(key)]}:
            return key
        case {"!=": [{"var": str(key)}, None]} | {"!==": [{"var": str(key)}, None]}:
            return key
    return None


def _not(rule: Any, depth: int) -> str:
    match rule:
        case {"has_context": str(key) | [str(key)]}:
            return f"{key} is not known"
        case {"var": _}:
            return f"not {_literal(rule)}"
        case {"in": [value, list(items)]}:
            return f"{_said(value, depth + 1, within=True)} is none of {_items(items)}"
        case {"==": given} | {"!=": given} | {"===": given} | {"!==": given} if len(rule) == 1:
            return _said({_NEGATED[next(iter(rule))]: given}, depth + 1, within=True)
    return f"not ({_said(rule, depth + 1, within=False)})"


def _compared(name: str, parts: Sequence[Any], depth: int) -> str:
    left, right = parts
    if name in _UNKNOWN and right is None:
        return f"{_said(left, depth + 1, within=True)} {_UNKNOWN[name]}"
    verb = _VERBS[name]
    if name == "in" and isinstance(right, list):
        return f"{_said(left, depth + 1, within=True)} is one of {_items(right)}"
    return f"{_said(left, depth + 1, within=True)} {verb} {_said(right, depth + 1, within=True)}"


def _items(items: Sequence[Any]) -> str:
    return ", ".join(map(_literal, items))


def _literal(value: Any) -> str:
    if isinstance(value, Mapping) and value:
        return infix.write(value, loose=True) or ""
    return json_text(value)
