"""`llm-fsm conversations export`, `import`, `fork` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from itertools import islice
from typing import IO

import click

from llm_fsm.cli.exit_codes import STORE, Failure, failing
from llm_fsm.cli.filters import filter_of, filters
from llm_fsm.cli.options import command, db_option
from llm_fsm.cli.stores import (
    identified,
    known_id,
    listed_id,
    matching,
    meant,
    on_store,
    open_existing,
    open_store,
)
from llm_fsm.cli.terminal import console, escape
from llm_fsm.errors import ConversationNotFound, UnreadableError
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import export, fork, import_conversation
from llm_fsm.stores.base import ListQuery, Store

MAX_LINE = 100_000_000
"""Characters of one conversation; devices and pipes may never end."""

_PRINTS = "`conversations export` prints what can be imported"


@command("llm-fsm conversations export > conversations.jsonl", name="export")
@click.argument("conversation_ids", metavar="[ID]...", nargs=-1, type=known_id)
@filters
@click.option(
    "--with-secrets", is_flag=True, help="Print secret values, too: for a move to another store."
)
@db_option
def export_(
    conversation_ids: Sequence[str],
    db: str | None,
    *,
    labels: Sequence[str],
    before: datetime | None,
    with_secrets: bool,
) -> None:
    """Print conversations as JSON, one a line.

    Without an ID and a filter all of them. They can be imported again. Dots take the place of
    secret values, unless you ask for them. One that is damaged is named and left out. Exit code 4
    then.
    """
    query = filter_of(labels, before)
    if query is not None and conversation_ids:
        raise click.UsageError("name conversations, or give --label and --before, not both")
    store = open_existing(db)
    if store is not None:
        left = on_store(store, _export(store, conversation_ids, query, with_secrets=with_secrets))
        if left:
            raise Failure("what is damaged was left out", STORE)
    elif conversation_ids:
        raise Failure(f"there is no conversation {conversation_ids[0]!r} in this store")


@command("llm-fsm conversations import conversations.jsonl", name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--id", "new_id", metavar="ID", help="Keep the one conversation under another id.")
@db_option
def import_(file: str, new_id: str | None, db: str | None) -> None:
    """Keep conversations that `export` printed.

    FILE may be -. Those before one that cannot be kept are kept.
    """
    with click.open_file(file, encoding="utf-8") as stream:
        texts: Iterable[str] = _texts(stream, file)
        if new_id is not None:
            texts = first = list(islice(texts, 2))
            if len(first) != 1:
                raise click.UsageError("--id is for a file with one conversation")
        store = open_store(db)
        on_store(store, _import(store, texts, new_id))


@command("llm-fsm conversations fork k3f9x2mw what-if --turn 3", name="fork")
@click.argument("conversation_id", metavar="ID", type=known_id)
@click.argument("new_id", metavar="NEW_ID")
@click.option(
    "--turn", type=click.IntRange(min=0), help="As it was after this turn, instead of as it is now."
)
@db_option
def fork_(conversation_id: str, new_id: str, turn: int | None, db: str | None) -> None:
    """Copy a conversation to a new id."""
    store = open_existing(db)
    if store is None:
        raise Failure(f"there is no conversation {conversation_id!r} in this store")
    on_store(store, _fork(store, conversation_id, new_id, turn))


@command("llm-fsm conversations doctor --db sqlite:///bots.db")
@db_option
def doctor(db: str | None) -> None:
    """Check the store and every conversation in it; repairs nothing. Exit code 4 when something is
    wrong.
    """
    store = open_existing(db)
    found = [] if store is None else on_store(store, examine(store))
    for complaint in found:
        whose = complaint.conversation_id or "the store"
        console.out(f"{whose}: {complaint.what}")
    if found:
        wrong = escape.plural(len(found), "complaint")
        raise Failure(f"{wrong}; `conversations export` what can still be read", STORE)
    console.note("nothing is wrong")


async def _export(
    store: Store, names: Sequence[str], query: ListQuery | None, *, with_secrets: bool
) -> int:
    """Print what is named or matches, else all; return how many faults were found on the way."""
    left = 0
    whole = query is None and not names
    chosen = meant(store, names) if query is None else matching(store, query)
    async with aclosing(chosen) as wanted:
        async for name in wanted:
            try:
                console.text(await export(store, listed_id(name), with_secrets=with_secrets))
            except ConversationNotFound:
                # unless it was named, somebody deleted it since it was listed
                if names:
                    raise
            except UnreadableError as error:
                left += 1
                console.error(f"{name}: {error}")
    # of some nobody can tell whose they are
    own = getattr(store, "faults", None) if whole else None
    for fault in () if own is None else await own():
        left += 1
        console.error(fault)
    return left


def _texts(stream: IO[str], file: str) -> Iterator[str]:
    """One conversation after the other. Raises Failure."""
    try:
        while line := stream.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise Failure(f"{file}: a line is longer than {MAX_LINE:,} characters; {_PRINTS}")
            if line.strip():
                yield line
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: is no UTF-8 text; {_PRINTS}") from error


async def _import(store: Store, texts: Iterable[str], new_id: str | None) -> None:
    kept = 0
    try:
        for number, text in enumerate(texts, 1):
            with failing(ValueError, place=f"line {number}: "):
                name = await import_conversation(store, text, new_id)
            kept = number
            console.out(name)
    except BaseException:  # an interrupt, too, leaves what came before it
        if kept:
            console.note(f"kept before the error: {escape.plural(kept, 'conversation')}")
        raise


async def _fork(store: Store, conversation_id: str, new_id: str, turn: int | None) -> None:
    with failing(ValueError):
        name = await identified(store, conversation_id)
        await fork(store, name, new_id, turn)
        console.note(f"{new_id} is a copy of {name}")
