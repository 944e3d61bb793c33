"""Whether a fixed reply is a template: delimiters, quotes, brackets, blocks, names of filters.

What authors get wrong is found without the cost of a template engine, which is loaded only for replies that
do more than show keys and test them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

_OPENER = re.compile(r"\{\{|\{%|\{#")
_CLOSERS = {"{{": "}}", "{%": "%}"}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_BLOCK = re.compile(r"[-+]?\s*([a-z]+)")
_OPENING = frozenset({"if", "for", "filter", "with", "macro", "call", "autoescape", "block"})
_QUOTED = re.compile(r"\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'")
_FILTER = re.compile(r"\|\s*([A-Za-z_]\w*)")
_TEST = re.compile(r"\bis\s+(?:not\s+)?([a-z_]\w*)")
_RAW_END = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")


_NAME = r"(?!(?:not|if|in|is|true|false|none|loop|True|False|None)\b)[A-Za-z_]\w*(?:\.[A-Za-z]\w*)*"
_TEST_OF_KEY = rf"(?:not\s+)?{_NAME}(?:\s*[=!]=\s*(?:'[^'\\]*'|\"[^\"\\]*\"|\d{{1,9}}))?"
_PLAIN = re.compile(
    rf"""\{{\{{-?\s*{_NAME}\s*(?:\|\s*(?:default|upper|lower|title|capitalize|trim)\s*)?-?\}}\}}
    |\{{%-?\s*(?:el)?if\s+{_TEST_OF_KEY}(?:\s+(?:and|or)\s+{_TEST_OF_KEY})*\s*-?%\}}
    |\{{%-?\s*(?:else|endif)\s*-?%\}}""",
    re.VERBOSE,
)


def is_plain(text: str) -> bool:
    """True for a reply that only shows keys and tests them: one that can always be said."""
    return _OPENER.search(_PLAIN.sub("", text)) is None and "._" not in text


@cache
def _wording() -> Any:
    """What compiles and renders replies, loaded with the first that needs it: it brings the template engine."""
    return import_module("llm_fsm.turn.fixed_replies")


class Rendering(NamedTuple):
    """What came of rendering a reply: its words, or None, the name of the kind of error, and why."""

    words: str | None
    kind: str = ""
    why: str = ""


def renderings(text: str, contexts: Iterable[Mapping[str, Any]]) -> Iterator[Rendering]:
    """What a fixed reply says in each of these contexts; it must be a template."""
    wording = _wording()
    reply = wording.compile_reply(text)
    for data in contexts:
        try:
            yield Rendering(reply.render(data))
        except wording.WordingError as error:
            yield Rendering(None, type(error.__cause__).__name__, str(error.__cause__ or error))


def template_fault(text: str) -> str | None:
    """Why a text is not a Jinja2 template, in a few words; None when it is one."""
    fault = _seen(text)
    if fault is not None or is_plain(text):
        return fault
    wording = _wording()
    try:
        wording.compile_reply(text)
    except wording.WordingError as error:
        return str(error.__cause__).removesuffix(".")
    return None


def _seen(text: str) -> str | None:
    """What is wrong at a first look."""
    blocks: list[str] = []
    at = 0
    while (opener := _OPENER.search(text, at)) is not None:
        kind, start = opener[0], opener.end()
        if kind == "{#":
            end = text.find("#}", start)
            if end < 0:
                return 'a comment "{#" is not closed by "#}"'
            at = end + 2
            continue
        fault, end = _expression(text, start, _CLOSERS[kind])
        if fault is not None:
            return fault
        inner = text[start:end].strip("-+ \t\r\n")
        fault = _unknown_name(inner)
        if fault is not None:
            return fault
        if not inner:
            return f'nothing stands between "{kind}" and "{_CLOSERS[kind]}"'
        at = end + 2
        if kind == "{%":
            if inner == "raw":
                closing = _RAW_END.search(text, at)
                if closing is None:
                    return '"{% raw %}" is not closed by "{% endraw %}"'
                at = closing.end()
            else:
                fault = _block(inner, blocks)
                if fault is not None:
                    return fault
    return f'"{{% {blocks[-1]} %}}" is not closed by "{{% end{blocks[-1]} %}}"' if blocks else None


FILTERS = frozenset(
    [
        "abs",
        "attr",
        "capitalize",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "filesizeformat",
        "first",
        "float",
        "forceescape",
        "format",
        "groupby",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "random",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "safe",
        "select",
        "selectattr",
        "sort",
        "string",
        "striptags",
        "sum",
        "title",
        "tojson",
        "trim",
        "truncate",
        "unique",
        "upper",
        "urlencode",
        "urlize",
        "wordcount",
        "wordwrap",
    ]
)
"""The filters that a fixed reply may use."""

TESTS = frozenset(
    [
        "boolean",
        "callable",
        "defined",
        "divisibleby",
        "eq",
        "equalto",
        "escaped",
        "even",
        "false",
        "filter",
        "float",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "integer",
        "iterable",
        "le",
        "lessthan",
        "lower",
        "lt",
        "mapping",
        "ne",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "test",
        "true",
        "undefined",
        "upper",
    ]
)
"""The tests that a fixed reply may use after `is`."""


def _unknown_name(inner: str) -> str | None:
    bare = _QUOTED.sub("''", inner)
    for pattern, known, what in ((_FILTER, FILTERS, "filter"), (_TEST, TESTS, "test")):
        for name in pattern.findall(bare):
            if name not in known:
                return f'there is no {what} "{name}"'
    return None


def _expression(text: str, start: int, closer: str) -> tuple[str | None, int]:
    """Fault, and where the closing delimiter begins. Quotes and brackets inside are stepped over."""
    opener = "{{" if closer == "}}" else "{%"
    awaited: list[str] = []
    at = start
    while at < len(text):
        char = text[at]
        if not awaited and text.startswith(closer, at):
            return None, at
        if char in "\"'":
            end = _quote_end(text, at)
            if end is None:
                return f'a quote after "{opener}" is not closed', at
            at = end
        elif char in _BRACKETS:
            awaited.append(_BRACKETS[char])
        elif awaited and char == awaited[-1]:
            awaited.pop()
        elif char in ")]}":
            expected = f'"{awaited[-1]}"' if awaited else f'"{closer}"'
            return f'"{char}" after "{opener}" where {expected} was expected', at
        at += 1
    missing = awaited[-1] if awaited else closer
    return f'"{opener}" is not closed by "{closer}"' if missing == closer else f'"{missing}" is missing', at


def _quote_end(text: str, start: int) -> int | None:
    at = start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == text[start]:
            return at
        at += 1
    return None


def _block(inner: str, blocks: list[str]) -> str | None:
    word = _BLOCK.match(inner)
    name = word[1] if word else ""
    if name in _OPENING:
        blocks.append(name)
    elif name.startswith("end"):
        if not blocks or blocks[-1] != name[3:]:
            return f'"{{% {name} %}}" closes nothing'
        blocks.pop()
    return None
