"""`llm-fsm conversations`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from importlib import import_module
from typing import NamedTuple, cast

import click

from llm_fsm._json import JsonDict, plain
from llm_fsm.cli import transcript
from llm_fsm.cli.commands.conversations.transfer import doctor, export_, fork_, import_
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.filters import filter_of, filters
from llm_fsm.cli.options import VERBOSE, command, db_option, example, json_option
from llm_fsm.cli.stores import (
    identified,
    known_id,
    latest,
    on_store,
    open_existing,
    open_holding,
    shortest,
    tell_unlisted,
    unknown,
    unlisted,
)
from llm_fsm.cli.temporal import temporal_module, temporal_option
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition.subflows import secret_keys
from llm_fsm.engine.recovery import reopen
from llm_fsm.errors import ConversationConflict
from llm_fsm.records.stuck_turns import StuckTurn, stuck_turns
from llm_fsm.session.turn_record import Records, parse
from llm_fsm.stores.base import Listed, ListQuery, Store, every_line, kept_definition

_PAGE = 1000
_SHORTEST = 8
"""Characters of a long id that are shown at least."""
LATER = ("migrate", "replay", "stats")


class Conversations(click.Group):
    """The group; commands that need a whole machine are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As click does, with those that are not imported yet."""
        return sorted({*super().list_commands(ctx), *LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As click does."""
        if cmd_name in LATER:
            module = import_module(f"llm_fsm.cli.commands.conversations.{cmd_name}")
            return cast(click.Command, getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Conversations,
    no_args_is_help=False,
    params=[VERBOSE],
    epilog=example("llm-fsm conversations list", "llm-fsm conversations show --last"),
)
def conversations() -> None:
    """List, show, count, replay, copy, move, migrate, check, retry and delete stored conversations."""


@command("llm-fsm conversations list --limit 5", name="list")
@db_option
@json_option
@filters
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, at most."
)
@click.option("--parked", is_flag=True, help="Only turns that are parked or have failed for a day.")
def list_(
    *,
    db: str | None,
    as_json: bool,
    labels: Sequence[str],
    before: datetime | None,
    limit: int,
    parked: bool,
) -> None:
    """List conversations, the one used last first."""
    given = filter_of(labels, before, limit=min(limit, _PAGE), newest=True)
    query = given or ListQuery(limit=min(limit, _PAGE), order="-updated")
    store = open_existing(db)
    if parked:
        _show_stuck(
            [] if store is None else on_store(store, stuck_turns(store, time.time())),
            limit,
            as_json=as_json,
        )
        return
    listing = _NONE
    if store is not None:
        listing = on_store(store, _listed(store, query, limit, names=not as_json))
    shown, left = listing.shown, listing.left
    if as_json:
        console.json({"conversations": [_line(item) for item in shown]})
    elif shown:
        head = ("id", "definition", "state", "turns", "last used (UTC)")
        console.table(_rows(shown, listing.names), head, right=(3,))
    if listing.total > len(shown):
        console.note(f"{listing.total - len(shown):,} more; --limit shows them")
    elif not shown and not left:
        nothing = "there are no conversations yet" if given is None else "no conversation matches"
        console.note(nothing)
    tell_unlisted(left)


@command("llm-fsm conversations show --last")
@click.argument("conversation_id", metavar="ID", type=known_id, required=False)
@click.option("--last", is_flag=True, help="Show the last conversation.")
@click.option(
    "--turn", "number", type=click.IntRange(min=0), metavar="N", help="Show turn N alone."
)
@click.option("--why", is_flag=True, help="Show why each turn went as it did.")
@db_option
@json_option
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
        ctx.fail("name the ID of a conversation, or give --last")
    store = open_holding(db, conversation_id, last=last)
    conversation_id, records, definition = on_store(store, _records(store, conversation_id))
    secret = frozenset() if definition is None else secret_keys(definition)
    turns = transcript.turns(records, secret.__contains__)
    if why:
        from llm_fsm.cli.terminal import explain

        explained = explain.of_turns(definition, conversation_id, records)
        for turn, account in zip(turns, explained, strict=True):
            turn["why"] = plain(account) if as_json else list(explain.lines(account))[1:]
    if number is not None:
        turns = [turn for turn in turns if turn["turn"] == number]
        if not turns:
            raise Failure(f"conversation {conversation_id} has no turn {number}")
    if as_json:
        console.json({"conversation": conversation_id, "turns": turns})
        return
    shown = []
    for turn in turns:
        lines = [transcript.plain(turn)]
        lines += [f"    {line}" for line in turn.get("why", ())]
        shown.append("\n".join(lines))
    console.text("\n\n".join(shown), wrapped=True)


@command("llm-fsm conversations retry k3f9x2mw")
@click.argument("conversation_id", metavar="ID", type=known_id)
@db_option
def retry(conversation_id: str, db: str | None) -> None:
    """Let a worker take up a turn that is parked or fails.

    ID is whole, because a turn may be parked before its conversation is stored.
    """
    store = open_existing(db)
    if store is None:
        raise unknown(conversation_id)
    on_store(store, _retry(store, conversation_id))
    console.note(f"{conversation_id}: the next worker or server that looks takes the turn up")


