"""The arm of a new conversation: on which of two definitions it begins."""

from __future__ import annotations

import json
from typing import Any, Literal

from llm_fsm._json import JsonMap, TextMap
from llm_fsm._text import sha256_of
from llm_fsm.conditions.coercion import look_up
from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.releases.file import Release

Arm = Literal["stable", "candidate"]
ARMS: tuple[Arm, ...] = ("stable", "candidate")
_PLACES = 2.0**64


def place_of(salt: str, value: Any) -> float:
    """Return the place of a value between 0 and 1, evenly spread over all values.

    Args:
        salt: Another salt gives other places.
        value: JSON data.

    Returns:
        The first 64 bits of the SHA-256 of both, as a fraction.
    """
    digest = sha256_of(json.dumps([salt, value], sort_keys=True))
    return int(digest[:16], 16) / _PLACES


def arm_of(
    release: Release, conversation_id: str, metadata: TextMap, context: JsonMap | None
) -> Arm | None:
    """Choose the arm of a new conversation.

    A greater share keeps everybody who has the candidate already.

    Args:
        release: The release.
        conversation_id: The id of the conversation.
        metadata: Its labels.
        context: The values that it begins with.

    Returns:
        The arm; None if the release does not run, or the conversation takes no part.
    """
    if not release.runs:
        return None
    known = {"metadata": metadata, "context": context or {}}
    if not test(compile_rule(release.where), known).holds:
        return None
    value = None if release.by is None else look_up(known, release.by)
    place = place_of(release.salt, conversation_id if value is None else value)
    return "candidate" if place < release.share else "stable"
