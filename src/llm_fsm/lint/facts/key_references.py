"""The context keys in texts: in fixed replies, and as placeholders elsewhere.

Our own scanner reads them, without the template engine. It ignores text that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TAG = re.compile(r"\{#.*?#\}|\{\{(?P<shown>.*?)\}\}|\{%(?P<block>.*?)%\}", re.DOTALL)
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d[\w.]*|==|!=|<=|>=|[^\s\w]""", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset(
    {
        *("and", "or", "not", "in", "is", "if", "else", "elif", "for", "true", "false", "none"),
        *("True", "False", "None", "loop"),
    }
)
_PLACEHOLDER = re.compile(r"\{\{?\s*([A-Za-z_][\w.-]*)\s*(?:\|[^{}]*)?\}")


class Mention(NamedTuple):
    """A name in a template. `shown`: it is printed. `guarded`: only after a test, or with a
    default.
    """

    name: str
    shown: bool
    guarded: bool


def placeholders(text: str) -> Iterator[str]:
    """Yield the names in {name} or {{name}} of a text."""
    if "{" in text:
        for found in _PLACEHOLDER.finditer(text):
            yield found[1]


def mentions(template: str) -> list[Mention]:
    """Return every name that a fixed reply reads, in order, without the variables of its loops."""
    if "{" not in template:
        return []
    found: list[Mention] = []
    depth = 0
    local: set[str] = set()
    for tag in _TAG.finditer(_RAW.sub("", template)):
        if tag["shown"] is not None:
            names = _names(tag["shown"].strip("-+ "))
            found += [Mention(name, True, guarded or bool(depth)) for name, guarded in names]
        elif tag["block"] is not None:
            block = tag["block"].strip("-+ \t\r\n")
            depth += block.startswith("if ") - (block == "endif")
            found += _block(block, local)
    return [mention for mention in found if mention.name.split(".", 1)[0] not in local]


def _block(text: str, local: set[str]) -> Iterator[Mention]:
    word, _, rest = text.partition(" ")
    names = [name for name, _ in _names(rest)]
    if word == "for":
        made, _, rest = rest.partition(" in ")
        local.update(_WORD.findall(made))
        names = [name for name, _ in _names(rest)]
    elif word.startswith("end"):
        names = []
    yield from (Mention(name, False, True) for name in names)


def _names(expression: str) -> list[tuple[str, bool]]:
    """Return (dotted name, true if a default or a test guards it) for the variables in an
    expression.
    """
    tokens = _TOKEN.findall(expression)
    found: list[tuple[str, bool]] = []
    at = 0
    while at < len(tokens):
        token, before = tokens[at], tokens[at - 1] if at else ""
        at += 1
        if not _WORD.fullmatch(token):
            continue
        if before in ("|", "is") or (before == "not" and at > 2 and tokens[at - 3] == "is"):
            if token in ("default", "d", "defined", "none") and found:
                found[-1] = (found[-1][0], True)
            continue
        if token in _KEYWORDS or before == ".":
            continue
        name = [token]
        while at + 1 < len(tokens) and tokens[at] == "." and _WORD.fullmatch(tokens[at + 1]):
            name.append(tokens[at + 1])
            at += 2
        after = tokens[at] if at < len(tokens) else ""
        if after == "(":
            name.pop()
        if after == "=" or not name:
            continue
        found.append((".".join(name), after == "or"))
    if "if" in tokens:
        tested = tokens[tokens.index("if") :]
        return [(name, guarded or name.split(".", 1)[0] in tested) for name, guarded in found]
    return found
