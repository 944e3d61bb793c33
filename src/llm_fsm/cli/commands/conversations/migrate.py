"""`llm-fsm conversations migrate`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from llm_fsm._json import JsonDict
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import host_code as host
from llm_fsm.cli import pick as choice
from llm_fsm.cli.options import command, db_option, json_option
from llm_fsm.cli.stores import listed_id, open_existing, tell_unlisted, unlisted
from llm_fsm.cli.terminal import console, escape
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConfigurationError, ConversationNotFound, UnreadableError
from llm_fsm.session.events import Migrated
from llm_fsm.stores.base import ListQuery, Store, every_line

_PAGE = 500


class MigrationResult(NamedTuple):
    """The result of one migration, done or only planned.

    `change` is a sentence that says why the conversation stays, if it does. `damaged`: it stays
    because the store's copy of it, or of its definition, cannot be read.
    """

    id: str
    was: str
    change: Migrated | str
    damaged: bool


@command("llm-fsm conversations migrate flow.json --map map.json --apply", name="migrate")
@click.argument("file", metavar="FILE")
@click.option(
    "--map",
    "map_file",
    metavar="MAP",
    type=click.Path(exists=True, dir_okay=False),
    help='A JSON file: {"states": {old: new}, "keys": {old: new, or null to drop it}}.',
)
@click.option(
    "--apply", "applies", is_flag=True, help="Do it; without this option it is only shown."
)
@json_option
@db_option
def migrate(file: str, map_file: str | None, applies: bool, as_json: bool, db: str | None) -> int:
    """Carry conversations over to a changed FILE, or say how.

    It is only done with --apply. What cannot be carried over stays with the definition that it was
    begun with, and goes on there.
    """
    path = choice.located(file)
    definition = choice.opened(path)
    change = {}
    if map_file is not None:
        change = host.object_of(host.text_of(Path(map_file)), map_file)
    store = open_existing(db)
    went: Sequence[MigrationResult] = ()
    left: Sequence[str] = ()
    if store is not None:
        with exits.failing(ConfigurationError, place=f"{map_file}: "):
            machine = AsyncMachine(
                definition,
                model="offline",
                store=store,
                on_change=change,
                file=path,
                allow_unsafe=True,
            )
        went, left = asyncio.run(migrated(machine, store, applies=applies))
    if as_json:
        console.json({"applied": applies, "conversations": [_document(item) for item in went]})
        console.note(_summary(went, applies=applies))
    else:
        report(went, applies=applies)
    tell_unlisted(left)
    return exits.STORE if any(item.damaged for item in went) else exits.OK


def report(went: Sequence[MigrationResult], *, applies: bool) -> None:
    """Say what came of each conversation, and how many there are."""
    console.out(*map(_line, went))
    console.note(_summary(went, applies=applies))


async def migrated(
    machine: AsyncMachine, store: Store, *, applies: bool, sha: str | None = None
) -> tuple[list[MigrationResult], Sequence[str]]:
    """Carry open conversations over to a machine's definition; with `sha`, only those pinned to it.

    Returns:
        The results, and what is wrong with conversations that the store does not list.
    """
    found = []
    query = ListQuery(limit=_PAGE, definition=machine.definition.name, ended=False)
    try:
        async for item in every_line(store, query):
            if sha not in (None, item.definition_sha):
                continue
            name, damaged = item.conversation_id, False
            try:
                change = await machine.migrate(listed_id(name), dry_run=not applies)
            except ConversationNotFound:
                continue
            except UnreadableError as error:  # the others can be carried over all the same
                change, damaged = str(error), True
            if change is not None:
                found.append(MigrationResult(name, item.state, change, damaged))
        return found, await unlisted(store)
    finally:
        await machine.close()


def _line(went: MigrationResult) -> str:
    name, change = went.id, went.change
    if isinstance(change, str):
        return f"{name}: stays: {change}"
    parts = [
        f"{went.was} → {change.states[went.was]}" if went.was in change.states else f"in {went.was}"
    ]
    parts += [f"{old} → {new}" if new else f"{old} dropped" for old, new in change.keys.items()]
    parts += [f"{key} dropped: the definition refuses its value" for key in change.removed]
    return f"{name}: {'; '.join(parts)}"


def _document(went: MigrationResult) -> JsonDict:
    change = went.change
    if isinstance(change, str):
        return {"id": went.id, "state": went.was, "stays": change}
    return {
        "id": went.id,
        "state": went.was,
        "to": change.states.get(went.was, went.was),
        "keys": dict(change.keys),
        "dropped": list(change.removed),
    }


def _summary(went: Sequence[MigrationResult], *, applies: bool) -> str:
    carried = sum(isinstance(item.change, Migrated) for item in went)
    if not went:
        return "every conversation of this definition follows it as it is"
    left = len(went) - carried
    verb = "stays" if left == 1 else "stay"
    stays = f", {left:,} {verb} as begun" if left else ""
    if applies:
        return f"{escape.plural(carried, 'conversation')} carried over{stays}"
    return f"{escape.plural(carried, 'conversation')} can be carried over{stays}; --apply does it"
