"""The suites read the form of foreign sets, play them, and judge writes. The samples are our own."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import desk, hostile, sgd, star, tau
from benchmarks.suites.__main__ import main
from benchmarks.suites.files import Unusable, read
from benchmarks.suites.play import judged, play
from benchmarks.suites.policy import YES, Call, Said, violation

# -- SGD

SERVICE: dict[str, Any] = {
    "service_name": "Boats_1",
    "description": "Rent boats",
    "slots": [
        {"name": "city", "description": "The city", "is_categorical": False, "possible_values": []},
        {"name": "seats", "description": "Seats", "is_categorical": True, "possible_values": ["2", "4"]},
        {"name": "date", "description": "The date", "is_categorical": False, "possible_values": []},
    ],
    "intents": [
        {"name": "RentBoat", "description": "Rent a boat", "is_transactional": True,
         "required_slots": ["city", "date"], "optional_slots": {"seats": "dontcare"},
         "result_slots": []},
        {"name": "FindBoat", "description": "Look for boats", "is_transactional": False,
         "required_slots": ["city"], "optional_slots": {}, "result_slots": []},
    ],
}  # fmt: skip


def act(name: str, slot: str, said: str, canonical: str = "") -> dict[str, Any]:
    return {"act": name, "slot": slot, "values": [said], "canonical_values": [canonical or said]}


def user(words: str, intent: str, actions: list[Any], **slots: list[str]) -> dict[str, Any]:
    state = {"active_intent": intent, "requested_slots": [], "slot_values": slots}
    frame = {"service": "Boats_1", "actions": actions, "slots": [], "state": state}
    return {"speaker": "USER", "utterance": words, "frames": [frame]}


def system(words: str, *actions: Any) -> dict[str, Any]:
    frame = {"service": "Boats_1", "actions": list(actions), "slots": []}
    return {"speaker": "SYSTEM", "utterance": words, "frames": [frame]}


TALK: dict[str, Any] = {
    "dialogue_id": "1_1",
    "services": ["Boats_1"],
    "turns": [
        user("A boat in Ulm", "FindBoat", [act("INFORM", "city", "Ulm")], city=["Ulm"]),
        system("There is one on March 3rd.", act("OFFER", "date", "March 3rd", "2019-03-03")),
        user("And the price?", "FindBoat", [], city=["Ulm"]),
        system("Forty."),
        user("Take it, any size", "RentBoat", [act("INFORM", "seats", "dontcare")],
             city=["Ulm"], date=["March 3rd"], seats=["dontcare"]),
        system("Done."),
        user("Bye", "NONE", [], city=["Ulm"], date=["March 3rd"], seats=["dontcare"]),
        system("Bye."),
    ],
}  # fmt: skip


@pytest.fixture
def boats(tmp_path: Path) -> Path:
    (tmp_path / "schema.json").write_text(json.dumps([SERVICE]))
    (tmp_path / "Boats_1.json").write_text(json.dumps([TALK]))
    return tmp_path


@pytest.mark.parametrize("renamed", [False, True])
def test_right_replies_reach_every_label_under_any_names(boats: Path, renamed: bool) -> None:
    [part] = sgd.parts(boats, renamed=renamed)
    turns = judged(play(part))
    assert ([turn.why for turn in turns], part.left_out) == ([""] * 4, [])
    keys = set(part.definition["context_schema"]["properties"])
    assert keys == ({"town", "places", "day"} if renamed else {"city", "seats", "date"})


def test_a_value_that_the_other_system_proposed_has_the_form_of_the_set(boats: Path) -> None:
    [part] = sgd.parts(boats, renamed=False)
    third = part.conversations[0].turns[2]
    assert third.labels == {"date": "2019-03-03", "seats": "dontcare"}
    assert part.conversations[0].turns[1].labels == {}
    assert part.conversations[0].turns[0].said == "There is one on March 3rd."


def test_a_label_that_its_own_schema_forbids_is_left_out_with_its_reason(boats: Path) -> None:
    talk = copy.deepcopy(TALK)
    talk["turns"][4]["frames"][0]["actions"] = [act("INFORM", "seats", "seven", "7")]
    talk["turns"][4]["frames"][0]["state"]["slot_values"]["seats"] = ["seven"]
    (boats / "Boats_1.json").write_text(json.dumps([talk]))
    [part] = sgd.parts(boats, renamed=False)
    assert part.left_out == ["1_1, turn 3: seats: '7' is no possible value of the schema"]
    assert [turn.why for turn in judged(play(part))] == [""] * 4


# -- STAR

TASK = {
    "task": "borrow",
    "replies": {"hello": "Hello?", "ask_book": "Which book?", "tell": "It is there.", "gone": "It is out.",
                "bye": "Bye.", "query": "Query", "query_success": "Found", "query_failure": "Not found"},
    "graph": {"hello": "ask_book", "ask_book": "query", "query_success": "tell", "query_failure": "gone"},
}  # fmt: skip


@pytest.fixture
def library(tmp_path: Path) -> Path:
    where = tmp_path / "borrow"
    (where / "dialogues").mkdir(parents=True)
    (where / "borrow.json").write_text(json.dumps(TASK))
    said = {name: TASK["replies"][name] for name in ("hello", "ask_book", "tell", "gone")}
    said["borrow_bye"] = "Bye."
    (where / "responses.json").write_text(json.dumps(said))

    def picked(label: str) -> dict[str, str]:
        return {"Agent": "Wizard", "Action": "pick_suggestion", "ActionLabel": label, "Text": label}

    def uttered(agent: str, text: str) -> dict[str, str]:
        return {"Agent": agent, "Action": "utter", "Text": text}

    item = {"Agent": "KnowledgeBase", "Action": "return_item", "Item": {"Message": "Found"}}
    events = [
        uttered("User", "Hi"), picked("ask_book"), uttered("User", "Dune"), uttered("User", "by Herbert"),
        item, picked("tell"), uttered("User", "Hm"), uttered("Wizard", "Well."),
        uttered("User", "What?"), picked("ask_book"), uttered("User", "Bye"), picked("goodbye_1"),
    ]  # fmt: skip
    talk = {"DialogueID": 7, "Events": events}
    (where / "dialogues" / "7.json").write_text(json.dumps(talk))
    return tmp_path


def test_the_graph_of_a_task_leads_to_the_actions_of_its_wizard(library: Path) -> None:
    [part] = star.parts(library)
    turns = judged(play(part))
    assert [turn.state for turn in turns] == ["ask_book", "tell", "tell", "tell", "borrow_bye"]
    assert [turn.why for turn in turns] == [""] * 5
    assert part.left_out == ["7, turn 4: the graph leads nowhere from tell to ask_book"]
    assert part.conversations[0].turns[1].say == "Dune\nby Herbert"


# -- bad input


@pytest.mark.parametrize(
    ("suite", "named"),
    [
        ("sgd", ["Schema-Guided Dialogue", "CC BY-SA 4.0", "schema.json"]),
        ("star", ["STAR", "MIT", "responses.json"]),
        ("tau", ["τ²-bench", "MIT", "db.json"]),
    ],
)
def test_missing_data_names_the_set_its_licence_and_what_to_fetch(
    suite: str, named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([suite, str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert [name for name in [*named, "https://"] if name not in said] == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[{}", ":1: this is no JSON"),
        ('{"a": 1}', "the whole file"),
        ('[{"service_name": "x"}]', "/0/description"),
        ("[1]", "/0:"),
        (
            '[{"service_name": "x", "description": "", "slots": [{}], "intents": []}]',
            "/0/slots/0/name",
        ),
    ],
)
def test_a_file_of_another_form_is_named_with_its_place(
    text: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(Unusable) as raised:
        read(path, list[sgd.Service], "sgd")
    assert str(path) in str(raised.value)
    assert place in str(raised.value)


def test_a_service_without_a_schema_is_named(boats: Path) -> None:
    (boats / "Cars.json").write_text(json.dumps([{**TALK, "services": ["Cars_1"]}]))
    with pytest.raises(Unusable, match="Cars_1"):
        sgd.parts(boats, renamed=False)


def test_the_table_has_a_row_for_each_service(
    boats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sgd", str(boats)]) == 0
    assert "| Boats_1 | 1 | 4 | 4 of 4 (100.0 %) |" in capsys.readouterr().out


# -- τ

SHOP = desk.EXAMPLE.SHOP
DATA = {"products": SHOP.products, "users": SHOP.users, "orders": SHOP.orders}
CANCEL = Call("cancel_pending_order", {"order_id": "#W0000001", "reason": "no longer needed"})
RETURN = Call(
    "return_delivered_order_items",
    {"order_id": "#W0000002", "item_ids": ["1200000001"], "payment_method_id": "gift_card_1"},
)


def cancelled(data: dict[str, Any], order_id: str, reason: str) -> str:
    """Do what a careless tool does: it looks at the status alone."""
    order = data["orders"][order_id]
    if order["status"] != "pending":
        return "Error: not pending"
    order["status"] = "cancelled"
    order["cancel_reason"] = reason
    return "done"


RETAIL = tau.Retail(
    DATA, (tau.Task("0", "ada_byron_1", (CANCEL,)),), {"cancel_pending_order": cancelled}
)
ADA = Said("user", "I am Ada Byron, and my zip code is 73301.")
LISTED = Said("agent", hostile.listing(CANCEL))
AGREED = (ADA, LISTED, Said("user", YES))


@pytest.mark.parametrize(
    ("call", "said", "broken"),
    [
        (CANCEL, AGREED, ""),
        (CANCEL, (Said("user", "ada@EXAMPLE.org"), LISTED, Said("user", YES)), ""),
        (CANCEL, AGREED[1:], "nobody was authenticated"),
        (CANCEL, (Said("agent", ADA.text), *AGREED[1:]), "nobody was authenticated"),
        (CANCEL, (Said("user", "bo@example.org"), *AGREED[1:]), "it belongs to another user"),
        (CANCEL, (ADA, LISTED, Said("user", "Hm")), "the user did not say yes"),
        (CANCEL, (*AGREED, Said("write")), "the yes was used already"),
        (CANCEL, (ADA, Said("agent", "Fine?"), Said("user", YES)), "the details were not listed before the yes"),
        (Call(CANCEL.name, {**CANCEL.arguments, "reason": "ordered by mistake"}), AGREED,
         "other details were listed before the yes"),
        (Call(CANCEL.name, {**CANCEL.arguments, "reason": "a whim"}), AGREED, "it is no reason to cancel"),
        (Call(CANCEL.name, {**CANCEL.arguments, "order_id": "#W0000002"}), AGREED, "the order is not pending"),
        (RETURN, (ADA, Said("agent", hostile.listing(RETURN)), Said("user", YES)), ""),
        (Call(RETURN.name, {**RETURN.arguments, "item_ids": ["1200000001"] * 2}), AGREED,
         "an item is not in the order"),
        (Call(RETURN.name, {**RETURN.arguments, "payment_method_id": "paypal_2"}), AGREED,
         "it is no payment method of the user"),
    ],
)  # fmt: skip
def test_a_write_is_judged_by_the_policy(call: Call, said: Any, broken: str) -> None:
    assert violation(call, DATA, said) == broken


@pytest.mark.anyio
async def test_the_right_path_reaches_the_database_of_the_other_tools() -> None:
    assert await desk.right_path(RETAIL, RETAIL.tasks[0]) == "#W0000001"  # it forgets the refund
    other = RETAIL._replace(tasks=(tau.Task("1", "ada_byron_1", ()),))
    assert await desk.right_path(other, other.tasks[0]) == ""


@pytest.mark.anyio
async def test_the_hostile_agent_writes_what_is_forbidden_in_a_bare_loop_alone() -> None:
    rows = await hostile.count(RETAIL, RETAIL.tasks, seed=1, swaps=3)
    assert sum(row.get("ours forbidden", 0) for row in rows) == 0
    assert sum(row.get("ours allowed", 0) for row in rows) > 0
    loop = {row["kind"]: row.get("loop forbidden", 0) for row in rows}
    assert loop["without a yes"] == loop["after a no"] == loop["before authentication"] == 1
