"""The playground: talk, look into a turn, step back, fork, play again, save a test that passes."""

import json

import pytest

from llm_fsm import Machine
from llm_fsm.cli import main
from llm_fsm.editor.folder import Folder
from llm_fsm.editor.studio import Studio
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.registry import resolve

FLOW = {
    "name": "ages",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {"age": {"type": "integer"}, "pin": {"x-secret": True}},
    },
    "states": {
        "ask": {
            "purpose": "Ask for the age",
            "required_context_keys": ["age"],
            "transitions": [
                {
                    "target_state": "adult",
                    "description": "The user is an adult",
                    "conditions": [{"logic": {">=": [{"var": "age"}, 18]}}],
                },
                {"target_state": "minor", "conditions": [{"logic": {"<": [{"var": "age"}, 18]}}]},
            ],
        },
        "adult": {"reply": "Welcome."},
        "minor": {"reply": "Come back later."},
    },
}
TEXT = json.dumps(FLOW, indent=2)
REPLIES = [
    {"message": "How old are you?"},
    {
        "transition": {"target_state": "ask", "context_update": {}},
        "message": "And how old is that?",
    },
    {"transition": {"target_state": "adult", "context_update": {"age": 36}}, "message": "Fine."},
    {"transition": {"target_state": "minor", "context_update": {"age": 7}}, "message": "Oh."},
]


def started(page, **more):
    return page.post(
        "/talks",
        {"path": "ages.json", "text": TEXT, "model": "scripted", "replies": REPLIES, **more},
    )


def events_of(answer):
    """The events of a stream: each name with its data."""
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def said(page, talk, body, route="messages"):
    """The conversation after a message, or the problem."""
    answer = page.client.post(f"/api/talks/{talk['id']}/{route}", json=body)
    assert answer.status_code == 200, answer.text
    name, data = events_of(answer)[-1]
    return data[name]


def test_a_conversation_is_held_and_each_turn_says_why(page):
    talk = started(page)
    assert (talk["state"], [turn["text"] for turn in talk["turns"]]) == (
        "ask",
        ["How old are you?"],
    )
    said(page, talk, {"text": "Old enough"})
    talk = said(page, talk, {"text": "36"})
    assert (talk["state"], talk["ended"], talk["context"]) == ("adult", True, {"age": 36})
    assert talk["turns"][2]["edges"] == ["/states/ask/transitions/0"]
    told = page.get(f"/talks/{talk['id']}/turns/2")
    decided = next(note for note in told["why"]["notes"] if note["type"] == "MoveDecision")
    assert [(one["target"], one["holds"], one["taken"]) for one in decided["candidates"]] == [
        ("adult", True, True),
        ("minor", False, False),
    ]
    assert decided["candidates"][0]["checks"][0]["values"] == {"age": 36}
    assert "36" in json.dumps(told["calls"][0]["messages"])
    assert json.loads(told["calls"][0]["reply"])["transition"]["target_state"] == "adult"
    assert (told["before"], told["after"]) == ({}, {"age": 36})
    assert told["changed"] == [
        {"key": "age", "before": None, "after": 36, "source": "model", "quote": None}
    ]


def test_words_are_streamed_and_the_conversation_comes_last(page):
    talk = started(page)
    events = events_of(page.client.post(f"/api/talks/{talk['id']}/messages", json={"text": "Hm"}))
    assert (
        "".join(data["delta"] for name, data in events if name == "delta") == "And how old is that?"
    )
    assert events[-1][0] == "talk"
    assert events[-1][1]["talk"]["turns"][1]["text"] == "And how old is that?"


def test_stepping_back_forks_and_an_edited_message_goes_on(page):
    talk = started(page)
    said(page, talk, {"text": "Old enough"})
    said(page, talk, {"text": "36"})
    fork = page.post(f"/talks/{talk['id']}/fork", {"turn": 1, "message": "thirty-six"})
    assert [turn["user"] for turn in fork["turns"]] == [None, "Old enough", "thirty-six"]
    assert (fork["state"], fork["forked_from"]) == ("adult", talk["id"])
    again = page.post(f"/talks/{talk['id']}/fork", {"turn": 0})
    assert (again["state"], len(again["turns"]), again["ended"]) == ("ask", 1, False)
    kept = page.get(f"/talks/{talk['id']}")
    assert len(kept["turns"]) == 3


