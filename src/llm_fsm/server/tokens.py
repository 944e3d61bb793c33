"""Tokens with names, stored as hashes. Each may be limited.

The file of tokens is JSON: {"tokens": [{"name": "web", "sha256": "…", "rights": ["talk"]}]}. A
token is 256 random bits, so its SHA-256 needs no salt and no slow hash. `rights.py` says what each
right allows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from llm_fsm._text import sha256_of
from llm_fsm.documents.files import FilePath, write
from llm_fsm.documents.watched_file import WatchedFile
from llm_fsm.errors import ConfigurationError, os_reason

_LOG = logging.getLogger(__name__)
MARK = "~"
"""The separator between the name of a token and the id of its conversation, in the store."""
NAME = r"^[A-Za-z0-9_-]{1,32}$"
Right = Literal["talk", "seed", "answer", "inspect", "manage", "author", "metrics"]
ALL_RIGHTS: frozenset[Right] = frozenset(get_args(Right))
DEFAULT_RIGHTS: frozenset[Right] = frozenset({"talk"})
"""The rights of a token that names none."""
_UNLIMITED_RIGHTS: frozenset[Right] = frozenset({"talk", "manage", "metrics"})
"""The rights of a token that names none, but is to see all conversations."""
_RIGHTS_ABOUT_OTHERS: frozenset[Right] = frozenset({"answer", "manage"})


class Token(BaseModel):
    """A token in the file of tokens.

    Attributes:
        name: Its name.
        sha256: The SHA-256 of the token, in hexadecimal.
        rights: Its rights; None: `talk`, and with `own` false also `manage` and `metrics`.
        definitions: Names of the definitions that it may use; None: all.
        own: True if it can only see its own conversations. False needs the right `manage` or
            `answer`.
        rate: Requests a minute that are not only reading ones, instead of the server's limit.
        expires: The moment from which it counts no longer, in UTC if it names no time zone; None:
            never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    rights: frozenset[Right] | None = None
    definitions: frozenset[str] | None = None
    own: bool = True
    rate: int | None = Field(default=None, ge=1)

    expires: datetime | None = None

    @field_validator("expires")
    @classmethod
    def _with_zone(cls, value: datetime | None) -> datetime | None:
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)

    def caller(self) -> Caller:
        """Return the client that has this token."""
        rights = self.rights
        if rights is None:
            rights = DEFAULT_RIGHTS if self.own else _UNLIMITED_RIGHTS
        return caller_with(
            self.name, rights, own=self.own, definitions=self.definitions, rate=self.rate
        )

    def has_ended(self) -> bool:
        """Return true if the token counts no longer."""
        return self.expires is not None and self.expires <= datetime.now(UTC)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[Token]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request. `prefix` comes before the ids of its conversations in the store.

    `name` is "" for a caller without a token. Doors do not look at `rights`: they ask
    `llm_fsm.server.rights`.
    """

    name: str = ""
    prefix: str = ""
    definitions: frozenset[str] | None = None
    rate: int | None = None
    rights: frozenset[Right] = DEFAULT_RIGHTS

    def stored(self, conversation_id: str) -> str:
        """Return the id under which the store keeps a conversation of this caller."""
        return self.prefix + conversation_id

    def public(self, stored: str) -> str:
        """Return the id by which this caller knows its own conversation."""
        return stored.removeprefix(self.prefix)

    def may_use(self, definition: str) -> bool:
        """Return true if this caller may use a definition."""
        return self.definitions is None or definition in self.definitions

    def is_foreign(self, stored: str) -> bool:
        """Return true for the stored id of a conversation that belongs to another token."""
        owner, mark, _ = stored.partition(MARK)
        return bool(mark) and owner != self.name


def caller_with(
    name: str,
    rights: frozenset[Right],
    *,
    own: bool,
    definitions: frozenset[str] | None = None,
    rate: int | None = None,
) -> Caller:
    """Return the caller of a token. Without a right about others it sees its own conversations
    alone.
    """
    sees_only_own = own or rights.isdisjoint(_RIGHTS_ABOUT_OTHERS)
    return Caller(name, name + MARK if sees_only_own else "", definitions, rate, rights)


ANYBODY = Caller(rights=ALL_RIGHTS)
"""The person at this machine, who needs no token."""
NOBODY = Caller(rights=frozenset())
"""The caller of a page without private data, which everybody may read."""


class Issuer(Protocol):
    """Another source of tokens, such as JSON Web Tokens."""

    async def caller(self, token: str) -> Caller | None:
        """Find the caller with a token; None for an unknown one."""


class Tokens:
    """The tokens that a server accepts.

    Args:
        known: The tokens. Two of them must not have one name.
        issuer: Who else knows tokens.

    Raises:
        ConfigurationError: Two tokens have one name.
    """

    def __init__(self, known: Iterable[Token] = (), *, issuer: Issuer | None = None) -> None:
        self.known = _checked(known)
        self.issuer = issuer
        self._file: WatchedFile | None = None

    @classmethod
    def from_file(cls, path: FilePath, *, issuer: Issuer | None = None) -> Tokens:
        """Read the tokens of a file. They are read again, within two seconds, when the file
        changes.

        Args:
            path: The JSON file; see the module's docstring.
            issuer: Who else knows tokens.

        Returns:
            The tokens.

        Raises:
            ConfigurationError: The file cannot be read, or is wrong. The message says how.
        """
        made = cls(issuer=issuer)
        made._file = WatchedFile(path)
        made._read()
        return made

    def caller(self, given: str) -> Caller | None:
        """Find the caller with a token of the file, always in the same time.

        Args:
            given: The token of the request.

        Returns:
            The caller; None for an unknown token, and for one that has ended.
        """
        self._read_again()
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for token in self.known:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return None if found is None or found.has_ended() else found.caller()

    async def authenticate(self, given: str) -> Caller | None:
        """Find the caller with a token of the file, or of the issuer.

        Args:
            given: The token of the request.

        Returns:
            The caller; None for an unknown token.
        """
        found = self.caller(given)
        if found is not None or self.issuer is None:
            return found
        return await self.issuer.caller(given)

    def _read_again(self) -> None:
        """Read the file if it has changed. A file that cannot be used changes nothing."""
        try:
            self._read()
        except ConfigurationError as error:
            _LOG.warning("the tokens could not be read again, so the last ones count: %s", error)

    def _read(self) -> None:
        """Read the file if it has changed. Raises ConfigurationError."""
        if self._file is None:
            return
        path = self._file.path
        try:
            content = self._file.news()
            if content is not None:
                self.known = _checked(_File.model_validate_json(content).tokens)
        except OSError as error:
            raise ConfigurationError(f"{path}: {os_reason(error)}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ConfigurationError(f"{path}: {place}: {first['msg']}") from error


def _checked(known: Iterable[Token]) -> tuple[Token, ...]:
    """Return the tokens. Raises ConfigurationError if two of them have one name."""
    tokens = tuple(known)
    names = [token.name for token in tokens]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"two tokens have the name {name!r}; give one of them another name"
            )
    return tokens


def add_token(
    path: FilePath,
    name: str,
    *,
    rights: Collection[Right] | None = None,
    definitions: Collection[str] = (),
    own: bool = True,
    expires: datetime | None = None,
) -> str:
    """Make a token, and write its hash to the file.

    Args:
        path: The JSON file, which is made if there is none.
        name: The name of the token.
        rights: Its rights; None: as `Token` says.
        definitions: Names of the definitions that it may use; none: all.
        own: True limits it to its own conversations.
        expires: Its end; None: it has none.

    Returns:
        The token itself, which is stored nowhere.

    Raises:
        ConfigurationError: The name is wrong or taken, or the file cannot be read or written.
    """
    place = Path(path)
    known = Tokens.from_file(place).known if place.exists() else ()
    made = secrets.token_urlsafe(32)
    try:
        token = Token(
            name=name,
            sha256=sha256_of(made),
            rights=None if rights is None else frozenset(rights),
            definitions=frozenset(definitions) or None,
            own=own,
            expires=expires,
        )
    except ValidationError as error:
        raise ConfigurationError(
            f"a token's name has 1 to 32 letters, digits, - and _, which {name!r:.60} has not"
        ) from error
    tokens = Tokens((*known, token)).known
    document = {"tokens": [one.model_dump(mode="json", exclude_defaults=True) for one in tokens]}
    try:
        write(place, f"{json.dumps(document, indent=2)}\n".encode(), mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{place}: cannot be written: {os_reason(error)}") from error
    return made
