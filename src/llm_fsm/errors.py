"""Every error that a caller may see, by who must act.

    LLMFSMError
    ├── DefinitionError      the author of the definition     .findings
    ├── ConfigurationError   the operator of model, store, key
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
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple


class LLMFSMError(Exception):
    """Base of all errors of this package."""


class DefinitionError(LLMFSMError):
    """The definition cannot be used.

    Args:
        findings: Everything that is wrong, in file order; kept as a tuple.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class ConfigurationError(LLMFSMError):
    """There is no usable model, key, store or extra. The message names the setting and a way out."""


class ReplyError(LLMFSMError):
    """A model's text is not a reply.

    Args:
        fault: A short name, such as `not-json`, `no-target` or `empty`.
        message: The message.
    """

    def __init__(self, fault: str, message: str) -> None:
        self.fault = fault
        super().__init__(message)


class ModelError(LLMFSMError):
    """The provider could not be reached, or refused the request.

    Args:
        message: The message.
        retryable: True if the same call may succeed later.
        status: The HTTP status, if there was one.
        retry_after: Seconds that the provider asked to wait, if it did.
        format_rejected: True if the provider refused the request because of its reply format.
        stream_rejected: True if the provider refused the request because it asked for a stream.
        system_rejected: True if the model has no system role.
        refusal: "account" if somebody must pay, "moment" if it is too much at this moment. "reply"
            if the provider could not read the model's text. "size" if the prompt is longer than
            its context. "" for any other reason.

    Attributes:
        attempts: Requests that the call took; set after the error is raised, if the adapter counts
            them.
        seconds: Seconds that the call took; set like `attempts`.
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
        system_rejected: bool = False,
        refusal: str = "",
    ) -> None:
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.format_rejected = format_rejected
        self.stream_rejected = stream_rejected
        self.system_rejected = system_rejected
        self.refusal = refusal
        super().__init__(message)


class HandlerError(LLMFSMError):
    """A handler of the host raised or ran out of time, and its error mode says to stop.

    Args:
        message: The message.
        handler: The name of the handler.
        point: The point at which it failed.

    Attributes:
        failed: The event `FunctionFailed`, which says where the error arose; None if it is unknown.
    """

    failed: Any = None

    def __init__(self, message: str, *, handler: str, point: str) -> None:
        self.handler = handler
        self.point = point
        super().__init__(message)


class ConversationError(LLMFSMError):
    """You asked for something that this conversation cannot do."""


class ConversationNotFound(ConversationError):
    """The store has no conversation with this id."""


class ConversationEnded(ConversationError):
    """The conversation is over. You may show the message to a user."""


class ConversationConflict(ConversationError):
    """The request does not fit the current state of the conversation. The message says why, and
    what to do.

    The id exists already, another writer was faster, or the definition no longer fits. The request
    id may belong to another message. The run waits for an answer and not for a message, or the other
    way round. Or there is no turn to undo.
    """


class StoreError(LLMFSMError):
    """The store cannot be read or written.

    Args:
        message: The message, which names the file or server.
        retryable: True if the store was busy and the same call may succeed later.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(message)


class UnreadableError(StoreError):
    """Stored data of a conversation is damaged, or a newer version wrote it."""


def os_reason(error: OSError) -> str:
    """Return why the operating system refused something, in its words.

    Args:
        error: Its error.

    Returns:
        The words in lower case, such as "no space left on device".
    """
    return (error.strerror or str(error)).lower()


def told(error: BaseException) -> str:
    """Return the class and the message of an error, even if the message itself cannot be made.

    Args:
        error: Any error, also one of a host's own class.

    Returns:
        "Class: message", or "Class" without a message.
    """
    try:
        words = str(error)
    except Exception as broken:
        words = f"(its words cannot be had: {type(broken).__name__})"
    return f"{type(error).__name__}: {words}".rstrip(": ")


Level = Literal["error", "warning", "info"]


def hinted(message: str, hint: str | None) -> str:
    """Return a message, and behind it the hint if there is one.

    Args:
        message: The message.
        hint: A way to fix it; None if there is none.

    Returns:
        One text.
    """
    return message if hint is None else f"{message}; {hint}"


NO_FILE = "<definition>"
"""The file name in findings about a definition that was given as a value."""


class Place(NamedTuple):
    """The place of a value in a document.

    Attributes:
        pointer: The JSON pointer (RFC 6901).
        line: The line, from 1, if the document was read from a text.
        column: The column in characters, from 1, if the document was read from a text.
    """

    pointer: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a definition.

    Attributes:
        code: The short and stable code, such as `F101`.
        name: The readable name, such as `unknown-target`.
        level: "error", "warning" or "info".
        message: The problem.
        hint: A way to fix it.
        file: The file, if there is one.
        line: The line, from 1.
        column: The column in characters, from 1.
        pointer: The JSON pointer (RFC 6901) of the value.
        path: Ids of states, if the finding is about a path through the machine.
        where: The places of these states. The JSON form does not have them.
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
        """Return the JSON form.

        Returns:
            An object as `llm-fsm validate --format json` prints it.
        """
        document = asdict(self)
        del document["where"]
        return {**document, "path": list(self.path)}

    def __str__(self) -> str:
        """Return `file:line:column: level: message; hint (name code)`, without unknown parts."""
        place = NO_FILE if self.file is None else self.file
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        text = hinted(self.message, self.hint)
        return f"{place}: {self.level}: {text} ({self.name} {self.code})"
