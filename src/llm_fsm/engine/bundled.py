"""The prompts and repair patterns that the package ships."""

from __future__ import annotations

from functools import cache

from llm_fsm._json import TextMap
from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import travelling
from llm_fsm.documents.loader import load
from llm_fsm.turn.prompt.render import Prompts, compile_prompts


def prompt_sources() -> TextMap:
    """Map each prompt file's name, without its ending, to its text."""
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(travelling("prompts").glob("*.j2"))
    }


@cache
def shipped_prompts() -> Prompts:
    """Compile the shipped prompt files, once in a process."""
    return compile_prompts(prompt_sources())


def pattern_piece(name: str) -> Definition:
    """Load the definition of a repair pattern."""
    return load(travelling("patterns") / f"{name}.json")
