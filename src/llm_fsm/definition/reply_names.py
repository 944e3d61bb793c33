"""The context keys in texts: in fixed replies, and as placeholders elsewhere.

Our own scanner reads them, without the template engine. It ignores text that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from llm_fsm._json import TextMap
from llm_fsm.definition.names import root_of
from llm_fsm.definition.naming import STATE_NAMES

_TAG = re.compile(
    r"\{#.*?#\}|\{\{(?P<shown>.*?)\}\}|\{%[-+]?\s*(?P<word>\w+)(?P<block>.*?)%\}", re.DOTALL
)
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*"""
    r"|\d[\w.]*|==|!=|<=|>=|[^\s\w]",
    re.DOTALL,
)
"""A text, a name with its dots, a number, or an operator."""
_KEYWORDS = frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "elif",
        "for",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "loop",
    }
)
_TEXT = r"'[^'\\]*'|\"[^\"\\]*\""
_LITERAL = re.compile(rf"(?::\s*)?(?:{_TEXT})")
"""A text; with a colon before it, it is a value of an object."""
_STATE = rf"\b(?:{'|'.join(sorted(STATE_NAMES))})\b"
_COMPARED = re.compile(
    rf"{_STATE}\s*(?:[=!]=\s*(?:{_TEXT})|(?:not\s+)?in\s*[\[(][^\])]*)|(?:{_TEXT})\s*[=!]=\s*{_STATE}"
    rf"|\{{[^{{}}]*\}}\s*\[\s*{_STATE}\s*\]"
)
"""A comparison of a state with texts, or an object whose keys are states."""
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
    return [mention for _, mention in _placed(template)]


def compared_states(template: str) -> list[tuple[int, int]]:
    """Return the places (start and end) of the texts that a fixed reply compares with a state."""
    places = []
    for tag in _tags(template):
        for compared in _COMPARED.finditer(template, *tag.span()):
            for text in _LITERAL.finditer(template, *compared.span()):
                if text[0][0] != ":":
                    places.append((text.start() + 1, text.end() - 1))
    return places


def renamed_reply(template: str, states: TextMap, keys: TextMap) -> str:
    """Return a fixed reply in which states and keys have other names."""
    edits = []
    for start, end in compared_states(template):
        state = template[start:end]
        edits.append((start, end, states.get(state, state)))
    for start, mention in _placed(template):
        end = start + len(mention.name)
        if template[start:end] == mention.name:
            edits.append((start, end, renamed_key(mention.name, keys)))
    for start, end, name in sorted(edits, reverse=True):
        template = template[:start] + name + template[end:]
    return template


def renamed_key(name: str, keys: TextMap) -> str:
    """Return a key, or a path into its value, in which the key has another name."""
    if name in keys:
        return keys[name]
    if name[:1] in ("+", "-"):  # items of a list
        return name[0] + renamed_key(name[1:], keys)
    head, dot, rest = name.partition(".")
    if dot and head == "_refusals":
        return f"{head}.{renamed_key(rest, keys)}"
    return keys.get(head, head) + dot + rest


def _tags(template: str) -> Iterator[re.Match[str]]:
    """Yield the tags; what `raw` shows unchanged has none."""
    if "{" in template:
        yield from _TAG.finditer(_RAW.sub(lambda raw: " " * len(raw[0]), template))


def _placed(template: str) -> list[tuple[int, Mention]]:
    """Return every name that a fixed reply reads, with its place."""
    found = []
    depth = 0
    local = set()
    for tag in _tags(template):
        word = tag["word"]
        at = tag.start("shown" if word is None else "block")
        expression = tag["shown"] or tag["block"] or ""
        depth += (word == "if") - (word == "endif")
        if word == "for":
            made, between, expression = expression.partition(" in ")
            local.update(_WORD.findall(made))
            at += len(made + between)
        shown = word is None
        tested = depth > 0 or not shown
        for name, guarded, start in _names(expression):
            found.append((at + start, Mention(name, shown, guarded or tested)))
    return [one for one in found if root_of(one[1].name) not in local]


def _names(expression: str) -> list[tuple[str, bool, int]]:
    """Return (dotted name, true if a default or a test guards it, its place) for the variables in
    an expression.
    """
    matches = list(_TOKEN.finditer(expression))
    tokens = ["", "", *("".join(match[0].split()) for match in matches), ""]
    found: list[tuple[str, bool, int]] = []
    for number, match in enumerate(matches):
        earlier, before, token, after = tokens[number : number + 4]
        if not _WORD.match(token):
            continue
        if before in ("|", "is") or (earlier, before) == ("is", "not"):
            if token in ("default", "d", "defined", "none") and found:
                found[-1] = (found[-1][0], True, found[-1][2])
            continue
        if root_of(token) in _KEYWORDS or before == ".":
            continue
        name = token.rpartition(".")[0] if after == "(" else token
        if after != "=" and name:
            found.append((name, after == "or", match.start()))
    tested = ".".join(tokens[tokens.index("if") :]).split(".") if "if" in tokens else []
    return [(name, guarded or root_of(name) in tested, at) for name, guarded, at in found]
