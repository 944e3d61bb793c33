"""What a host is told once: a key that no schema declares, a language without texts, and what is
unsafe in a definition.

The log is `logging.getLogger("llm_fsm.host")`. Each fault is one line at WARNING.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache

from llm_fsm._json import JsonMap
from llm_fsm._text import nearest, visible
from llm_fsm.definition.models import Definition
from llm_fsm.languages import LANGUAGE, spoken
from llm_fsm.turn.compiled import CompiledMachine

LOGGER = "llm_fsm.host"
_REMEMBERED = 10_000


@lru_cache(maxsize=_REMEMBERED)
def advise(definition: str, text: str) -> None:
    """Log a fault of a definition or of its host, only the first time."""
    logging.getLogger(LOGGER).warning("%s: %s", visible(definition), visible(text))


def with_language(definition: Definition, context: JsonMap | None, wanted: str) -> JsonMap | None:
    """Return the context of a new conversation with its language, and log an unknown one.

    Args:
        definition: The definition. One language alone is never chosen.
        context: The caller's values; a `language` among them counts.
        wanted: See `llm_fsm.languages.spoken`; "" is the definition's own.
    """
    tags = definition.tags
    if not wanted or len(tags) == 1:
        return context
    tag = spoken(wanted, tags)
    if not tag:
        advise(definition.name, f"there are no texts in {wanted!r:.80}; {tags[0]!r} is used")
    return {LANGUAGE: tag or tags[0], **(context or {})}


def advise_on_keys(
    program: CompiledMachine, keys: Iterable[str], says: str = "the host wrote"
) -> None:
    """Log the keys that the host names or has written, and that no schema declares."""
    machines = (program, *program.flows.values())
    if any(machine.definition.context_schema is None for machine in machines):
        return
    declared: set[str] = set()
    for machine in machines:
        declared.update(machine.keys.sources)
    for key in keys:
        if not declared & {key, key.partition(".")[0]} and not key.startswith("_"):
            guess = nearest(key, declared)
            hint = f"did you mean {guess!r}?" if guess else "declare it there"
            text = f"{says} the key {key!r:.80}, which context_schema lacks; {hint}"
            advise(program.definition.name, text)
