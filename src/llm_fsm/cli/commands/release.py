"""`llm-fsm release`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.commands.conversations.migrate import migrated, report
from llm_fsm.cli.commands.conversations.replay import replay
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.options import VERBOSE, command, db_option, example, json_option
from llm_fsm.cli.stores import on_store, open_existing, open_store
from llm_fsm.cli.terminal import console
from llm_fsm.documents.diff import diff
from llm_fsm.documents.files import beside
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.releases import LiveRelease
from llm_fsm.errors import ConfigurationError, ConversationConflict
from llm_fsm.releases.file import promoted, read_release, stable_file, taken_back
from llm_fsm.stores.base import ListQuery, storable
from llm_fsm.testing.scenarios.loader import ENDING, read_suite
from llm_fsm.testing.scenarios.problems import SuiteError
from llm_fsm.testing.scenarios.session import play_suite
from llm_fsm.turn.compiled import CompiledMachine

file_argument = click.argument("file", metavar="FILE")


@click.group(
    params=[VERBOSE], epilog=example("llm-fsm release check order.release.json --db sqlite:///b.db")
)
def release() -> None:
    """Give a share of new conversations a candidate definition; watch, promote or take it back."""


@command("llm-fsm release check order.release.json --db sqlite:///bots.db")
@file_argument
@click.option(
    "--last", metavar="N", default=100, show_default=True, type=click.IntRange(min=0),
    help="Play so many stored conversations again on the candidate.",
)  # fmt: skip
@db_option
@click.pass_context
def check(ctx: click.Context, *, file: str, last: int, db: str | None) -> None:
    """Check both definitions of FILE, their tests and their differences.

    Then the last stored conversations are played again on the candidate, and those that go another
    way are shown. Exit code 1 when something is at fault.
    """
    live = _opened(file, db)
    on_store(live.store, live.refresh())
    name = _checked(live).definition.name
    store = open_existing(db)
    if store is None or not last:
        return
    query = ListQuery(definition=storable(name), order="-updated", limit=last)
    ids = [line.conversation_id for line in on_store(store, store.list(query))]
    if ids:
        newer = beside(file, live.release.candidate or "")
        ctx.invoke(replay, file=newer, conversation_ids=ids, db=db)


@command("llm-fsm release start order.release.json --share 0.1")
@file_argument
@click.option(
    "--share", required=True, type=click.FloatRange(0, 1, min_open=True),
    help="The part of new conversations, above 0 and up to 1.",
)  # fmt: skip
@click.option(
    "--from", "draft", metavar="DRAFT", help="Take all else from this release file.",
)  # fmt: skip
@db_option
def start(*, file: str, share: float, draft: str | None, db: str | None) -> None:
    """Begin a share of new conversations on the candidate, if nothing in FILE is at fault.

    Without FILE the release is in the store, for servers that share no disk.
    """

    def checked(live: LiveRelease) -> JsonMap:
        _checked(live)
        return {"share": share, "stopped": None}

    if draft is not None:
        with failing(ConfigurationError):
            wish = read_release(draft).model_dump(exclude_unset=True, mode="json")
        _changed(file, db, lambda _: {**wish, "share": 0})
    live = _changed(file, db, checked)
    console.note(f"{share:.0%} of new conversations begin on {live.release.candidate}")


@command("llm-fsm release status order.release.json --db sqlite:///bots.db")
@file_argument
@json_option
@db_option
def status(*, file: str, as_json: bool, db: str | None) -> None:
    """Show the figures of both arms, each with the interval that its guard judges by."""
    live = _opened(file, db)
    live.store = open_store(db)
    document = on_store(live.store, live.status())
    if as_json:
        console.json(document)
    else:
        _show(document)


@command("llm-fsm release promote order.release.json")
@file_argument
@db_option
def promote(*, file: str, db: str | None) -> None:
    """Make the candidate the stable definition. Running conversations stay as they are."""
    live = _changed(file, db, lambda live: promoted(live.release))
    console.note(f"new conversations begin on {live.release.stable}")


@command("llm-fsm release back order.release.json --move --db sqlite:///bots.db")
@file_argument
@click.option(
    "--move", is_flag=True, help="Move the candidate's open conversations to the stable definition."
)
@db_option
def back(*, file: str, move: bool, db: str | None) -> None:
    """Begin no new conversation on the candidate, also after it was promoted.

    Running conversations stay as they are, or are moved with --move by the map of FILE.
    """
    live = _changed(file, db, lambda live: taken_back(live.release))
    console.note(f"new conversations begin on {live.release.stable}")
    if move:
        sha, store = _candidate(live).identity, open_store(db)
        machine = AsyncMachine.from_file(
            stable_file(file), model="offline", store=store, on_change=live.release.back_map()
        )
        went, _ = asyncio.run(migrated(machine, store, applies=True, sha=sha))
        report(went, applies=True)


def _opened(file: str, db: str | None) -> LiveRelease:
    """Open FILE; without it the release in the store. Raises Failure, DefinitionError."""
    store = None if os.path.exists(file) else open_store(db)
    with failing(ConfigurationError):
        machine = AsyncMachine.from_file(stable_file(file), model="offline", store=store)
        return LiveRelease(file, machine.program, machine._compile, machine.store)


def _changed(file: str, db: str | None, changes: Callable[[LiveRelease], JsonMap]) -> LiveRelease:
    live = _opened(file, db)

    async def change() -> None:
        await live.refresh()
        await live.change(**await asyncio.to_thread(changes, live))

    with failing(ConfigurationError, ConversationConflict):
        on_store(live.store, change())
    return live


def _candidate(live: LiveRelease) -> CompiledMachine:
    with failing(ConfigurationError):
        if live.fault is not None:
            raise live.fault
    if live.candidate is None:
        raise Failure(f"{live.place}: it has no candidate: name its file as candidate")
    return live.candidate


def _checked(live: LiveRelease) -> CompiledMachine:
    """Return the candidate. Raises Failure if it, a test or a difference is at fault."""
    candidate = _candidate(live)
    with failing(SuiteError, code=exits.AT_FAULT):
        faults = list(_faults(live, candidate))
    for fault in faults:
        console.error(fault)
    if faults:
        raise Failure(f"{live.place}: the candidate is not ready", exits.AT_FAULT)
    return candidate


def _faults(live: LiveRelease, candidate: CompiledMachine) -> Iterator[str]:
    """Yield the changes that need a map, if there is none, and the tests that fail."""
    for change in diff(live.stable.definition, candidate.definition):
        if change.impact != "safe" and not live.release.map:
            yield f"{change.message}: write a map into the release, see `llm-fsm diff`"
    names = {live.release.stable, live.release.candidate}
    for path in sorted(Path(live.path).parent.glob(f"*{ENDING}")):
        if Path(read_suite(path).definition_file or "").name in names:
            failed = [result.name for result in play_suite(path) if not result.passed]
            yield from (f"{path}: {name} fails; run llm-fsm test {path}" for name in failed)


def _show(document: JsonDict) -> None:
    console.out("share {share:g}, from the {source} {stopped}".format_map(document).rstrip())
    arms, parts = document["arms"].values(), ("stable", "candidate", "worse_by")
    counts = ("conversations", "settled", "errors")
    rows = [[name, *(str(arm[name]) for arm in arms), ""] for name in counts]
    for line in document["figures"]:
        rows.append([line["figure"], *(_interval(line[part]) for part in parts)])
    console.table(rows, ("figure", *parts), right=range(1, 4))


def _interval(part: JsonMap) -> str:
    return "{value:.3f} ({low:.3f} to {high:.3f})".format_map(part)


for _command in (check, start, status, promote, back):
    release.add_command(_command)
