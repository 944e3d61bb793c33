"""Judge a task's output: its value, the checks of its key results, and the reply of a judge.

A judge's reply counts only if it is clear. Everything but a plain pass for a named key result
fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from llm_fsm._json import JsonMap, json_text
from llm_fsm._text import cut
from llm_fsm.conditions.coercion import mended
from llm_fsm.conditions.compiler import test
from llm_fsm.errors import ReplyError
from llm_fsm.session.values import ValueFault, to_json_value
from llm_fsm.turn.compiled import Check
from llm_fsm.turn.reply.parser import document

MAX_OUTPUT_CHARS = 1_000_000
"""Characters of a model's answer that can be an output."""

MAX_JUDGED_CHARS = 200_000
"""Characters of an output, as JSON, that a judge reads. A longer one fails."""

_REASON_CHARS = 2000
"""A judge may quote the whole output. Records and prompts keep the beginning of its reason."""

Verdict = tuple[bool, str]


_FENCED = re.compile(
    r"(?P<mark>`{3,}|~{3,})[^\n`]*\n(?P<inside>.*?)(?:\n[ \t]*(?P=mark)[`~]*|(?P=mark))?\Z",
    re.DOTALL,
)
_FENCE_LINE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)


def output_of(text: str) -> Any:
    """Return the output in a model's answer: the JSON value if all of it is JSON, else the text.

    Models put code fences around what they hand in. The output is what is inside.
    """
    output = _unfenced(text.strip())
    try:
        return to_json_value(_decode(output))
    except (ValueError, ValueFault, RecursionError):
        return mended(output)


def _unfenced(text: str) -> str:
    """Return the inside of a text that is one code fence; any other text as it is.

    The closing mark may be missing. Text with several fences is a document of its own.
    """
    fenced = _FENCED.match(text)
    # Inside of several fences there is text between them, which belongs to the output.
    if fenced is None or _FENCE_LINE.search(fenced["inside"]):
        return text
    return fenced["inside"].strip()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def by_logic(check: Check, data: JsonMap) -> Verdict:
    """Check a key result by its rule over {output, context, input}."""
    if check.rule is None:
        return False, "it has no rule"
    result = test(check.rule, data)
    if result.holds:
        return True, ""
    # An error tells the next attempt more than the author's words for the rule.
    if result.error is not None:
        return False, f"it could not be checked: {result.error}"
    if check.description:
        return False, check.description
    return False, f"this must hold: {json_text(check.logic)}"


def judged(checks: Sequence[Check], text: str) -> dict[str, Verdict]:
    """Return a judge's clear verdicts by name. Raises ReplyError if there are none."""
    reply = document(text)
    items = reply.get("verdicts", _named_verdicts(checks, reply))
    if not isinstance(items, list):
        form = '"verdicts": [{"name": "…", "passed": …, "reason": "…"}]'
        raise ReplyError("no-verdicts", f"the reply lacks {form}")
    verdicts: dict[str, Verdict] = {}
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        name, reason = item["name"], item.get("reason")
        shown = cut(reason, _REASON_CHARS) if isinstance(reason, str) else ""
        # A judge that contradicts itself has not passed the output.
        earlier, _ = verdicts.get(name, (True, ""))
        verdicts[name] = (earlier and item.get("passed") is True, shown)
    # In the order of the checks, without verdicts on what nobody asked.
    known = {check.name: verdicts[check.name] for check in checks if check.name in verdicts}
    if not known:
        raise ReplyError("no-verdicts", "the reply holds no verdict on any of the criteria")
    return known


def _named_verdicts(checks: Sequence[Check], reply: JsonMap) -> list[Any] | None:
    """Return verdicts in the form {name: true or false}. Everything but true has not passed."""
    named = [check.name for check in checks if check.name in reply]
    return [{"name": name, "passed": reply[name]} for name in named] or None
