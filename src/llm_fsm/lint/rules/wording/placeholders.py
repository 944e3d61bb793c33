"""Placeholders that nothing fills in, and texts that are notes of the author."""

from __future__ import annotations

import re

from llm_fsm.definition.names import root_of
from llm_fsm.lint.document import SYSTEM_NAMES, Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import failure_words, replies, texts
from llm_fsm.lint.rule import Fault, Faults, lint_rule

_PLACEHOLDER = re.compile(r"\{\{[^{}\n]{1,80}\}\}|\{%[^{}\n]{1,80}%\}")


@lint_rule("W405", "info")
def template_in_words(document: Document) -> Faults:
    """A text for the model has a placeholder, which is only filled in fixed replies.

    Why it is bad:
    The model reads the placeholder itself. It often guesses the meaning from the context, but it may also repeat the
    braces to the user.

    Example:
        "states": {"hello": {"purpose": "Greet {{ name }} by name"}}

    Fix:
    Name the key in words, because the model sees the values anyway. Or make the text a fixed `reply`.
    """
    # One finding for each text.
    for pointer, text in texts(document):
        found = _PLACEHOLDER.search(text)
        if found is not None:
            yield Fault(
                f"{quoted(found[0])} is not filled in here: the model reads it unchanged",
                pointer=pointer,
                hint='name the key in words, or use a fixed "reply"',
            )


_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_NAME = r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_]\w*)*)"
_SURE = re.compile(rf"\$\{{\s*{_NAME}\s*\}}|%\({_NAME}\)[sd]|#\{{{_NAME}\}}|<%=\s*{_NAME}\s*%>")
_KNOWN = re.compile(
    rf"(?<![{{$#])\{{\s*{_NAME}(?:![rs]|:[^{{}}]{{0,12}})?\s*\}}"
    rf"|(?<!\w)\$({_NAME[1:-1]})|<{_NAME}>|\[{_NAME}\]|(?<!\w)%{_NAME}%"
)


@lint_rule("W410", "warning")
def unfilled_placeholder(document: Document) -> Faults:
    """A fixed text has a placeholder in another notation than `{{ name }}`.

    Why it is bad:
    Nothing fills it in, so users read `{name}` or `$name`.

    Example:
        "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name"], "transitions": [
                {"target_state": "bye", "conditions": [{"requires_context_keys": ["name"]}]}]},
            "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "Goodbye {name}!"}}

    Fix:
    Write `{{ name }}` in a fixed reply. `on_failure` has no placeholders.
    """
    # One finding for each text.
    names = _names(document)
    for state in document.states.values():
        text = _TAGS.sub("", state.text("reply"))
        found = _SURE.search(text) or _around_key(text, names)
        if found is not None:
            name = next(group for group in found.groups() if group)
            yield Fault(
                f"{quoted(found[0])} is not filled in: users read it unchanged",
                pointer=state.pointer + "/reply",
                hint=f'write "{{{{ {name} }}}}"',
            )
    for pointer, text in failure_words(document):
        found = _TAGS.search(text) or _SURE.search(text) or _around_key(text, names)
        if found is not None:
            yield Fault(
                f"{quoted(found[0])} is not filled in: users read this text unchanged",
                pointer=pointer,
                hint="write a sentence that is right for everybody",
            )


def _names(document: Document) -> set[str]:
    flow = data_flow(document)
    return {*document.keys, *flow.collected, *flow.outputs, *SYSTEM_NAMES}


def _around_key(text: str, names: set[str]) -> re.Match[str] | None:
    """Find a placeholder around a key; in single braces, also around any other obvious name."""
    for found in _KNOWN.finditer(text):
        name = next(group for group in found.groups() if group)
        if f"</{name}>" in text:
            continue
        if root_of(name) in names or (found[0].startswith("{") and ("_" in name or "." in name)):
            return found
    return None


_NOTE = re.compile(
    r"(?:^|[.!?]\s+)\s*(?:TODO|FIXME|TBD|TBA|XXX)\b(?! list)|\b(?:TODO|FIXME|TBD)\s*:|\b[Ll]orem"
    r" ipsum\b"
    r"|[<\[](?:insert|your|add|enter)\b[^<>\[\]\n]{0,40}\bhere[>\]]",
    re.MULTILINE,
)
_WHOLE = frozenset(
    {
        "todo",
        "to do",
        "tbd",
        "tba",
        "fixme",
        "xxx",
        "xxxx",
        "placeholder",
        "lorem ipsum",
        "asdf",
        "",
        "to be done",
        "to be defined",
        "to be written",
        "to be determined",
        "text here",
        "insert text here",
        "your text here",
        "words here",
        "insert words here",
        "your words here",
        "description here",
        "insert description here",
        "your description here",
    }
)
"""Texts that are notes of the author as a whole, without the marks around them."""
_MARKS = " \t\n.!?…<>[]()-_*#"
_SIGNS = ("TODO", "FIXME", "TBD", "TBA", "XXX", "orem ipsum", "here>", "here]")
"""Every note inside a text contains one of these."""


@lint_rule("W409", "warning")
def unfinished_words(document: Document) -> Faults:
    """A text is a note of its author to write it later.

    Why it is bad:
    The model reads the note, or the user does.

    Example:
        "states": {"hello": {"purpose": "TODO: what happens here?"}}

    Fix:
    Write the text.
    """
    for pointer, text in (*texts(document), *replies(document)):
        note = None
        if text.strip(_MARKS).casefold() in _WHOLE and text.strip():
            note = text
        if note is None and any(sign in text for sign in _SIGNS):
            found = _NOTE.search(text)
            note = None if found is None else found[0].strip(" \n.!?")
        if note is not None:
            message = f"{quoted(note)} is in the place of a text for the conversation"
            yield Fault(message, pointer=pointer, hint="write the text")
