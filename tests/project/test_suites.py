"""The suites read the form of foreign sets, play them, and judge writes. The samples are our own."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import bare_prompt, desk, hostile, sgd, star, tau
from benchmarks.suites.__main__ import main
from benchmarks.suites.files import Unusable, read
from benchmarks.suites.play import judged, play
from benchmarks.suites.policy import YES, Call, Said, violation
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing import reply, serve_scripted

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


# -- the bare prompt

RIGHT = [
    {"state": "FindBoat", "values": {"city": "Ulm"}},
    'Sure:\n```json\n{"state": "FindBoat", "values": {}}\n```',
    {"state": "RentBoat", "values": {"date": "2019-03-03", "seats": "dontcare", "oars": "two"}},
    {"state": "NONE", "values": None},
]


def test_right_answers_to_the_bare_prompt_reach_every_label(boats: Path) -> None:
    [part] = sgd.parts(boats, renamed=False)
    model = ScriptedLLM(RIGHT)
    turns = judged(bare_prompt.play(part, model))
    assert [turn.why for turn in turns] == [""] * 4
    last = model.requests[2].messages
    roles = [message.role for message in last]
    assert roles == ["system", *["user", "assistant"] * 2, "user"]
    assert '{"state": "FindBoat", "values": {"city": "Ulm"}}' in last[-1].content
    assert {request.messages[0].content for request in model.requests} == {last[0].content}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"state": "RentBoat", "values": {"city": "Ulm"}}, "the state should be FindBoat"),
        ({"state": "FindBoat", "values": {"city": "Bonn"}}, "wrong: city; harmful: city"),
        ({"state": "FindBoat"}, "wrong: city"),
        ({"state": "FindBoat", "values": {"city": "Ulm", "seats": 2}}, "invented: seats; harmful: seats"),
        ({"state": "FindBoat", "values": ["Ulm"]}, "the reply is no JSON of that form"),
        ("Ulm it is", "no JSON of that form: Ulm it is; the state should be FindBoat; wrong: city"),
    ],
)  # fmt: skip
def test_a_wrong_answer_to_the_bare_prompt_is_judged_and_does_not_spoil_the_next(
    boats: Path, answer: Any, why: str
) -> None:
    [part] = sgd.parts(boats, renamed=False)
    first, *rest = judged(bare_prompt.play(part, ScriptedLLM([answer, *RIGHT[1:]])))
    assert why in first.why
    assert [turn.why for turn in rest] == [""] * 3


def test_the_bare_prompt_shows_the_last_exchanges_of_a_long_chat(boats: Path) -> None:
    talk = copy.deepcopy(TALK)
    middle = []
    for number in range(12):
        middle += [user(f"Word {number}", "FindBoat", [], city=["Ulm"]), system("Yes.")]
    talk["turns"][2:2] = middle
    (boats / "Boats_1.json").write_text(json.dumps([talk]))
    [part] = sgd.parts(boats, renamed=False)
    model = ScriptedLLM([RIGHT[0], *[RIGHT[1]] * 13, *RIGHT[2:]])
    bare_prompt.play(part, model)
    sizes = [len(request.messages) // 2 - 1 for request in model.requests]
    assert sizes == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5]


@pytest.mark.parametrize("bare", [[], ["--bare"]])
def test_the_figures_of_each_turn_are_printed_while_a_model_is_played(
    boats: Path, bare: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = [reply("FindBoat", "Yes.", city="Ulm"), reply("FindBoat", "Yes.")]
    with serve_scripted(RIGHT[:2] if bare else machine) as server:
        asked = ["--base-url", server.base_url, "--model", "any", "--turns", "2", *bare]
        assert main(["sgd", str(boats), *asked]) == 0
        assert server.remaining == 0
    told = capsys.readouterr()
    assert [line.partition(";")[0] for line in told.err.splitlines()] == [
        "Boats_1 1: joint goal 1, state 1, values 1 of 1",
        "Boats_1 2: joint goal 2, state 2, values 2 of 2",
    ]
    assert "| Boats_1 | 1 | 2 | 2 of 2 (100.0 %) |" in told.out
    assert "tokens in" in told.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["star", ".", "--bare"], "--bare is for sgd"),
        (["sgd", ".", "--bare"], "--bare needs a model"),
        (["sgd", ".", "--bare", "--model", "any", "--reply", "prompt"], "leave out --reply"),
        (["tau", ".", "--bare"], "--bare is for sgd"),
        (["sgd", ".", "--reader"], "--reader plays a task of tau"),
        (["tau", ".", "--reader", "--task", "1"], "--reader needs --base-url, --user-url, --out"),
    ],
)
def test_options_that_do_not_fit_are_named(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert said in capsys.readouterr().err


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