@command(
    "llm-fsm conversations delete k3f9x2mw",
    "llm-fsm conversations delete --label user=ada",
    "llm-fsm conversations delete --before 2026-01-01 --yes",
)
@click.argument("conversation_id", metavar="[ID]", type=known_id, required=False)
@filters
@click.option("--yes", is_flag=True, help="Do not ask.")
@db_option
@temporal_option
def delete(
    conversation_id: str | None,
    *,
    labels: Sequence[str],
    before: datetime | None,
    yes: bool,
    db: str | None,
    temporal: str | None,
) -> None:
    """Delete a conversation, or all that match, and everything about them.

    The beginning of an ID will do if no other begins so. --label deletes what began with a label,
    such as all of one person; --before what was not used since. --temporal deletes the workflows of
    the conversations, too, which hold messages.
    """
    query = filter_of(labels, before)
    if (conversation_id is None) is (query is None):
        raise click.UsageError("name the ID of a conversation, or give --label or --before")
    if query is not None:
        store = open_existing(db)
        deleted = 0
        if store is not None:
            store = _forgetting(store, temporal)
            deleted = on_store(store, _delete_matching(store, query, yes=yes))
        console.note(f"deleted {escape.plural(deleted, 'conversation')}")
        return
    store = _forgetting(open_holding(db, conversation_id), temporal)
    if not on_store(store, _delete(store, str(conversation_id), yes=yes)):
        console.note("nothing was deleted")


for one in (export_, import_, fork_, doctor, list_, show, retry, delete):
    conversations.add_command(one)


def _forgetting(store: Store, temporal: str | None) -> Store:
    """Return a store that deletes workflows, too, if there is an address of Temporal."""
    if temporal is None:
        return store
    made: Store = temporal_module().ForgettingStore(store, temporal, console.note)
    return made


def _show_stuck(stuck: Sequence[StuckTurn], limit: int, *, as_json: bool) -> None:
    shown = stuck[:limit]
    if as_json:
        lines = []
        for turn in shown:
            line = {"id": turn.conversation_id, "definition": turn.definition}
            lines.append(
                {
                    **line,
                    "parked": turn.parked,
                    "since": transcript.moment(turn.since),
                    "error": turn.error,
                }
            )
        console.json({"parked": lines})
        return
    for turn in shown:
        console.out(f"{turn.conversation_id}: {turn.why()} (since {transcript.moment(turn.since)})")
    if len(stuck) > limit:
        console.note(f"{len(stuck) - limit:,} more; --limit shows them")
    elif not stuck:
        console.note("no turn is parked")


async def _retry(store: Store, conversation_id: str) -> None:
    with failing(ConversationConflict):
        async with store.lock(conversation_id, 5.0):
            await reopen(store, conversation_id, time.time())


def _confirmed(what: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("add --yes: this command cannot ask for confirmation here")
    return console.confirmed(f"Delete {what} for good?")


class _Listing(NamedTuple):
    """The newest conversations. `total`: how many there are. `names`: the ids beside theirs,
    sorted.

    `left`: what is wrong with those that cannot be listed.
    """

    shown: Sequence[Listed]
    total: int
    names: Sequence[str]
    left: Sequence[str]


_NONE = _Listing((), 0, (), ())


async def _listed(store: Store, query: ListQuery, limit: int, *, names: bool) -> _Listing:
    """Read the newest conversations: a store may hold millions, and only these are read."""
    shown = []
    async with aclosing(every_line(store, query)) as lines:
        async for line in lines:
            shown.append(line)
            if len(shown) == limit:
                break
    beside = [line.conversation_id for line in shown]
    for line in shown if names else ():
        beside += await _neighbours(store, line.conversation_id)
    total = await store.count(query)
    return _Listing(shown, total, sorted({*beside}), await unlisted(store))


async def _neighbours(store: Store, conversation_id: str) -> Sequence[str]:
    """Return the ids that share the beginning of a long id, a few at most."""
    begins = conversation_id[:_SHORTEST]
    if len(conversation_id) <= _SHORTEST:
        return ()
    found = await store.list(ListQuery(begins=begins, limit=_PAGE))
    return [line.conversation_id for line in found]


async def _records(store: Store, given: str | None) -> tuple[str, Records, str | None]:
    """Return an id, its records and its definition; without `given`, those of the last one."""
    conversation_id = await (latest(store) if given is None else identified(store, given))
    records = [parse(text) for text in await store.records(conversation_id)]
    loaded = await store.load(conversation_id)
    text = None if loaded is None else await kept_definition(store, loaded.definition_sha)
    return conversation_id, records, text


async def _delete(store: Store, given: str, *, yes: bool) -> bool:
    """Delete a conversation; return False if the user does not confirm it. Raises Failure."""
    conversation_id = await identified(store, given)
    if not yes and not _confirmed(f"conversation {conversation_id}"):
        return False
    async with store.lock(conversation_id, 5.0):
        if not await store.delete(conversation_id):
            raise unknown(conversation_id)
    console.note(f"deleted {conversation_id}")
    return True


async def _delete_matching(store: Store, query: ListQuery, *, yes: bool) -> int:
    """Delete what matches, and return how many; 0 if the user does not confirm it."""
    count = await store.count(query)
    if not count or (not yes and not _confirmed(escape.plural(count, "conversation"))):
        return 0
    deleted = 0
    async with aclosing(every_line(store, query)) as lines:
        async for line in lines:
            async with store.lock(line.conversation_id, 5.0):
                deleted += await store.delete(line.conversation_id)
    return deleted


def _line(item: Listed) -> JsonDict:
    return {
        "id": item.conversation_id,
        "definition": item.definition,
        "state": item.state,
        "ended": item.ended,
        "turns": item.turns,
        "created": transcript.moment(item.created),
        "updated": transcript.moment(item.updated),
        "metadata": dict(item.metadata),
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