def test_an_edited_definition_shows_the_first_difference(page):
    talk = started(page)
    said(page, talk, {"text": "Old enough"})
    said(page, talk, {"text": "36"})
    assert page.post(f"/talks/{talk['id']}/replay", {"path": "ages.json", "text": TEXT})["same"]
    stricter = TEXT.replace("18", "40")
    answer = page.post(f"/talks/{talk['id']}/replay", {"path": "ages.json", "text": stricter})
    assert (answer["same"], answer["first"]["turn"]) == (False, 2)
    assert answer["reworded"] == []
    polite = TEXT.replace("Ask for the age", "Kindly ask for the age")
    answer = page.post(f"/talks/{talk['id']}/replay", {"path": "ages.json", "text": polite})
    assert answer["same"]
    assert [one.split(" from ")[0] for one in answer["reworded"]] == [
        '"purpose" of state "ask" reworded'
    ]
    asked = {"path": "ages.json", "text": polite, "model": "offline"}
    assert page.post(f"/talks/{talk['id']}/replay", asked)["same"]
    broken = page.post(f"/talks/{talk['id']}/replay", {"path": "ages.json", "text": "{"})
    assert "cannot run yet" in broken["reason"]


def test_a_conversation_becomes_a_test_that_the_command_passes(page):
    page.put("/file", {"path": "ages.json", "text": TEXT, "base": None})
    talk = started(page)
    said(page, talk, {"text": "Old enough"})
    said(page, talk, {"text": "36"})
    saved = page.post(f"/talks/{talk['id']}/test", {"name": "an adult"})
    assert (saved["path"], saved["name"], saved["passed"]) == ("ages.test.json", "an adult", True)
    assert page.post(f"/talks/{talk['id']}/test", {"name": "an adult"})["name"] == "an adult (2)"
    ran = page.post("/tests", {"path": "ages.json"})
    assert (ran["passed"], ran["failed"]) == (2, 0)
    assert "/states/adult" in ran["covered"]
    assert "/states/minor" in ran["missed"]
    draft = page.post("/tests", {"path": "ages.json", "text": TEXT.replace("18", "40")})
    assert draft["failed"] == 2
    assert [name.name for name in page.folder.iterdir() if name.name.startswith(".")] == []
    assert main(["test", str(page.folder), "-q", "-p", "no:cacheprovider"]) == 0


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": "openai/gpt-4o"}, 422, "was not named"),
        ({"text": "{"}, 422, "cannot run yet"),
        ({"state": "gone"}, 422, "gone"),
        ({"path": "../a.json"}, 403, "below the folder"),
    ],
)
def test_what_cannot_begin_says_why(page, body, status, words):
    given = {"path": "ages.json", "text": TEXT, "model": "scripted", "replies": REPLIES, **body}
    assert words in page.post("/talks", given, status=status)["detail"]


def test_a_conversation_without_further_replies_says_so_and_goes_on_later(page):
    talk = page.post(
        "/talks", {"path": "a.json", "text": TEXT, "model": "scripted", "replies": REPLIES[:1]}
    )
    problem = said(page, talk, {"text": "36"})
    assert (problem["status"], "repl" in problem["detail"]) == (503, True)
    assert len(page.get(f"/talks/{talk['id']}")["turns"]) == 1
    assert page.post("/talks/unknown/messages", {"text": "36"}, status=404)["detail"]


def test_pauses_are_forms_and_choices_are_buttons(page):
    flow = {
        "name": "desk",
        "initial_state": "size",
        "context_schema": {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}},
        "states": {
            "size": {
                "purpose": "Which size?",
                "required_context_keys": ["size"],
                "choices": ["small", "large"],
                "transitions": [
                    {
                        "target_state": "boss",
                        "conditions": [{"requires_context_keys": ["size"]}],
                        "auto": True,
                    }
                ],
            },
            "boss": {
                "kind": "wait",
                "wait_for": "approval",
                "answer_schema": {
                    "type": "object",
                    "properties": {"approved": {"type": "boolean"}},
                },
                "transitions": [{"target_state": "done"}],
            },
            "done": {"reply": "Done."},
        },
    }
    body = {"path": "desk.json", "text": json.dumps(flow), "model": "offline"}
    talk = page.post("/talks", body)
    assert [choice["label"] for choice in talk["choices"]] == ["small", "large"]
    gone = page.client.post(f"/api/talks/{talk['id']}/messages", json={"choice": "huge"})
    assert gone.status_code == 409
    talk = said(page, talk, {"choice": "large"})
    assert talk["context"]["size"] == "large"
    assert (talk["paused"]["kind"], talk["paused"]["state"]) == ("wait", "boss")
    assert talk["paused"]["answer_schema"]["properties"]["approved"] == {"type": "boolean"}
    talk = said(page, talk, {"value": {"approved": True}}, "answers")
    assert (talk["state"], talk["ended"], talk["turns"][-1]["by"]) == ("done", True, "answer")


