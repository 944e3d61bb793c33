"""Fixed replies as templates, without a template engine for those that only show keys and test
them.

`reply_template` judges all others. The template engine is loaded with the first reply that needs
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llm_fsm._json import JsonMap

FILTERS = (
    "default",
    "upper",
    "lower",
    "title",
    "capitalize",
    "trim",
    "replace",
    "format",
    "length",
    "first",
    "last",
    "join",
    "sort",
    "sum",
    "int",
    "round",
)
TESTS = ("defined", "undefined", "none", "true", "false", "boolean", "number", "string")
LANGUAGE = (
    "a fixed reply has {{ }}, if, for, comparisons, and, or, not, in, +, -, *, /, // and %; "
    f"the filters {', '.join(FILTERS)}; and the tests {', '.join(TESTS)}"
)
"""The whole language of fixed replies, for authors."""
_NAME = (
    r"(?!(?:not|if|in|is|true|false|none|loop|self|True|False|None)\b)"
    r"[A-Za-z_]\w*(?:\.[A-Za-z]\w*)*"
)
_TEST_OF_KEY = rf"(?:not\s+)?{_NAME}(?:\s*[=!]=\s*(?:'[^'\\]*'|\"[^\"\\]*\"|\d{{1,9}}))?"
_PLAIN = re.compile(
    rf"""\{{\{{-?\s*{_NAME}\s*(?:\|\s*(?:default|upper|lower|title|capitalize|trim)\s*)?-?\}}\}}
    |\{{%-?\s*(?:el)?if\s+{_TEST_OF_KEY}(?:\s+(?:and|or)\s+{_TEST_OF_KEY})*\s*-?%\}}
    |\{{%-?\s*(?:else|endif)\s*-?%\}}""",
    re.VERBOSE,
)
_TAG = re.compile(r"\{%-?\s*(if|elif|else|endif)")


def is_plain(text: str) -> bool:
    """Return true for a reply that only shows keys and tests them, so that it always renders."""
    return "{" not in _PLAIN.sub("", text) and "._" not in text


class Rendering(NamedTuple):
    """The result of rendering a reply: its text, or None, the kind of error, and the reason."""

    words: str | None
    kind: str = ""
    why: str = ""


def renderings(text: str, contexts: Iterable[JsonMap]) -> Iterator[Rendering]:
    """Yield the rendering of a fixed reply in each of these contexts; `text` must be a template."""
    from llm_fsm.definition import reply_template  # noqa: PLC0415 - it loads the template engine

    reply = reply_template.compile_reply(text)
    for data in contexts:
        try:
            yield Rendering(reply.render(data))
        except reply_template.WordingError as error:
            yield Rendering(None, type(error.__cause__).__name__, str(error.__cause__ or error))


def template_fault(text: str) -> str | None:
    """Return in a few words why a text is not a fixed reply; None if it is one."""
    if is_plain(text) and _is_closed(text):
        return None
    from llm_fsm.definition import reply_template  # noqa: PLC0415 - it loads the template engine

    return reply_template.template_fault(text)


def _is_closed(text: str) -> bool:
    """Return true if every `if` is closed, and no `elif` or `else` follows an `else`."""
    open_blocks = []
    for tag in _TAG.findall(text):
        if tag == "if":
            open_blocks.append(tag)
        elif not open_blocks or (tag != "endif" and open_blocks[-1] == "else"):
            return False
        elif tag == "endif":
            open_blocks.pop()
        else:
            open_blocks[-1] = tag
    return not open_blocks
