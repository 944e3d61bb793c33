"""What a store says when a commit does not fit: the same words in every store."""

from __future__ import annotations

from llm_fsm.errors import ConversationConflict
from llm_fsm.stores.base import Commit


def wrong_version(commit: Commit, found: int) -> ConversationConflict:
    """The stored version is `found` (0: there is no such conversation), not the one that was loaded."""
    name = f'conversation "{commit.conversation_id}"'
    if commit.expected == 0:
        return ConversationConflict(f"{name} exists already: choose another id, or resume it")
    if found == 0:
        return ConversationConflict(f"{name} is gone: expected version {commit.expected}, found none")
    return ConversationConflict(
        f"{name} was changed by another writer: expected version {commit.expected}, found {found}; "
        "load it and try again"
    )


def answered_already(commit: Commit) -> ConversationConflict:
    """The request id has its answer: loading with it gives the record."""
    return ConversationConflict(
        f'request "{commit.request_id}" of conversation "{commit.conversation_id}" was answered already: '
        "load the conversation with this request id to get the answer"
    )


def step_exists(conversation_id: str, step: int) -> ConversationConflict:
    """A step of the journal is written once; a second writer must be at work."""
    return ConversationConflict(
        f'step {step} of the turn under way in conversation "{conversation_id}" is recorded already: '
        "read the journal before performing a step, and hold the lock"
    )
