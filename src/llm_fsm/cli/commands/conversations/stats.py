"""`llm-fsm conversations stats`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import click

from llm_fsm._json import JsonDict
from llm_fsm.cli.filters import label_option, metadata_of
from llm_fsm.cli.options import command, db_option, json_option
from llm_fsm.cli.stores import on_store, open_existing
from llm_fsm.cli.terminal import console
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Usage
from llm_fsm.session.turn_record import Records, TurnRecord, parse
from llm_fsm.stores.base import Listed, ListQuery, Store, every_line

_PAGE = 500
_HOUR = 3600.0


@dataclass(slots=True)
class Counts:
    """The counts of a state, or of a day."""

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    misses: int = 0
    refusals: int = 0
    dropped: int = 0


Key = tuple[str, str]
"""A definition, and a state or a day."""


class ConversationTally:
    """The counts of many conversations."""

    def __init__(self) -> None:
        self.conversations = 0
        self.ended = 0
        self.states: defaultdict[Key, Counts] = defaultdict(Counts)
        self.days: defaultdict[Key, Counts] = defaultdict(Counts)

    def take(self, line: Listed, records: Records, since: float, before: float) -> None:
        """Count a conversation: its turns from `since` on; dropped if nobody has gone on with it
        after `before`.
        """
        self.conversations += 1
        self.ended += line.ended
        if not line.ended and line.updated < before:
            self.states[line.definition, line.state].dropped += 1
        state = ""
        for record in records:
            moment = line.updated if record.time is None else record.time
            day = _day(moment)
            heard, state = state, _state_after(record, state)
            if record.kind in ("undo", "migrate", "heard", "end") or moment < since:
                continue
            for counts in (
                self.states[line.definition, heard or state],
                self.days[line.definition, day],
            ):
                _add(counts, record)


def _add(counts: Counts, record: TurnRecord) -> None:
    counts.turns += 1
    counts.usage += record.usage
    counts.misses += record.missed
    counts.refusals += sum(
        isinstance(event, ev.MoveRefused | ev.ContextRefused) for event in record.events
    )


def _state_after(record: TurnRecord, state: str) -> str:
    for event in record.events:
        match event:
            case ev.Started() | ev.StateEntered() | ev.FlowReturned() | ev.Restarted():
                state = event.state
            case ev.FlowPushed():
                state = event.entered
            case ev.TurnUndone():
                state = str(event.session.get("state", state))
    return state


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


@command("llm-fsm conversations stats --definition order --since 2026-01-31")
@db_option
@click.option("--definition", metavar="NAME", help="Only conversations with this definition.")
@click.option(
    "--since",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Only turns from this day on (UTC).",
)
@click.option(
    "--idle", default=24.0, show_default=True, type=click.FloatRange(min=0), metavar="HOURS",
    help="After so many hours of silence a conversation counts as dropped.",
)  # fmt: skip
@label_option
@json_option
def stats(
    *,
    db: str | None,
    definition: str | None,
    since: datetime | None,
    idle: float,
    labels: Sequence[str],
    as_json: bool,
) -> None:
    """Count turns, model calls, tokens and cost per state and per day; drop-outs, misses and
    refusals.

    A turn counts for the state that received its message. An open conversation without a turn for
    --idle hours counts as dropped in its current state. Of a release, --label arm=candidate counts
    one arm.
    """
    store = open_existing(db)
    start = 0.0 if since is None else since.replace(tzinfo=UTC).timestamp()
    tally = ConversationTally()
    if store is not None:
        query = ListQuery(limit=_PAGE, definition=definition, metadata=metadata_of(labels))
        on_store(store, _count(store, query, tally, start, time.time() - idle * _HOUR))
    if as_json:
        console.json(_document(tally))
    elif tally.conversations:
        _show(tally)
    else:
        console.note("there are no conversations yet")


async def _count(
    store: Store, query: ListQuery, tally: ConversationTally, since: float, before: float
) -> None:
    async for line in every_line(store, query):
        records = [parse(text) for text in await store.records(line.conversation_id)]
        tally.take(line, records, since, before)


def _line(name: str, key: Key, counts: Counts) -> JsonDict:
    usage = counts.usage
    return {
        "definition": key[0],
        name: key[1],
        "turns": counts.turns,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": round(usage.cost, 6),
        "model_seconds": round(usage.seconds, 3),
        "misses": counts.misses,
        "refusals": counts.refusals,
        **({"dropped": counts.dropped} if name == "state" else {}),
    }


def _document(tally: ConversationTally) -> JsonDict:
    return {
        "conversations": tally.conversations,
        "ended": tally.ended,
        "states": [_line("state", key, counts) for key, counts in sorted(tally.states.items())],
        "days": [_line("day", key, counts) for key, counts in sorted(tally.days.items())],
    }


def _show(tally: ConversationTally) -> None:
    console.out(f"{tally.conversations} conversations, {tally.ended} of them ended")
    document = _document(tally)
    for lines in (document["states"], document["days"]):
        if lines:
            console.out("")
            rows = [[str(value) for value in line.values()] for line in lines]
            head = [key.replace("_", " ") for key in lines[0]]
            console.table(rows, head, right=range(2, len(head)))
