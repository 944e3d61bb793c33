"""Write JsonLogic as people write expressions, `age >= 18 && country == "IE"`, and read such
expressions.

`write` uses the common part of ECMAScript expressions, and returns None if a rule goes beyond it.
With `loose=True` it always returns text, which may contain `x in [1, 2]` and other operators as
`name(arguments)`. `read` accepts both, and also `and`, `or`, `not`, `=`, single quotes, `===` and
`!==`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm._json import JsonMap, json_text
from llm_fsm.conditions.compiler import collect_faults

_MAX_DEPTH = 40
_MAX_CHARS = 2000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    rf"|(?P<name>{_NAME.pattern})"
    r"|(?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!()=,\[\]]))",
    re.DOTALL,
)
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_LITERALS: JsonMap = {"true": True, "false": False, "null": None, "undefined": None}
_RANK: Mapping[str, int] = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "===": 3, "!==": 3, "=": 3,
    "<": 4, "<=": 4, ">": 4, ">=": 4, "in": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}  # fmt: skip
_NOT_RANK = 7
_OPERATOR = {"||": "or", "&&": "and", "=": "=="}
_SIGN = {"or": "||", "and": "&&"}
_CHAINED = frozenset({"<", "<="})
_JOINED = frozenset({"or", "and", "+", "*"})
_RESERVED = frozenset({*_WORDS, *_LITERALS, "in"})


def write(rule: Any, *, loose: bool = False) -> str | None:
    """Write a rule as an expression; None if it has none (never with `loose`)."""
    try:
        return _Writer(loose).of(rule, 0, 0)
    except _NoExpressionError:
        return json_text(rule) if loose else None


def read(text: str, *, bare: bool = False) -> Any:
    """Read the rule of an expression.

    `bare` accepts a single name as a condition (`ready`, `!ready`). In a diagram, a single name is
    more often the name of a guard than of a context key. `!!ready` is always accepted.

    Raises:
        ValueError: The text is no expression.
    """
    if len(text) > _MAX_CHARS:
        raise ValueError(f"the expression is longer than {_MAX_CHARS} characters")
    reader = _InfixReader(tuple(_tokens(text)), bare)
    rule = reader.expression(0, 0)
    if reader.at != len(reader.tokens):
        raise ValueError(f"unexpected {reader.tokens[reader.at][1]!r}")
    reader.check(rule)
    for fault in collect_faults(rule):
        raise ValueError(fault.reason)
    return rule


class _NoExpressionError(Exception):
    """The rule has no expression."""


@dataclass(frozen=True, slots=True)
class _Writer:
    loose: bool

    def of(self, rule: Any, around: int, depth: int) -> str:
        """Write a value. `around` is the precedence of its place."""
        if depth > _MAX_DEPTH:
            raise _NoExpressionError
        if not isinstance(rule, Mapping):
            return self.literal(rule)
        if len(rule) != 1:
            raise _NoExpressionError
        name = str(next(iter(rule)))
        given = rule[name]
        parts = list(given) if isinstance(given, list) else [given]
        if name == "var" and (not self.loose or _is_name(parts)):
            return self.name(parts)
        if name in ("!", "!!") and len(parts) == 1:
            return name + self.of(parts[0], _NOT_RANK, depth + 1)
        if name == "-" and len(parts) == 1:
            return self.of({"-": [0, parts[0]]}, around, depth)
        sign = _SIGN.get(name, name)
        if (
            sign in _RANK
            and (sign != "in" or self.loose)
            and len(parts) >= 2
            and (len(parts) == 2 or name in _JOINED or name in _CHAINED)
        ):
            return self.joined(sign, parts, around, depth)
        if not self.loose:
            raise _NoExpressionError
        if name == "has_context" and _is_name(parts):
            return self.joined("!=", [{"var": parts[0]}, None], around, depth)
        return self.word(name, parts, depth)

    def joined(self, sign: str, parts: Sequence[Any], around: int, depth: int) -> str:
        rank = _RANK[sign]
        if sign in _CHAINED and len(parts) == 3:
            low, value, high = parts
            return self.of(
                {"and": [{sign: [low, value]}, {sign: [value, high]}]}, around, depth + 1
            )
        if len(parts) > 2 and sign in _CHAINED:
            raise _NoExpressionError
        written = [self.of(parts[0], rank, depth + 1)]
        written += [self.of(part, rank + 1, depth + 1) for part in parts[1:]]
        text = f" {sign} ".join(written)
        return f"({text})" if rank < around else text

    def word(self, name: str, parts: Sequence[Any], depth: int) -> str:
        name = "if" if name == "?:" else name
        return f"{name}({', '.join(self.of(part, 0, depth + 1) for part in parts)})"

    def name(self, parts: Sequence[Any]) -> str:
        if not _is_name(parts):
            raise _NoExpressionError
        return str(parts[0])

    def literal(self, value: Any) -> str:
        if isinstance(value, list):
            if not self.loose:
                raise _NoExpressionError
            return f"[{', '.join(self.of(item, 0, 1) for item in value)}]"
        return json_text(value)


def _is_name(parts: Sequence[Any]) -> bool:
    """Return true for the name of one key, such as `order.number`."""
    name = parts[0] if len(parts) == 1 else None
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and name not in _RESERVED


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"unexpected {text[at:].strip()[:1]!r}")
        word = found[found.lastgroup]
        at = found.end()
        kind = (
            "sign"
            if word in _WORDS or (word == "in" and found.lastgroup == "name")
            else found.lastgroup
        )
        yield kind, _WORDS.get(word, word)


class _InfixReader:
    """Read operators by precedence (Pratt 1973)."""

    def __init__(self, tokens: tuple[tuple[str, str], ...], bare: bool) -> None:
        self.tokens = tokens
        self.bare = bare
        self.at = 0

    def expression(self, rank: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("the expression is nested too deeply")
        left = self.operand(depth)
        while self.at < len(self.tokens):
            kind, sign = self.tokens[self.at]
            if kind != "sign" or _RANK.get(sign, 0) <= rank:
                break
            self.at += 1
            right = self.expression(_RANK[sign], depth + 1)
            left = _merged(_OPERATOR.get(sign, sign), left, right)
        return left

    def operand(self, depth: int) -> Any:
        if self.at == len(self.tokens):
            raise ValueError("the expression ends too early")
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return json.loads(word)
        if kind == "text":
            return _unquoted(word)
        if kind == "name":
            return self.named(word, depth)
        if word == "[":
            return self.several("]", depth)
        if word == "!":
            return _negated(self.expression(_NOT_RANK, depth + 1))
        if word == "-":
            value = self.expression(_NOT_RANK, depth + 1)
            return -value if isinstance(value, int | float) else {"-": [0, value]}
        if word == "(":
            inner = self.expression(0, depth + 1)
            if not self.sign(")"):
                raise ValueError("a parenthesis is not closed")
            return inner
        raise ValueError(f"unexpected {word!r}")

    def several(self, closer: str, depth: int) -> list[Any]:
        """Read expressions between commas, up to a closing sign."""
        found: list[Any] = []
        while not self.sign(closer):
            if found and not self.sign(","):
                raise ValueError(f"expected ',' or {closer!r}")
            found.append(self.expression(0, depth + 1))
        return found

    def sign(self, word: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", word):
            self.at += 1
            return True
        return False

    def named(self, word: str, depth: int) -> Any:
        if word in _LITERALS:
            return _LITERALS[word]
        if self.sign("("):
            return {word: self.several(")", depth)}
        if word.startswith("_event"):
            raise ValueError("a condition cannot read an event")
        return {"var": word}

    def check(self, rule: Any) -> None:
        """Refuse names, texts and numbers in a place that needs a condition."""
        if isinstance(rule, dict):
            [(name, parts)] = rule.items()
            if name in ("and", "or", "!"):
                for part in parts:
                    self.check(part)
                return
            if name != "var" or self.bare:
                return
            raise ValueError("a name alone does not say what is compared")
        if not (rule is True or rule is False):
            raise ValueError("there is nothing that could be true or false")


def _negated(rule: Any) -> Any:
    if isinstance(rule, dict) and "!" in rule and isinstance(rule["!"], list):
        return {"!!": rule["!"]}
    return {"!": [rule]}


def _merged(name: str, left: Any, right: Any) -> Any:
    if name in ("and", "or") and isinstance(left, dict) and name in left:
        return {name: [*left[name], right]}
    return {name: [left, right]}


def _unquoted(word: str) -> str:
    inner = word[1:-1]
    if word[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError as error:
        raise ValueError(f"the text {word[:40]} has an unknown escape") from error
