"""Tokens with names, kept as hashes. Each may be limited.

The file of tokens is JSON: {"tokens": [{"name": "web", "sha256": "…", "definitions": ["order"], "own": true}]}.
A token is 256 random bits, so its SHA-256 needs no salt and no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_fsm.errors import ConfigurationError

MARK = "~"
"""Stands between the name of a token and the id of one of its own conversations, in the store."""
NAME = r"^[A-Za-z0-9_-]{1,32}$"


class Token(BaseModel):
    """A token as its file has it.

    `definitions`: the names of those that it may use; None: all. `own`: it sees its own conversations alone.
    `rate`: messages a minute, instead of the server's limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    definitions: frozenset[str] | None = None
    own: bool = True
    rate: int | None = Field(default=None, ge=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[Token]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that asks. `prefix` stands before the ids of its conversations in the store."""

    name: str = ""
    prefix: str = ""
    definitions: frozenset[str] | None = None
    rate: int | None = None

    def stored(self, conversation_id: str) -> str:
        """Return the id under which the store keeps a conversation of this caller."""
        return self.prefix + conversation_id

    def public(self, stored: str) -> str:
        """Return the id by which this caller knows a conversation of its own."""
        return stored.removeprefix(self.prefix)

    def may_use(self, definition: str) -> bool:
        """Return true when a definition is open to this caller."""
        return self.definitions is None or definition in self.definitions

    @property
    def is_limited(self) -> bool:
        """True when it sees only a part of what the server has."""
        return bool(self.prefix) or self.definitions is not None


ANYBODY = Caller()
"""The caller of a server without tokens."""


@dataclass(frozen=True)
class Tokens:
    """The tokens that a server takes."""

    known: tuple[Token, ...] = ()
    _callers: dict[str, Caller] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        names = [token.name for token in self.known]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two tokens have the name {name!r}; give one of them another name")
        for token in self.known:
            prefix = token.name + MARK if token.own else ""
            self._callers[token.name] = Caller(token.name, prefix, token.definitions, token.rate)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokens:
        """Return the tokens of a file. Raises ConfigurationError that says what is wrong with it."""
        try:
            return cls(tuple(_File.model_validate_json(Path(path).read_bytes()).tokens))
        except OSError as error:
            raise ConfigurationError(f"{os.fspath(path)}: {(error.strerror or str(error)).lower()}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ConfigurationError(f"{os.fspath(path)}: {place}: {first['msg']}") from error

    def caller(self, given: str) -> Caller | None:
        """Find the caller with this token. A wrong one gives None, always in the same time."""
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found: Token | None = None
        for token in self.known:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return None if found is None else self._callers[found.name]


def add_token(
    path: str | os.PathLike[str], name: str, *, definitions: Collection[str] = (), own: bool = True
) -> str:
    """Make a token, write its hash to the file, and give the token itself, which is kept nowhere.

    Raises ConfigurationError for a name that is none or is taken, and for an unreadable or unwritable file.
    """
    place = Path(path)
    known: Iterable[Token] = Tokens.from_file(place).known if place.exists() else ()
    made = secrets.token_urlsafe(32)
    try:
        token = Token(
            name=name,
            sha256=hashlib.sha256(made.encode()).hexdigest(),
            definitions=frozenset(definitions) or None,
            own=own,
        )
    except ValidationError as error:
        raise ConfigurationError(
            f"a token's name has 1 to 32 letters, digits, - and _, which {name!r:.60} has not"
        ) from error
    tokens = Tokens((*known, token)).known
    document = {"tokens": [one.model_dump(mode="json", exclude_defaults=True) for one in tokens]}
    fresh = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=2) + "\n")
        fresh.replace(place)
    except OSError as error:
        raise ConfigurationError(f"{place}: cannot be written: {(error.strerror or str(error)).lower()}") from error
    return made
