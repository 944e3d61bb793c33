"""Names in a definition file: patterns of ids and keys, labels for people, and reserved words."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Literal, get_args

from llm_fsm._json import JsonMap, TextMap
from llm_fsm._text import unused

STATE_ID_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
KEY_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
"""The pattern of context keys. Keys that begin with `_` belong to the system."""
VALID = "x-valid"
"""The setting of a key with the rules for its values."""
OUTCOME_PATTERN = r"^([A-Za-z][A-Za-z0-9_-]{0,63})?$"
LANGUAGE_PATTERN = r"^([A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)?$"
"""A language tag of BCP 47, such as `en` or `pt-BR`."""
TAG_PATTERN = r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$"
TIMEZONE_PATTERN = r"^([A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*)?$"
"""A name of the IANA time zone database, such as `Europe/Berlin`."""

Kind = Literal["converse", "decide", "final", "task", "wait", "subflow"]
PatternName = Literal[
    "correct",
    "cancel",
    "digress",
    "clarify",
    "repeat",
    "skip",
    "back",
    "restart",
    "handover",
    "cannot_handle",
    "silence",
]

PATTERNS: tuple[str, ...] = get_args(PatternName)
"""All repair patterns, in the order in which prompts show them."""

MEMORY_TOOLS = ("set_memory", "append_memory", "get_memory", "clear_memory", "view_all_memory")
"""The tools of the working memory, as `session.memory` offers them."""

REPLY_TOOL = "reply"
"""The function by which some models are asked for the form of a reply, as `llm` offers it."""

ALIASES: Mapping[str, TextMap] = {
    "State": {"objective": "purpose", "state_instructions": "instructions"}
}
"""Model to second names of its keys, which `legacy` replaces before the form is checked."""
UNSEEN = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f"
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u061c\u200b\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)
"""Invisible characters at either end of a name: blanks, and direction marks between scripts."""
_NOT_LATIN = re.compile(r"(?![\u0250-\u036f\u1e00-\u1eff\u2000-\u2bff])[^\W\d_\x00-\u024f]")
"""A letter of another script than ours."""


def root_of(name: str) -> str:
    """Return the key that a dotted name looks into."""
    return name.split(".", 1)[0]


def declared_key(name: str, keys: Container[str]) -> str | None:
    """Return the key that a name means or looks into; None if these keys have none."""
    for key in (name, root_of(name)):
        if key in keys:
            return key
    return None


def label(key: str, schema: JsonMap) -> str:
    """Return the text that people read in place of the name of a key, or of a part of one."""
    return str(schema.get("title") or key.replace("_", " ").replace(".", " "))


def is_foreign(key: str, words: str) -> bool:
    """Return true if the name of a key has other letters than the texts beside it."""
    return key.isascii() and _NOT_LATIN.search(words) is not None


def ids_of(names: Iterable[str], plain: Callable[[str], str] = str) -> dict[str, str]:
    """Map any names to unique ids of states. Names that are valid ids stay.

    `plain`: writes a name with more letters that an id may have.
    """
    given = list(names)
    ids = {name: name for name in given if re.fullmatch(STATE_ID_PATTERN, name)}
    taken = set(ids)
    for name in given:
        if name not in ids:
            stem = re.sub(r"[^A-Za-z0-9_-]+", "_", plain(name))[:50].strip("_-") or "state"
            ids[name] = unused(f"state_{stem}" if stem[0].isdigit() else stem, taken)
            taken.add(ids[name])
    return ids
