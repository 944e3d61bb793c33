"""A few typical values that a schema accepts, with their members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from llm_fsm._json import JsonMap, object_at
from llm_fsm.lint.solver.value_sets import SET, domain

_DEPTH = 4
_PART = re.compile(
    r"(\\[dw]|\\[-./]|\[[^\]\\^][^\]\\]*\]|[\w @:/,;#-])(?:\{(\d{1,2})(?:,\d*)?\}|(\+)|([*?]))?"
)
_MOST_CHARS = 200
_CLASSES = {"\\d": "0", "\\w": "a"}


def samples(schema: JsonMap, definitions: JsonMap, depth: int = 0) -> Iterator[Any]:
    """Yield a few values of a schema, objects with all their members."""
    values = domain(schema, definitions) & SET
    listed = schema.get("enum")
    if isinstance(listed, list):
        yield from (value for value in listed if value is not None)
        return
    for value in _without_surprise(values.samples()):
        match value:
            case list():
                items = schema.get("items")
                inner = (
                    samples(items, definitions, depth + 1)
                    if isinstance(items, dict) and depth < _DEPTH
                    else iter(())
                )
                yield list(islice(inner, 2)) or ["text"]
            case dict():
                named = object_at(schema, "properties").items() if depth < _DEPTH else ()
                yield {
                    key: next(samples(member, definitions, depth + 1), "text")
                    for key, member in named
                    if isinstance(member, dict)
                }
            case _:
                yield value


def _without_surprise(values: Iterable[Any]) -> Iterator[Any]:
    """Yield typical values: no empty text, no empty list and no zero if there are others."""
    every = [value for value in values if value is not None]
    plain = [
        value for value in every if value is True or value is False or value not in ("", 0, [])
    ]
    yield from plain or every


def plain_text(pattern: str) -> str | None:
    """Return a short text for an expression of letters, digits, classes and repeats; None for other
    expressions.

    The caller checks it by the expression.
    """
    body = pattern.removeprefix("^").removesuffix("$")
    made = ""
    at = 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or len(made) > _MOST_CHARS:
            return None
        chosen, least, _, optional = part.groups()
        char = _CLASSES.get(chosen) or chosen[1 if len(chosen) > 1 else 0]
        made += char * (0 if optional else int(least or 1))
        at = part.end()
    return made
