"""`llm-fsm conversations`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import Any, NamedTuple, cast

import click

from llm_fsm.cli import transcript
from llm_fsm.cli.commands.conversations.transfer import doctor, export_, fork_, import_
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.options import db_option, example, verbose_option
from llm_fsm.cli.stores import (
    identified,
    known_id,
    latest,
    open_existing,
    open_holding,
    shortest,
    tell_unlisted,
    unknown,
    unlisted,
)
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition.subflows import secret_keys
from llm_fsm.session.turn_record import TurnRecord, parse
from llm_fsm.stores.base import Listed, ListQuery, Store, every_line, kept_definition

_PAGE = 1000
_SHORTEST = 8
"""Characters of a long id that are shown at least."""
LATER = ("migrate", "replay", "stats")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Conversations(click.Group):
    """The group; commands that need a whole machine are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As click does, with those that are not imported yet."""
        return sorted({*super().list_commands(ctx), *LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As click does."""
        if cmd_name in LATER:
            module: Any = import_module(f"llm_fsm.cli.commands.conversations.{cmd_name}")
            return cast(click.Command, getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Conversations,
    no_args_is_help=False,
    epilog=example("llm-fsm conversations list", "llm-fsm conversations show --last"),
)
@verbose_option
def conversations() -> None:
    """List, show, count, replay, copy, move, migrate, check and delete stored conversations."""


for command in (export_, import_, fork_, doctor):
    conversations.add_command(command)


@conversations.command("list", epilog=example("llm-fsm conversations list --limit 5"))
@db_option
@json_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, at most.")
@verbose_option
def list_(db: str | None, as_json: bool, limit: int) -> None:
    """List conversations, the one used last first."""
    store = open_existing(db)
    listing = _NONE if store is None else asyncio.run(_listed(store, limit, names=not as_json))
    shown, left = listing.shown, listing.left
    if as_json:
        console.json({"conversations": [_line(item) for item in shown]})
    elif shown:
        head = ("id", "definition", "state", "turns", "last used (UTC)")
        console.table(_rows(shown, listing.names), head, right=(3,))
    if listing.total > len(shown):
        console.note(f"{listing.total - len(shown):,} more; --limit shows them")
    elif not shown and not left:
        console.note("there are no conversations yet")
    tell_unlisted(left)