def test_a_stored_conversation_is_read_only_until_it_is_forked(tmp_path, serving):
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    with Machine.from_dict(FLOW, model=ScriptedLLM(REPLIES), store=store) as machine:
        chat = machine.start(conversation_id="c1")
        chat.send("Old enough")
        chat.send("36")
    before = (tmp_path / "bots.db").read_bytes()
    folder = tmp_path / "bots"
    folder.mkdir()
    with serving(Studio(folder=Folder(folder), store=lambda: resolve(store))) as page:
        page.put("/file", {"path": "ages.json", "text": TEXT, "base": None})
        [row] = page.get("/stored", words="AGES")["conversations"]
        assert (row["id"], row["state"], row["ended"]) == ("c1", "adult", True)
        assert 0 < row["created"] <= row["updated"]
        assert page.get("/stored", words="minor")["conversations"] == []
        talk = page.get("/conversation", id="c1")
        assert (talk["read_only"], talk["is_stale"], len(talk["turns"])) == (True, False, 3)
        assert (talk["path"], talk["source"]) == ("ages.json", "stored")
        assert talk["version"] == TEXT
        assert row["outcome"] == "final"
        assert page.get(f"/talks/{talk['id']}/turns/2")["why"]["arrived"] == "adult"
        page.post(f"/talks/{talk['id']}/messages", {"text": "hi"}, status=409)
        fork = page.post(f"/talks/{talk['id']}/fork", {"turn": 1})
        assert (fork["read_only"], fork["state"]) == (False, "ask")
        said(page, fork, {"text": "I am 36"})
        figures = page.post("/overlays", {"path": "ages.json", "text": TEXT})
        visits = {flow["pointer"]: flow["visits"] for flow in figures["flows"]}
        assert figures["conversations"] == 1
        assert (
            visits["/states/ask"],
            visits["/states/adult"],
            visits["/states/ask/transitions/0"],
        ) == (1, 1, 1)
    assert (tmp_path / "bots.db").read_bytes() == before


def test_a_stored_conversation_with_subflows_is_read_without_its_files_and_says_which_are_missing(
    tmp_path, serving
):
    shop = {
        "name": "shop",
        "initial_state": "pay",
        "states": {
            "pay": {
                "kind": "subflow",
                "flow": "flows/pay.json",
                "transitions": [{"target_state": "done"}],
            },
            "done": {"reply": "Thank you."},
        },
    }
    pay = {**FLOW, "name": "pay"}
    made, folder = tmp_path / "made", tmp_path / "bots"
    for place in (made / "flows", folder):
        place.mkdir(parents=True)
    (made / "shop.json").write_text(json.dumps(shop))
    (made / "flows" / "pay.json").write_text(json.dumps(pay))
    store = f"sqlite:///{tmp_path / 'bots.db'}"
    with Machine.from_file(made / "shop.json", model=ScriptedLLM(REPLIES), store=store) as machine:
        chat = machine.start(conversation_id="c1")
        chat.send("Old enough")
    with serving(Studio(folder=Folder(folder), store=lambda: resolve(store))) as page:
        talk = page.get("/conversation", id="c1")
        assert [turn["text"] for turn in talk["turns"]] == [
            "How old are you?",
            "And how old is that?",
        ]
        assert (talk["definition"], talk["state"], talk["read_only"]) == ("shop", "ask", True)
        assert "no file of this folder has the name 'shop'" in talk["not_forked"]
        assert "flows/pay.json" in talk["not_forked"]
        assert page.get(f"/talks/{talk['id']}/turns/1")["why"]["state"] == "ask"
        page.post(f"/talks/{talk['id']}/fork", {"turn": 1}, status=422)
        refused = page.post(f"/talks/{talk['id']}/test", {"name": "a test"}, status=422)
        assert "add the file first" in refused["detail"]
        assert list(folder.iterdir()) == []
        (folder / "shop.json").write_text(json.dumps(shop))
        again = page.get("/conversation", id="c1")
        assert again["not_forked"].startswith(
            "shop.json: the definition cannot run yet: 'flows/pay.json'"
        )
        (folder / "flows").mkdir()
        (folder / "flows" / "pay.json").write_text(json.dumps(pay))
        fork = page.post(f"/talks/{talk['id']}/fork", {"turn": 0})
        assert (fork["path"], fork["state"], fork["read_only"]) == ("shop.json", "ask", False)
        assert page.get("/conversation", id="c1")["not_forked"] is None
