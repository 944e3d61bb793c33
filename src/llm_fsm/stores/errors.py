"""What a store says when a commit does not fit: the same words in every store."""

from __future__ import annotations

from llm_fsm.errors import ConversationConflict, StoreError
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


def unknown_definition(commit: Commit) -> StoreError:
    """The pin names what the store has not got."""
    return StoreError(
        f'conversation "{commit.conversation_id}" cannot be pinned to the definition {commit.definition_sha}: '
        "the store has no copy of it; give its text in the same commit"
    )


def lock_lost(conversation_id: str) -> StoreError:
    """Somebody else may be writing: the store was restarted, or this process stood still for too long."""
    return StoreError(
        f'conversation "{conversation_id}": its lock was lost while a turn was under way, because the store was '
        "restarted or this process stood still; nothing was saved: send the message again",
        retryable=True,
    )


def check_appended(commit: Commit) -> None:
    """Raises ValueError for earlier records in a conversation that exists; a request id twice is a conflict."""
    if not commit.earlier:
        return
    if commit.expected:
        raise ValueError("earlier records are for a conversation that does not exist yet")
    seen = [request_id for *_, request_id in commit.numbered if request_id is not None]
    if len(set(seen)) < len(seen):
        raise ConversationConflict(
            f'conversation "{commit.conversation_id}" cannot be taken in: a request id stands in it twice'
        )
