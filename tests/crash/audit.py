"""What must be true after all the killing, read from the ledger and the store."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from bot import SHOP, TURNS, message
from ledger import Ledger
from naive import IllegalError, Replayed


async def faults(ledger: Ledger, store: Any) -> list[str]:
    """Every promise that was broken, in words."""
    facts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in ledger.lines():
        if "c" in line:
            facts[line["c"]].append(line)
    found: list[str] = []
    for name, lines in facts.items():
        loaded = await store.load(name)
        if loaded is None:
            if any(line["what"] != "sent" for line in lines):
                found.append(f"{name}: is gone")
            continue
        records = [json.loads(text) for text in await store.records(name)]
        journal = await store.journalled(name)
        found += [
            f"{name}: {fault}"
            for fault in _faults(lines, json.loads(loaded.session), loaded.version, records)
        ]
        if journal:
            found.append(f"{name}: a journal is left: {journal}")
    return found


def _faults(
    lines: list[dict[str, Any]],
    session: Mapping[str, Any],
    version: int,
    records: list[dict[str, Any]],
) -> Iterator[str]:
    if version != len(records):
        yield f"version {version}, but {len(records)} records"
    try:
        replayed = Replayed(SHOP, records)
    except IllegalError as error:
        yield f"not allowed: {error}"
        return
    says = tuple(session[name] for name in ("state", "context", "ended"))
    came_to = (replayed.state, replayed.context, replayed.ended)
    if says != came_to:
        yield f"the session says {says}, its records {came_to}"
    yield from _messages(lines, replayed)
    yield from _effects(lines, replayed)
    yield from _asked(lines)
    yield from _told(lines, records)


def _messages(lines: list[dict[str, Any]], replayed: Replayed) -> Iterator[str]:
    """Each acknowledged message is there once, in order, with the words that were acknowledged."""
    wanted = [(f"m{turn}", message(turn)) for turn in range(1, TURNS + 1)]
    said = [(request, text) for request, text, _ in replayed.said]
    if said != wanted[: len(said)]:
        yield f"messages are lost, doubled or out of order: {said}"
    words = {request: answer for request, _, answer in replayed.said}
    for line in lines:
        recorded = words.get(f"m{line.get('turn')}")
        if line["what"] in ("ack", "again") and recorded != line["text"]:
            yield f"turn {line['turn']} was acknowledged with {line['text']!r}, on record is {recorded!r}"
    acknowledged = [line["turn"] for line in lines if line["what"] == "ack"]
    if len(set(acknowledged)) not in (len(said), len(said) - 1):
        yield f"{len(set(acknowledged))} messages were acknowledged, {len(said)} are on record"


def _effects(lines: list[dict[str, Any]], replayed: Replayed) -> Iterator[str]:
    """What must happen once happened once; what was repeated had the key that it had before."""
    effects = [line for line in lines if line["what"] == "effect"]
    charged = Counter(line["turn"] for line in effects if line["name"] == "charge")
    for turn, times in charged.items():
        if times > 1:
            yield f"charged {times} times for turn {turn}"
    closed = int(replayed.ended)
    for name, count in (
        ("hear", len(replayed.said)),
        ("enter", replayed.entered),
        ("close", closed),
    ):
        keys = {line["key"] for line in effects if line["name"] == name}
        if len(keys) != count:
            yield f"{name} ran under {len(keys)} keys, {count} are on record"
    stamped: dict[int, set[str]] = defaultdict(set)
    for line in effects:
        if line["name"] == "stamp":
            stamped[line["turn"]].add(line["key"])
    for turn, keys in stamped.items():
        if len(keys) > 1:
            yield f"stamped under {len(keys)} keys for turn {turn}"
    paid = [
        turn
        for turn in range(1, TURNS)
        if message(turn).startswith("pay") and turn <= len(replayed.said)
    ]
    for turn in paid:
        ran = [
            key
            for name, arguments, key in replayed.calls
            if name == "stamp" and arguments["turn"] == turn
        ]
        if ran and ran != list(stamped[turn]):
            yield f"the stamp of turn {turn} is on record under another key"
        if ran and not charged[turn]:
            yield f"turn {turn} is on record as paid, and nobody charged for it"
    if len({key for *_, key in replayed.calls}) != len(replayed.calls):
        yield "two calls on record share a key"


def _asked(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A question is asked again only after a crash: at most once in each life of its message."""
    lives = Counter(line["turn"] for line in lines if line["what"] == "sent")
    asked = Counter(
        (line["said"], line["state"], line["asked"]) for line in lines if line["what"] == "model"
    )
    for (said, state, number), times in asked.items():
        # no message: words after an answer
        sent = lives[int(said.split()[1])] if said else lives.total()
        if times > sent:
            yield f"asked {times} times about {said!r} in {state} ({number} messages), sent {sent} times"


def _told(lines: list[dict[str, Any]], records: list[dict[str, Any]]) -> Iterator[str]:
    """The sink heard of every event it wants, for the first time in order, and never of two under
    one key.
    """
    told = {line["key"]: line["event"] for line in lines if line["what"] == "told"}
    first = list(told)
    wanted = {
        f"{lines[0]['c']}/{number}/{index}": event
        for number, record in enumerate(records, 1)
        for index, event in enumerate(record["events"])
        if event["type"] in ("UserSaid", "StateEntered", "BotSaid", "Ended")
    }
    if first != list(wanted):
        yield f"the sink heard of {len(first)} events, {len(wanted)} are on record, or not in order"
    elif told != wanted:
        yield "the sink heard of other events than those on record"
