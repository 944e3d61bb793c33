"""`llm-fsm diff`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from llm_fsm._json import TextMap
from llm_fsm._text import visible
from llm_fsm.cli import documents
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.options import command
from llm_fsm.cli.stores import open_existing
from llm_fsm.cli.terminal import console, escape
from llm_fsm.definition.models import Definition
from llm_fsm.documents.diff import Difference
from llm_fsm.documents.diff import diff as differences
from llm_fsm.documents.discovery import file_of
from llm_fsm.documents.loader import load_text
from llm_fsm.documents.subflows import gather
from llm_fsm.errors import DefinitionError
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.stores.base import ListQuery, Store, every_line

_PAGE = 1000
_WORDS: TextMap = {"strands": "strands", "needs-map": "needs a map", "safe": "safe"}


@dataclass(frozen=True, slots=True)
class Live:
    """The numbers of conversations: under way, touched by any change, and touched by each change."""

    total: int
    touched: int
    by_change: tuple[int, ...]


@command("llm-fsm diff old.json new.json --exit-code")
@click.argument("old")
@click.argument("new")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print; Markdown is for a pull request.",
)
@click.option(
    "--conversations",
    "db",
    metavar="DB",
    help="Count the conversations in this store that each touches.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 unless every change is safe.")
def diff(*, old: str, new: str, form: str, db: str | None, exit_code: bool) -> int:
    """Say what a change of a definition means, also for running conversations.

    Each change from OLD to NEW is safe, needs a map, or strands conversations. With a map, a
    conversation resumes after a name or value is mended. A stranded one has no transition left.
    Definitions that both call by one name are compared, too. Each is a file, or the name of a
    shipped definition.
    """
    first, second = file_of(old), file_of(new)
    before, after = _definition(first), _definition(second)
    called = _called_changes((before, first), (after, second))
    changes = sorted(
        (*differences(before, after), *called), key=lambda change: list(_WORDS).index(change.impact)
    )
    live = None if db is None else asyncio.run(_counted(db, {before.name, after.name}, changes))
    if form == "text":
        console.out(*as_text(old, new, changes, live), wrapped=True)
    else:
        console.text(FORMS[form](old, new, changes, live))
    unsafe = any(change.impact != "safe" for change in changes)
    return exits.AT_FAULT if exit_code and unsafe else exits.OK


def _definition(path: str) -> Definition:
    return load_text(documents.text_of(path), file=documents.named(path)).definition


def _called_changes(old: tuple[Definition, str], new: tuple[Definition, str]) -> list[Difference]:
    """Return the changes in the definitions that both call by one name, at any depth, each with
    that name.
    """
    try:
        before, after = (gather(one, file=documents.named(path)).called for one, path in (old, new))
    except DefinitionError as error:
        console.note(
            f"what is called cannot be read, so it was not compared: {error.findings[0].message}"
        )
        return []
    found = []
    for name in before:
        if name in after:
            for change in differences(before[name].definition, after[name].definition):
                message, pointer = f'in "{name}": {change.message}', f"{name}#{change.pointer}"
                found.append(replace(change, message=message, pointer=pointer))
    return found


async def _counted(db: str, names: set[str], changes: Sequence[Difference]) -> Live:
    """Conversations of these definitions that have not ended, page by page."""
    store = open_existing(db, "--conversations")
    if store is None:
        return Live(0, 0, (0,) * len(changes))
    total, touched, numbers = 0, 0, [0] * len(changes)
    try:
        async for item in every_line(store, ListQuery(limit=_PAGE, ended=False)):
            if item.definition not in names:
                continue
            total += 1
            found = await _touching(store, item.conversation_id, item.state, changes)
            touched += bool(found)
            for index in found:
                numbers[index] += 1
    finally:
        await store.close()
    return Live(total, touched, tuple(numbers))


async def _touching(
    store: Store, conversation_id: str, state: str, changes: Sequence[Difference]
) -> list[int]:
    """Numbers of the changes that touch a conversation; its context is read only where keys matter."""
    context: Mapping[str, object] = {}
    if any(change.key is not None and change.impact != "safe" for change in changes):
        loaded = await store.load(conversation_id)
        if loaded is None:
            return []
        session, _ = await SessionReader(store).read(conversation_id, loaded.session)
        context = session.context
    return [index for index, change in enumerate(changes) if change.touches(state, context)]


def _numbers(changes: Sequence[Difference]) -> str:
    counts = {impact: sum(change.impact == impact for change in changes) for impact in _WORDS}
    parts = [
        f"{counts['strands']:,} strand{'s' if counts['strands'] == 1 else ''}",
        f"{counts['needs-map']:,} need{'s' if counts['needs-map'] == 1 else ''} a map",
        f"{counts['safe']:,} safe",
    ]
    return f"{escape.plural(len(changes), 'change')}: {', '.join(parts)}"


def _live_line(live: Live | None) -> list[str]:
    if live is None:
        return []
    return [
        f"{escape.plural(live.total, 'conversation')} under way, {live.touched:,} of them touched"
    ]


def _touched(live: Live | None, index: int, change: Difference) -> str:
    if live is None or change.impact == "safe":
        return ""
    return escape.plural(live.by_change[index], "conversation")


def as_text(old: str, new: str, changes: Sequence[Difference], live: Live | None) -> Iterator[str]:
    """Yield a line for each change, the gravest first, and the numbers."""
    for index, change in enumerate(changes):
        reason = f": {change.reason}" if change.reason else ""
        number = f" ({touched})" if (touched := _touched(live, index, change)) else ""
        yield f"{_WORDS[change.impact]:11}  {change.message}{reason}{number}"
    yield _numbers(changes) if changes else f"{old} and {new} mean the same"
    yield from _live_line(live)


def as_markdown(old: str, new: str, changes: Sequence[Difference], live: Live | None) -> str:
    """A table for a pull request; nothing in it is taken for markup."""
    head = f"### {_escaped(old)} → {_escaped(new)}\n\n{_numbers(changes)}."
    if not changes:
        return f"{head}\n"
    last = " Conversations |" if live is not None else ""
    rows = [
        f"| Mark | Change | Why |{last}",
        "|---|---|---|" + ("---:|" if live is not None else ""),
    ]
    for index, change in enumerate(changes):
        number = ""
        if live is not None:
            count = "" if change.impact == "safe" else str(live.by_change[index])
            number = f" {count} |"
        rows.append(
            f"| {_WORDS[change.impact]} | {_escaped(change.message)} | {_escaped(change.reason)} |{number}"
        )
    tail = [f"\n{line}." for line in _live_line(live)]
    return "\n".join([head, "", *rows, *tail])


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>()#+!|~&" else char for char in visible(text))


def as_json(old: str, new: str, changes: Sequence[Difference], live: Live | None) -> str:
    """`{"old", "new", "changes": […], "conversations": {"live", "touched"} or null}`."""
    rows = []
    for index, change in enumerate(changes):
        row = change.to_dict()
        if live is not None:
            row["conversations"] = live.by_change[index]
        rows.append(row)
    counted = None if live is None else {"live": live.total, "touched": live.touched}
    return escape.as_json({"old": old, "new": new, "changes": rows, "conversations": counted})


FORMS: Mapping[str, Callable[[str, str, Sequence[Difference], Live | None], str]] = {
    "json": as_json,
    "markdown": as_markdown,
}