@conversations.command(epilog=example("llm-fsm conversations show --last"))
@click.argument("conversation_id", metavar="ID", type=known_id, required=False)
@click.option("--last", is_flag=True, help="Show the conversation that was used last.")
@click.option(
    "--turn", "number", type=click.IntRange(min=0), metavar="N", help="Show turn N alone."
)
@click.option("--why", is_flag=True, help="Show why each turn went as it did.")
@db_option
@json_option
@verbose_option
@click.pass_context
def show(
    ctx: click.Context,
    *,
    conversation_id: str | None,
    last: bool,
    number: int | None,
    why: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Show a conversation turn by turn: message, reply, moves, tokens.

    The beginning of an ID will do if no other begins so.
    """
    if (conversation_id is None) is not last:
        raise click.UsageError("name the ID of a conversation, or give --last", ctx)
    store = open_holding(db, conversation_id, last=last)
    conversation_id, records, definition = asyncio.run(_records(store, conversation_id))
    secret = frozenset() if definition is None else secret_keys(definition)
    turns = transcript.turns(records, secret.__contains__)
    if number is not None:
        turns = [turn for turn in turns if turn["turn"] == number]
        if not turns:
            raise Failure(f"conversation {conversation_id} has no turn {number}")
    explained: Mapping[int, Sequence[str]] = {}
    if why:
        from llm_fsm.cli.terminal import explain

        numbers = list(dict.fromkeys(turn["turn"] for turn in turns))
        explained = explain.of_turns(definition, conversation_id, records, numbers)
    if as_json:
        for turn in turns:
            if why:
                turn["why"] = list(explained.get(turn["turn"], ()))
        console.json({"conversation": conversation_id, "turns": turns})
        return
    shown: list[str] = []
    for turn in turns:
        lines = [transcript.plain(turn)]
        lines += [f"    {line}" for line in explained.get(turn["turn"], ())]
        shown.append("\n".join(lines))
    console.text("\n\n".join(shown), wrapped=True)


@conversations.command(epilog=example("llm-fsm conversations delete k3f9x2mw"))
@click.argument("conversation_id", metavar="ID", type=known_id)
@click.option("--yes", is_flag=True, help="Do not ask.")
@db_option
@verbose_option
def delete(conversation_id: str, yes: bool, db: str | None) -> None:
    """Delete a conversation and everything about it.

    The beginning of an ID will do if no other begins so.
    """
    if not asyncio.run(_delete(open_holding(db, conversation_id), conversation_id, yes=yes)):
        console.note("nothing was deleted")


def _confirmed(conversation_id: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("deleting for good needs --yes where nobody can be asked")
    return console.confirmed(f"Delete conversation {conversation_id} for good?")


class _Listing(NamedTuple):
    """The newest conversations. `total`: how many there are. `names`: the ids beside theirs, sorted.

    `left`: what is wrong with those that cannot be listed.
    """

    shown: Sequence[Listed]
    total: int
    names: Sequence[str]
    left: Sequence[str]


_NONE = _Listing((), 0, (), ())


async def _listed(store: Store, limit: int, *, names: bool) -> _Listing:
    """Read the newest conversations: a store may hold millions, and only these are read."""
    query = ListQuery(limit=min(limit, _PAGE), order="-updated")
    shown: list[Listed] = []
    try:
        async with aclosing(every_line(store, query)) as lines:
            async for line in lines:
                shown.append(line)
                if len(shown) == limit:
                    break
        beside = [line.conversation_id for line in shown]
        for line in shown if names else ():
            beside += await _neighbours(store, line.conversation_id)
        total = await store.count(ListQuery())
        return _Listing(shown, total, sorted({*beside}), await unlisted(store))
    finally:
        await store.close()


async def _neighbours(store: Store, conversation_id: str) -> Sequence[str]:
    """Return the ids that share the beginning of a long id, a few at most."""
    begins = conversation_id[:_SHORTEST]
    if len(conversation_id) <= _SHORTEST:
        return ()
    found = await store.list(ListQuery(begins=begins, limit=_PAGE))
    return [line.conversation_id for line in found]


async def _records(store: Store, given: str | None) -> tuple[str, Sequence[TurnRecord], str | None]:
    """Return an id, its records and its definition; without `given`, those of the last one."""
    try:
        conversation_id = await (latest(store) if given is None else identified(store, given))
        records = [parse(text) for text in await store.records(conversation_id)]
        loaded = await store.load(conversation_id)
        pinned = None if loaded is None or loaded.definition_sha is None else loaded.definition_sha
        text = None if pinned is None else await kept_definition(store, pinned)
    finally:
        await store.close()
    return conversation_id, records, text


async def _delete(store: Store, given: str, *, yes: bool) -> bool:
    """Delete a conversation; return False if the user does not confirm it. Raises Failure."""
    try:
        conversation_id = await identified(store, given)
        if not yes and not _confirmed(conversation_id):
            return False
        async with store.lock(conversation_id, 5.0):
            if not await store.delete(conversation_id):
                raise unknown(conversation_id)
        console.note(f"deleted {conversation_id}")
        return True
    finally:
        await store.close()


def _line(item: Listed) -> dict[str, Any]:
    return {
        "id": item.conversation_id,
        "definition": item.definition,
        "state": item.state,
        "ended": item.ended,
        "turns": item.turns,
        "created": transcript.moment(item.created),
        "updated": transcript.moment(item.updated),
    }


def _rows(listed: Sequence[Listed], names: Sequence[str]) -> Iterator[Sequence[str]]:
    for item in listed:
        yield (
            shortest(item.conversation_id, names),
            escape.shortened(item.definition, 30),
            item.state + (" (ended)" if item.ended else ""),
            str(item.turns),
            transcript.moment(item.updated)[:16].replace("T", " "),
        )
