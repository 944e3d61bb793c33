"""The files that travel with the package: prompts and definitions.

In a wheel they lie under `_data`; in a checkout (an editable install) they lie at the repository's root.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from llm_fsm.definition import Definition
from llm_fsm.loader import load
from llm_fsm.prompts import Prompts, compile_prompts


def _folder(name: str) -> Path:
    package = Path(__file__).resolve().parent
    inside = package / "_data" / name
    return inside if inside.is_dir() else package.parent.parent / name


def prompt_sources() -> Mapping[str, str]:
    """Prompt file name without ending to its text."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(_folder("prompts").glob("*.j2"))}


@cache
def shipped_prompts(*, whole: bool = False) -> Prompts:
    """The prompt files, compiled once in a process; `whole` as of `Prompts`."""
    return compile_prompts(prompt_sources(), whole=whole)


def pattern_piece(name: str) -> Definition:
    """The definition that a repair pattern is."""
    return load(_folder("patterns") / f"{name}.json")


def definition_paths() -> Mapping[str, Path]:
    """Name to file of the shipped definitions, in order of their names."""
    return {path.stem: path for path in sorted(_folder("fsm_definitions").glob("*.json"))}
