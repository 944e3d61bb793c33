"""Open the store that `--db` names, and check the ids of conversations."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from bisect import bisect_left
from collections.abc import AsyncGenerator, Coroutine, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from llm_fsm.cli.exit_codes import STORE, Failure
from llm_fsm.cli.terminal import console
from llm_fsm.errors import ConfigurationError, UnreadableError, os_reason
from llm_fsm.records.transfer import line_of
from llm_fsm.stores.base import ListQuery, Store, checked_id, every_line
from llm_fsm.stores.registry import default_path, resolve

VARIABLE = "LLM_FSM_STORE"
FILE_VARIABLE = "LLM_FSM_STORE_FILE"
"""Where `--db` may be written instead: a command line with a password is readable for every user of
a machine.
"""
_AMBIGUOUS = 6
_PAGE = 1000
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters of new ids; none of them is easily taken for another."""


T = TypeVar("T")


def on_store(store: Store, work: Coroutine[Any, Any, T]) -> T:
    """Do what takes a store, in an event loop of its own, and close the store after it."""

    async def done() -> T:
        try:
            return await work
        finally:
            await store.close()

    return asyncio.run(done())


def data_folder() -> Path | None:
    """The user's data folder of this program; None for a user who has no home."""
    try:
        return _default_file().parent
    except Failure:
        return None


def _default_file() -> Path:
    """Return the file for conversations that nobody named a place for. Raises Failure."""
    try:
        home = Path() if os.environ.get("LLM_FSM_HOME") else Path.home()
        return default_path(os.environ, sys.platform, home)
    except RuntimeError as error:  # as in a container, for a user whom it does not know
        said = "this user has no home folder: set HOME or LLM_FSM_HOME to a folder, or name a place with --db"
        raise Failure(said, STORE) from error


class _Place(NamedTuple):
    """The URL of a store, and the option or variable that named it."""

    url: str
    source: str


def _named_place(url: str | None, option: str) -> _Place | None:
    """Return the place that the option, or else a variable, names; None if nobody names one. Raises
    UsageError.
    """
    if url:
        return _Place(url, option)
    of_variable, of_file = (
        os.environ.get(VARIABLE, "").strip(),
        os.environ.get(FILE_VARIABLE, "").strip(),
    )
    if of_variable and of_file:
        raise click.UsageError(f"{VARIABLE} and {FILE_VARIABLE} both name a store: set one of them")
    if of_variable:
        return _Place(of_variable, VARIABLE)
    if of_file:
        return _Place(_url_in(of_file), FILE_VARIABLE)
    return None


def _url_in(path: str) -> str:
    """Return the URL of a store that a file holds, such as a mounted secret. Raises UsageError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split()
    except OSError as error:
        raise click.UsageError(f"{FILE_VARIABLE}: {path}: {os_reason(error)}") from error
    except ValueError as error:
        raise click.UsageError(f"{FILE_VARIABLE}: {path}: this is no text in UTF-8") from error
    if len(lines) != 1:
        raise click.UsageError(
            f"{FILE_VARIABLE}: {path}: write one URL of a store into it, and nothing else"
        )
    return lines[0]


def open_store(url: str | None, option: str = "--db") -> Store:
    """The store of an option, or else of a variable, by default SQLite in the user's data folder.

    Raises UsageError, and Failure for a file that is there and holds no conversations.
    """
    return _opened(_named_place(url, option))


def _opened(place: _Place | None) -> Store:
    chosen, source = place or _Place(f"sqlite:///{_default_file()}", "--db")
    try:
        return resolve(chosen)
    except (ConfigurationError, ValueError) as error:
        if os.path.isfile(chosen):
            raise Failure(f"{chosen}: is no store of conversations; {error}", STORE) from error
        raise click.UsageError(f"{source}: {error}") from error


def is_named(url: str | None) -> bool:
    """Return true if the option or a variable names a store. Raises UsageError."""
    return _named_place(url, "--db") is not None


def open_existing(url: str | None, option: str = "--db") -> Store | None:
    """The store of an option for reading; None when the default file does not exist yet.

    Raises Failure for a file that was named and does not exist: reading must not create it.
    """
    place = _named_place(url, option)
    store = _opened(place)
    path = getattr(store, "path", None)
    if not isinstance(path, str) or path == ":memory:" or not _is_missing(path):
        return store
    if place is None:
        return None
    raise Failure(f"{path}: there is no such file", STORE)


async def unlisted(store: Store) -> Sequence[str]:
    """Return what is wrong with conversations that listings of the store leave out."""
    own = getattr(store, "unlisted", None)
    return () if own is None else await own()


def tell_unlisted(left: Sequence[str]) -> None:
    """Say what `unlisted` gave, and that it was left out. Raises Failure then."""
    for what in left:
        console.error(what)
    if left:
        raise Failure("what is damaged was left out", STORE)


def _is_missing(path: str) -> bool:
    """False where nobody may look, too: opening it says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def open_holding(url: str | None, conversation_id: str | None, *, last: bool = False) -> Store:
    """Open the store of `--db`. One that must hold a conversation, or the last one, is not created.
    Raises Failure.
    """
    if conversation_id is None and not last:
        return open_store(url)
    store = open_existing(url)
    if store is None:
        raise none_yet() if conversation_id is None else unknown(conversation_id)
    return store


