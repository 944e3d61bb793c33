"""Notes of an author in place of words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import replies, texts
from llm_fsm.lint.rule import lint_rule

_NOTE = re.compile(
    r"(?:^|[.!?]\s+)\s*(?:TODO|FIXME|TBD|TBA|XXX)\b(?! list)|\b(?:TODO|FIXME|TBD)\s*:|\b[Ll]orem ipsum\b"
    r"|[<\[](?:insert|your|add|enter)\b[^<>\[\]\n]{0,40}\bhere[>\]]",
    re.MULTILINE,
)
_WHOLE = frozenset(
    {
        *("todo", "to do", "tbd", "tba", "fixme", "xxx", "xxxx", "placeholder", "lorem ipsum", "asdf", ""),
        *("to be done", "to be defined", "to be written", "to be determined"),
        *(f"{verb}{what} here" for verb in ("", "insert ", "your ") for what in ("text", "words", "description")),
    }
)
"""Whole texts that are notes of the author, without the marks around them."""
_MARKS = " \t\n.!?…<>[]()-_*#"
_SIGNS = ("TODO", "FIXME", "TBD", "TBA", "XXX", "orem ipsum", "here>", "here]")
"""One of these is in every note inside of a text."""


@lint_rule("W409", "warning")
def unfinished_words(document: Document) -> Iterator[Finding]:
    """A text is a note of its author to write it later.

    Why it is bad:
    The model reads the note, or the user does.

    Example:
        "states": {"hello": {"purpose": "TODO: what happens here?"}}

    Fix:
    Write the text.
    """
    for pointer, text in (*texts(document), *replies(document)):
        note = text if text.strip(_MARKS).casefold() in _WHOLE and text.strip() else None
        if note is None and any(sign in text for sign in _SIGNS):
            found = _NOTE.search(text)
            note = None if found is None else found[0].strip(" \n.!?")
        if note is not None:
            message = f"{quoted(note)} stands where words for the conversation belong"
            yield unfinished_words.finding(message, pointer=pointer, hint="write the text")
