"""Answers to chores that chat front ends send beside a conversation: titles, tags, follow-up
questions.

A front end asks the same model for them, in a request of its own. Such a request is no message to a
machine. No model is asked either, because a token that may talk must not use the operator's model
for anything else.
"""

from __future__ import annotations

import re

from llm_fsm._json import json_text
from llm_fsm.server.transcripts import Transcript

_HEADING = "### Task:"
_FORM = re.compile(r"JSON[^{}]{0,80}(\{[^{}]*\})", re.IGNORECASE)
"""The example of the wanted object, after a word such as "JSON format:"."""
_MEMBER = re.compile(r'"(\w+)"\s*:\s*(\[|")')
_HISTORY = re.compile(r"<chat_history>(.*?)</chat_history>", re.DOTALL)
_USER_LINE = re.compile(r"^\s*USER:\s*`*\s*(\S.*?)\s*`*\s*$", re.MULTILINE | re.IGNORECASE)
_TITLE_CHARS = 40


def is_task(said: Transcript) -> bool:
    """Return true if a request is a chore of a front end and no message."""
    return len(said) == 1 and said[0].role == "user" and said[0].text.lstrip().startswith(_HEADING)


def task_answer(text: str, name: str) -> str:
    """Answer a chore: the title is the first message; tags and suggestions are none. `name`: of the
    definition.
    """
    title = _title(text, name)
    form = _FORM.search(text)
    members = _MEMBER.findall(form[1]) if form is not None else []
    if not members:
        return title
    answer: dict[str, object] = {}
    for member, opening in members:
        if opening == "[":
            answer[member] = []
        else:
            answer[member] = title if member == "title" else ""
    return json_text(answer)


def _title(text: str, name: str) -> str:
    history = _HISTORY.search(text)
    first = None if history is None else _USER_LINE.search(history[1])
    words = name if first is None else " ".join(first[1].split())
    if len(words) <= _TITLE_CHARS:
        return words
    return words[:_TITLE_CHARS].rstrip() + "…"
