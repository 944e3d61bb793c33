"""The prompts and repair patterns that travel with the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from llm_fsm.definition.models import Definition
from llm_fsm.documents.discovery import travelling
from llm_fsm.documents.loader import load
from llm_fsm.turn.prompt.render import Prompts, compile_prompts


def prompt_sources() -> Mapping[str, str]:
    """Prompt file name without ending to its text."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(travelling("prompts").glob("*.j2"))}


@cache
def shipped_prompts(*, whole: bool) -> Prompts:
    """The prompt files, compiled once in a process; `whole` as of `Prompts`."""
    return compile_prompts(prompt_sources(), whole=whole)


def pattern_piece(name: str) -> Definition:
    """The definition that a repair pattern is."""
    return load(travelling("patterns") / f"{name}.json")