async def identified(store: Store, given: str) -> str:
    """Return the id that is meant: `given` itself, or the only id that begins so. Raises Failure."""
    try:
        if await store.records(given):
            return given
    except UnreadableError:  # it is there
        return given
    following = await store.list(ListQuery(after=given, limit=_AMBIGUOUS))
    found = [line.conversation_id for line in following if line.conversation_id.startswith(given)]
    if not found:
        raise unknown(given)
    if len(found) > 1:
        names = ", ".join(map(repr, found[:-1] if len(found) == _AMBIGUOUS else found))
        more = ", …" if len(found) == _AMBIGUOUS else ""
        raise Failure(f"several conversations begin with {given!r}: {names}{more}")
    return found[0]


async def meant(
    store: Store, names: Sequence[str], definition: str | None = None
) -> AsyncGenerator[str]:
    """Yield the ids that are meant, without names those of all conversations, or of a definition.
    Raises Failure.
    """
    for name in names:
        yield await identified(store, name)
    if not names:
        async for line in every_line(store, ListQuery(limit=_PAGE, definition=definition)):
            yield line.conversation_id


async def matching(store: Store, query: ListQuery) -> AsyncGenerator[str]:
    """Yield the ids of the conversations that match a query."""
    async for line in every_line(store, query):
        yield line.conversation_id


async def latest(store: Store, definition: str | None = None) -> str:
    """Return the id of the last conversation, of one definition or of all. Raises Failure."""
    lines = [
        line async for line in every_line(store, ListQuery(limit=_PAGE, definition=definition))
    ]
    found = max(lines, key=attrgetter("updated"), default=None)
    if found is None:
        raise none_yet(definition)
    return found.conversation_id


def new_id() -> str:
    """Return an id for a new conversation that is easy to type."""
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def shortest(name: str, names: Sequence[str]) -> str:
    """Return as much of a long id of ours as tells it from all others, and any other id whole.

    Args:
        name: The id.
        names: All ids, sorted.
    """
    if re.fullmatch("[0-9a-f]{32}", name) is None:
        return name
    at = bisect_left(names, name)
    beside = (*names[max(0, at - 1) : at], *names[at + 1 : at + 2])
    return next(
        (
            name[:end]
            for end in range(8, 32)
            if not any(one.startswith(name[:end]) for one in beside)
        ),
        name,
    )


def none_yet(definition: str | None = None) -> Failure:
    """Return the error for `--last` where nothing is stored."""
    return Failure(
        f"there is no conversation{f' of {definition!r}' if definition else ''} in this store yet"
    )


def unknown(conversation_id: str) -> Failure:
    """There is no conversation of that id."""
    return Failure(
        f"there is no conversation {conversation_id!r} in this store; "
        "`llm-fsm conversations list` shows those there are"
    )


async def check_follows(store: Store, conversation_id: str, definition: str, file: str) -> None:
    """Check that a stored conversation follows the definition of a file. Raises Failure.

    Args:
        store: The store that has the conversation.
        conversation_id: Its whole id.
        definition: The name of the definition.
        file: The argument FILE.
    """
    found = await line_of(store, conversation_id)
    if found is not None and found.definition != definition:
        raise Failure(
            f"conversation {conversation_id!r} follows the definition {found.definition!r}, "
            f"and {file} is {definition!r}: name the FILE of {found.definition!r}"
        )


def known_id(given: str) -> str:
    """The id of a stored conversation, as click calls it; one that no store could keep is unknown.
    Raises Failure.
    """
    try:
        return checked_id(given, "conversation id")
    except ValueError as error:
        raise unknown(given) from error


def listed_id(name: str) -> str:
    """The id of a conversation as its store lists it. Raises UnreadableError for one that no store
    keeps.
    """
    try:
        return checked_id(name, "conversation id")
    except ValueError as error:
        raise UnreadableError(f"its id was damaged in the store: {error}") from error
