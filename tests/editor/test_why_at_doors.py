"""Why a turn went as it did is one account at every door: REST, the command line and the studio."""

import json

import pytest
from starlette.testclient import TestClient

from cli_command import desk
from llm_fsm import AsyncMachine, Machine
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.server import create_app
from llm_fsm.stores.registry import resolve

__all__ = ["desk"]

ROOM = {"var": "beds"}
TALK = {
    "name": "rooms",
    "initial_state": "ask",
    "context_schema": {"type": "object", "properties": {"beds": {"type": "integer"}}},
    "states": {
        "ask": {
            "purpose": "Ask how many beds",
            "required_context_keys": ["beds"],
            "transitions": [
                {"target_state": "suite", "conditions": [{"logic": {">": [ROOM, 2]}}]},
                {"target_state": "room", "conditions": [{"logic": {"<=": [ROOM, 2]}}]},
            ],
        },
        "suite": {"reply": "The suite it is."},
        "room": {"reply": "A room it is."},
    },
}
JOB = {
    "name": "bees",
    "initial_state": "list",
    "tools": {"look": {"registered": "look"}},
    "states": {
        "list": {
            "kind": "task",
            "purpose": "List questions.",
            "tools": ["look"],
            "max_retries": 1,
            "key_results": [{"name": "two", "check": {"==": [{"len": [{"var": "output"}]}, 2]}}],
            "on_exhausted": "lost",
            "transitions": [{"target_state": "sign"}],
        },
        "sign": {
            "kind": "wait",
            "purpose": "A person signs",
            "answer_schema": {"type": "object"},
            "transitions": [{"target_state": "done"}],
        },
        "done": {"kind": "final"},
        "lost": {"kind": "final"},
    },
}


def look(what: str) -> str:
    """Look something up."""
    return f"{what}: seen"


def moved(target, **values):
    transition = {"target_state": target, "context_update": values}
    return {"transition": transition, "message": "Well."}


HELLO = {"message": "How many?"}
CASES = {
    "a move": (TALK, [HELLO, moved("suite", beds=4)], "four beds"),
    "a move that was refused": (TALK, [HELLO, moved("suite", beds=1), moved("room")], "one bed"),
    "a turn that stays": (TALK, [HELLO, moved("ask")], "well, hm"),
    "a task of two attempts": (JOB, [calls(("look", {"what": "hive"})), '["a"]', '["a","b"]'], ""),
    "a task that is exhausted": (JOB, ['["a"]', '["b"]'], ""),
    "an answer": (JOB, ['["a","b"]'], {"signed": True}),
}

ORDERS = {
    "a move": "ModelReplied ContextSet MoveDecision",
    "a move that was refused": "ModelReplied ContextSet MoveDecision ModelReplied MoveDecision",
    "a turn that stays": "ModelReplied MoveDecision",
    "a task of two attempts": (
        "ModelReplied ToolReturned ModelReplied KeyResultChecked AttemptFailed "
        "ModelReplied KeyResultChecked MoveDecision"
    ),
    "a task that is exhausted": (
        "ModelReplied KeyResultChecked AttemptFailed "
        "ModelReplied KeyResultChecked AttemptFailed MoveDecision"
    ),
    "an answer": "Answered MoveDecision",
}


def played(flow, replies, said, store):
    with Machine.from_dict(flow, model=ScriptedLLM(replies), store=store, tools=[look]) as machine:
        if flow is TALK:
            machine.start(conversation_id="c").send(said)
            return
        machine.run("honey", conversation_id="c")
        if said:
            machine.answer("c", said)


@pytest.mark.parametrize("case", CASES)
def test_a_turn_has_one_account_at_every_door(case, tmp_path, serving, desk):
    flow, replies, said = CASES[case]
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    played(flow, replies, said, store)
    shown = desk.run("conversations", "show", "c", "--why", "--json", "--db", store)
    records = json.loads(shown.out)["turns"]
    last = records[-1]["turn"]
    app = create_app(
        [AsyncMachine.from_dict(flow, model="offline", store=resolve(store), tools=[look])],
        closes=True,
        due_seconds=None,
    )
    with TestClient(app, base_url="http://127.0.0.1") as client:
        account = client.get(f"/conversations/c/turns/{last}/why").json()
    with serving(Studio(folder=Folder(tmp_path), store=lambda: resolve(store))) as page:
        talk = page.get("/conversation", id="c")
        why = page.get(f"/talks/{talk['id']}/turns/{last}")["why"]
    own = [record["why"] for record in records if record["turn"] == last]
    notes = [note for one in own for note in one["notes"]]
    assert account["notes"] == why["notes"] == notes
    assert account == why
    assert [(one["turn"], one["arrived"]) for one in own][-1] == (last, account["arrived"])
    assert " ".join(note["type"] for note in notes) == ORDERS[case]
