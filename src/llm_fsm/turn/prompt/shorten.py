"""Make a prompt shorter that does not fit into a model's context.

What a prompt needs least is left out first: the history, oldest exchanges first, then results of
tools, then the descriptions of keys that are not asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from msgspec.structs import replace

from llm_fsm._text import escaped, estimate
from llm_fsm.session.messages import LLMMessage, LLMRequest

_FEWER = 0.75
"""The share of the history that stays at each step."""
_RESULTS = re.compile(r"<tool_results>\n.*\n</tool_results>\n.*\n")
_KEYS = re.compile(r"(<(?:further_)?context_keys>\n)((?:.*\n)*?)(</(?:further_)?context_keys>)")


def size_of(request: LLMRequest) -> int:
    """Return the estimated tokens of a request: its messages and tools."""
    texts = [message.content for message in request.messages]
    texts += [tool.text for tool in request.tools]
    return sum(map(estimate, texts))


def shortened(request: LLMRequest, most: int) -> tuple[LLMRequest, tuple[str, ...]]:
    """Return a request that takes at most so many tokens, if that can be, and what was left out.

    Args:
        request: The request.
        most: Tokens.

    Returns:
        The request, and the parts that are shorter: history, results, keys.
    """
    left_out: list[str] = []
    for name, step in (("history", _less_history), ("results", _no_results), ("keys", _names)):
        while size_of(request) > most:
            shorter = _changed(request, step)
            if shorter == request:
                break
            request = shorter
            if name not in left_out:
                left_out.append(name)
    return request, tuple(left_out)


def _changed(request: LLMRequest, step: Callable[[LLMRequest, str], str]) -> LLMRequest:
    """Return a request with its two first messages, those of the question, as a step makes them."""
    first = [
        LLMMessage(message.role, step(request, message.content)) for message in request.messages[:2]
    ]
    return replace(request, messages=(*first, *request.messages[2:]))


def _less_history(_: LLMRequest, text: str) -> str:
    before, begin, rest = text.partition("<conversation_history>\n")
    history, end, after = rest.partition("\n</conversation_history>\n")
    if not end:
        return text
    said = json.loads(history)
    kept = said[len(said) - int(len(said) * _FEWER) :]
    return f"{before}{begin}{escaped(kept)}{end}{after}" if kept else before + after


def _no_results(_: LLMRequest, text: str) -> str:
    return _RESULTS.sub("", text)


def _names(request: LLMRequest, text: str) -> str:
    """Return a text in which only keys that are asked for have a description."""

    def line(told: str) -> str:
        form, _, _ = told.partition(": ")
        return told if form.partition(" ")[0] in request.asked else form

    found = _KEYS.search(text)
    if found is None:
        return text
    lines = [line(told) for told in found[2].splitlines()]
    return text[: found.start(2)] + "".join(f"{told}\n" for told in lines) + text[found.end(2) :]
