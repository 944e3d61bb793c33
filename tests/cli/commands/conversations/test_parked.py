"""`conversations list --parked`, `conversations retry` and the doctor's word about parked turns."""

from __future__ import annotations

import asyncio
import json

import pytest

from cli_command import desk
from llm_fsm.stores.sqlite import SQLiteStore

__all__ = ["desk"]


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "bots.db"

    async def leave():
        store = SQLiteStore(path)
        first = {
            "kind": "message",
            "request_id": "r",
            "text": "hello",
            "time": 1.0,
            "definition": "shop",
        }
        error = {"kind": "error", "time": 5.0, "error": "ModelError: down"}
        for name, last in (("poison", {"kind": "parked", "time": 9.0}), ("stuck", error)):
            for step, entry in enumerate((first, last)):
                await store.journal(name, step, json.dumps({**entry, "step": step}))
        await store.close()

    asyncio.run(leave())
    return f"sqlite:///{path}"


def test_turns_that_wait_for_somebody_are_listed_and_retried(db, desk):
    run = desk.run
    listed = run("conversations", "list", "--parked", "--db", db)
    assert listed.code == 0
    assert "poison: one of its turns ended three processes and is parked" in listed.out
    assert "stuck: one of its turns has failed for a day: ModelError: down" in listed.out
    checked = run("conversations", "doctor", "--db", db)
    assert (checked.code, "poison: one of its turns" in checked.out) == (4, True)
    assert run("conversations", "retry", "poison", "--db", db).code == 0
    left = json.loads(run("conversations", "list", "--parked", "--json", "--db", db).out)["parked"]
    assert [(line["id"], line["parked"]) for line in left] == [("stuck", False)]
    again = run("conversations", "retry", "nobody", "--db", db)
    assert (again.code, "nothing to retry" in again.err) == (2, True)
