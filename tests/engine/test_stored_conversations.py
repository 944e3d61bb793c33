"""Conversations that an earlier version of the package stored are read, go on, and are played
again.

Each file of `tests/data/stored` holds a conversation as `export` wrote it, and how it goes on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.definition.subflows import read_document
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import examine
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.records.transfer import export, import_conversation
from llm_fsm.session.integrity import integrity_faults
from llm_fsm.session.session import dump_session, parse_session
from llm_fsm.session.turn_record import dump, parse
from llm_fsm.stores.memory import MemoryStore
from paths import TESTS

pytestmark = pytest.mark.anyio
STORED = sorted((TESTS / "data" / "stored").glob("*.json"))


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _compact(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def send_code(phone: str) -> dict[str, bool]:
    return {"ok": True}


def look_up(name: str) -> dict[str, Any]:
    return {"city": "Zürich", "big": 2**62, "rate": 0.1}


def pay(amount: int) -> dict[str, str]:
    return {"receipt": f"R-{amount}"}


def even(output: Any) -> tuple[bool, str]:
    return isinstance(output, int) and output % 2 == 0, "it is odd"


def interview(ctx: Any) -> list[Any]:
    return [ctx.ask("Name?"), ctx.ask("Age?")]


def _machine(document: dict[str, Any], store: MemoryStore) -> AsyncMachine:
    flows = read_document(json.dumps(document["export"]["definition_document"]))
    replies = [reply for step in document["then"] for reply in step["replies"]]
    return AsyncMachine(
        flows.root.definition,
        flows={name: flow.definition for name, flow in flows.called.items()},
        model=ScriptedLLM(replies) if replies else "offline",
        store=store,
        tools=[send_code, look_up, pay],
        functions=[even, interview],
    )


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_session_and_its_records_are_read_and_written_as_they_were(file: Path) -> None:
    document = _read(file)["export"]
    session = parse_session(_compact(document["session"]))
    records = [parse(_compact(record)) for record in document["records"]]
    assert json.dumps(json.loads(dump_session(session))) == json.dumps(document["session"])
    assert [json.dumps(json.loads(dump(record))) for record in records] == list(
        map(json.dumps, document["records"])
    )
    assert not integrity_faults(session, records)


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
async def test_an_exported_conversation_is_taken_in_and_goes_on(file: Path) -> None:
    document, store = _read(file), MemoryStore()
    text = _compact(document["export"])
    name = await import_conversation(store, text)
    again = json.loads(await export(store, name))
    assert again.pop("checksum")
    assert json.dumps({**again, "format": 1}) == json.dumps(document["export"])
    assert list(await examine(store)) == []
    machine = _machine(document, store)
    chat = await machine.resume(name)
    for step in document["then"]:
        turn = await (chat.answer(step["answer"]) if "answer" in step else chat.send(step["say"]))
        seen = {
            "text": turn.text,
            "state": chat.state,
            "context": chat.context,
            "ended": chat.ended,
            "paused": None if chat.paused is None else chat.paused.kind,
            "outcome": turn.outcome,
            "output": turn.output,
        }
        assert {key: value for key, value in seen.items() if value is not None} == step["expect"]
    assert list(await examine(store)) == []


def test_a_session_of_an_earlier_version_is_read_without_what_no_turn_needs_any_more() -> None:
    session = _read(STORED[0])["export"]["session"]
    assert parse_session(_compact({**session, "notes": [["count", "too small"]]})) == parse_session(
        _compact(session)
    )


# A migration is no turn that can be played, a cancel asks first by now, and a refused value is asked
# about once more.
PLAYED = [file for file in STORED if file.stem not in ("migrated", "ended", "order", "undone")]


@pytest.mark.parametrize("file", PLAYED, ids=lambda file: file.stem)
async def test_a_stored_conversation_is_played_again_the_same_way(file: Path) -> None:
    document = _read(file)
    program = _machine(document, MemoryStore()).program
    records = [parse(_compact(record)) for record in document["export"]["records"]]
    found = await replay_turns(program, recorded_tools(program), "golden", records)
    assert (found.turns > 0, found.divergence) == (True, None)
