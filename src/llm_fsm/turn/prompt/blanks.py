"""A template as its words and the blanks between them, so that making a text of it is no more than filling them in.

The words hang on nothing but which values are given. So each such choice is rendered once, with marks in place of the
values: right for a template that shows its values as they are, and else only asks whether they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from jinja2 import Environment
from jinja2.nodes import Name

_MARK = "\0"
_MOST = 256
"""Choices that are kept. A machine makes few of those that there could be."""


class Blanks:
    """A template, compiled."""

    __slots__ = ("_cut",)

    def __init__(self, environment: Environment, source: str) -> None:
        parsed = environment.parse(source)
        template = environment.from_string(parsed)
        absent = dict.fromkeys((name.name for name in parsed.find_all(Name)), "")

        @lru_cache(maxsize=_MOST)
        def cut(given: tuple[str, ...]) -> list[str]:
            return template.render(absent | {name: f"{_MARK}{name}{_MARK}" for name in given}).split(_MARK)

        self._cut = cut

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with the values that are given, of which none is empty."""
        parts = self._cut(tuple(values)).copy()
        parts[1::2] = map(values.__getitem__, parts[1::2])
        return "".join(parts)
