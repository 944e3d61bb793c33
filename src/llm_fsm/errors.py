"""Every error that a caller may see, by who must act.

    LLMFSMError
    ├── DefinitionError      the author of the definition     .findings
    ├── ConfigurationError   whoever set up model, store, key
    ├── ReplyError           the model                        .fault
    ├── ModelError           the provider                     .retryable .status
    ├── HandlerError         the host's handler               .handler .point
    ├── ConversationError    the caller
    │   ├── ConversationNotFound
    │   ├── ConversationEnded
    │   └── ConversationConflict
    └── StoreError           the operator                     .retryable
        └── UnreadableError  the operator: what is kept is damaged

Bad arguments (an empty message, an id with control characters) are plain ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple


class LLMFSMError(Exception):
    """Base of all errors of this package."""


class DefinitionError(LLMFSMError):
    """The definition cannot be used; `findings` says everything that is wrong, in file order."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class ConfigurationError(LLMFSMError):
    """No usable model, key, store or extra; the message names the setting and a way out."""


class ReplyError(LLMFSMError):
    """A model's text is not a reply. `fault` is a short name such as `not-json`, `no-target`, `empty`."""

    def __init__(self, fault: str, message: str) -> None:
        self.fault = fault
        super().__init__(message)


class ModelError(LLMFSMError):
    """The provider could not be reached or refused.

    `retryable`: the same call may succeed later. `status`: HTTP status, if there was one.
    `retry_after`: seconds that the provider asked to wait, if it did.
    `format_rejected`: the provider refused the request because of its reply format.
    `stream_rejected`: because it asked for a stream.
    `attempts`, `seconds`: requests and time that it took, where the adapter tells; set once it is raised.
    """

    attempts = 0
    seconds = 0.0

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        format_rejected: bool = False,
        stream_rejected: bool = False,
    ) -> None:
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.format_rejected = format_rejected
        self.stream_rejected = stream_rejected
        super().__init__(message)


class HandlerError(LLMFSMError):
    """A handler of the host raised or ran out of time, and its error mode says to stop."""

    def __init__(self, message: str, *, handler: str, point: str) -> None:
        self.handler = handler
        self.point = point
        super().__init__(message)


class ConversationError(LLMFSMError):
    """The caller asked for something that this conversation cannot do."""


class ConversationNotFound(ConversationError):
    """There is no conversation of that id in the store."""


class ConversationEnded(ConversationError):
    """The conversation is over; the message is fit to be shown to a user."""


class ConversationConflict(ConversationError):
    """What was asked for does not fit how the conversation stands: the message says why.

    The id exists already, another writer was faster, the definition no longer fits, a request id was another message's,
    an answer is waited for and no message (or the other way round), or there is no turn to take back.
    """


class StoreError(LLMFSMError):
    """The store cannot be read or written. `retryable`: it was busy, the same call may succeed later."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)


class UnreadableError(StoreError):
    """What a working store keeps of a conversation is damaged, or was written by a newer version."""


def told(error: BaseException) -> str:
    """The class and the words of an error; one that a host's code raises may fail at saying them."""
    try:
        words = str(error)
    except Exception as broken:
        words = f"(its words cannot be had: {type(broken).__name__})"
    return f"{type(error).__name__}: {words}".rstrip(": ")


Level = Literal["error", "warning", "info"]

NO_FILE = "<definition>"
"""Stands for the file name of a definition that was given as a value."""


class Place(NamedTuple):
    """Where something stands: its JSON pointer, and its line and column if it was read from a text."""

    pointer: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a definition.

    `code` is short and stable (`F101`), `name` is readable (`unknown-target`). `message` says what is
    wrong, `hint` what would be right. `line` and `column` count from 1, columns in characters.
    `pointer` is the JSON pointer (RFC 6901) of the value that is meant; `path` names states, if the
    finding is about a way through the machine; `where` are the places of these states, which the JSON form leaves out.
    """

    code: str
    name: str
    level: Level
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str = ""
    path: tuple[str, ...] = ()
    where: tuple[Place, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as `llm-fsm validate --format json` prints it."""
        return {
            "code": self.code,
            "name": self.name,
            "level": self.level,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "pointer": self.pointer,
            "path": list(self.path),
        }

    def __str__(self) -> str:
        """`file:line:column: level: message; hint (name code)`, without the parts that are not known."""
        place = NO_FILE if self.file is None else self.file
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        text = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"{place}: {self.level}: {text} ({self.name} {self.code})"
