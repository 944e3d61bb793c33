"""Gestures: each one changes its own lines, and every reference follows."""

import difflib
import json

import pytest

from llm_fsm.documents.discovery import definition_paths

FLOW = """\
{
  "name": "shop", // ours
  "initial_state": "ask",
  "x-team": {"mail":"a@b.c"},
  "states": {
    "ask": {
      "purpose": "Ask",
      "transitions": [
        {"target_state": "pay", "conditions": [{"logic": {"==": [{"var": "_previous_state"}, "pay"]}}]},
        {"target_state": "bye"}
      ]
    },
    "pay": {
      "purpose": "Pay",
      "on_timeout": "bye",
      "transitions": [
        {"target_state": "bye"}
      ]
    },
    "bye": {
      "reply": "Bye"
    }
  },
  "global_transitions": [
    {"target_state": "pay"}
  ],
  "properties": [{"never": "pay", "before": ["ask", "pay"]}],
  "x-lint": {"ignore": [{"rule": "no-exit", "at": "/states/pay/on_timeout"}]}
}
"""
WORK = """\
{
  "version": "2.0",
  "objective": "Report",
  "states": {
    "research": {"objective": "Find", "key_results": [{"name": "long", "description": "Long", "check": null}],
      "tools": ["search"], "is_initial": true},
    "writing": {"objective": "Write", "is_final": true}
  },
  "transitions": {
    "research": "writing",
    "writing": null
  },
  "graph_layout": {"research": {"x": 1.4, "y": 2}, "writing": [300, 0]}
}
"""


def changed(page, text, *gestures, path="shop.json"):
    """The lines that gestures remove and add, and the answer."""
    body = {"path": path, "text": text, "gestures": [{"gesture": one} for one in gestures]}
    answer = page.post("/patch", body)
    new = answer["text"]
    lines = list(difflib.ndiff(text.splitlines(), new.splitlines()))
    gone = [line[2:].strip() for line in lines if line[0] == "-"]
    come = [line[2:].strip() for line in lines if line[0] == "+"]
    return gone, come, answer


def test_adding_a_state_is_its_own_lines(page):
    value = {"purpose": "Where to?", "transitions": [{"target_state": "pay"}]}
    gone, come, answer = changed(
        page, FLOW, {"do": "add_state", "id": "where", "value": value, "after": "ask"}
    )
    assert gone == []
    lines = [
        '"where": {',
        '"purpose": "Where to?",',
        '"transitions": [{"target_state": "pay"}]',
        "},",
    ]
    assert sorted(come) == sorted(lines)
    assert [node["id"] for node in answer["checked"]["graph"]["nodes"]] == [
        "ask",
        "where",
        "pay",
        "bye",
    ]


def test_a_renaming_is_followed_by_every_reference(page):
    gone, come, answer = changed(page, FLOW, {"do": "rename_state", "id": "pay", "to": "till"})
    assert "pay" not in answer["text"]
    assert come == [line.replace("pay", "till") for line in gone]
    assert answer["text"].count("till") == FLOW.count("pay")


def test_deleting_a_state_takes_the_transitions_to_it(page):
    gone, come, _ = changed(page, FLOW, {"do": "delete_state", "id": "pay"})
    assert come == ['"global_transitions": [],']
    assert '{"target_state": "pay"}' in gone


def test_a_transition_is_added_deleted_and_led_elsewhere(page):
    added = {"do": "add_transition", "source": "pay", "target": "ask", "value": {"auto": True}}
    gone, come, _ = changed(page, FLOW, added)
    assert come == ['{"target_state": "bye"},', '{"target_state": "ask", "auto": true}']
    assert gone == ['{"target_state": "bye"}']
    gone, come, _ = changed(
        page, FLOW, {"do": "repoint", "pointer": "/states/ask/transitions/1", "target": "ask"}
    )
    assert (gone, come) == (['{"target_state": "bye"}'], ['{"target_state": "ask"}'])
    moved = {"do": "repoint", "pointer": "/states/ask/transitions/0", "source": "pay"}
    _, _, answer = changed(page, FLOW, moved)
    states = json.loads(answer["text"].replace("// ours", ""))["states"]
    assert [len(states[name]["transitions"]) for name in ("ask", "pay")] == [1, 2]
    assert states["pay"]["transitions"][1]["conditions"]
    gone, come, _ = changed(
        page, FLOW, {"do": "delete_transition", "pointer": "/states/ask/transitions/1"}
    )
    assert [line for line in gone if line.startswith('{"target_state": "bye"')]


def test_a_state_in_an_edge_leaves_the_condition_on_the_first_half(page):
    value = {"purpose": "Check"}
    inserted = {
        "do": "insert_state",
        "pointer": "/states/ask/transitions/0",
        "id": "check",
        "value": value,
    }
    _, _, answer = changed(page, FLOW, inserted)
    states = json.loads(answer["text"].replace("// ours", ""))["states"]
    assert states["ask"]["transitions"][0]["target_state"] == "check"
    assert states["ask"]["transitions"][0]["conditions"]
    assert states["check"] == {"purpose": "Check", "transitions": [{"target_state": "pay"}]}


def test_what_a_text_does_not_allow_is_refused_in_one_sentence(page):
    for one in (
        {"do": "add_state", "id": "pay"},
        {"do": "rename_state", "id": "pay", "to": "ask"},
        {"do": "delete_state", "id": "gone"},
        {"do": "delete", "pointer": "/nothing"},
        {"do": "insert_state", "pointer": "/name", "id": "pay"},
    ):
        body = {"path": "shop.json", "text": FLOW, "gestures": [{"gesture": one}]}
        assert page.post("/patch", body, status=422)["detail"].startswith(one["do"])


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "מצב", "🙂/~x", 'a"b'])
def test_names_of_any_kind_are_written_as_texts(page, name):
    _, _, answer = changed(page, FLOW, {"do": "rename_state", "id": "pay", "to": name})
    assert answer["checked"]["is_json"]
    assert name in [node["id"] for node in answer["checked"]["graph"]["nodes"]]


def test_every_shipped_definition_keeps_its_bytes_when_a_state_comes_and_goes(page):
    for name, path in list(definition_paths().items())[:6]:
        text = path.read_text()
        added = {"do": "add_state", "id": "zz_new", "value": {"purpose": "New", "transitions": []}}
        _, _, answer = changed(
            page, text, added, {"do": "delete_state", "id": "zz_new"}, path=f"{name}.json"
        )
        assert answer["text"] == text


def test_a_workflow_of_version_2_is_edited(page):
    _, _, answer = changed(
        page,
        WORK,
        {"do": "rename_state", "id": "writing", "to": "draft"},
        {"do": "add_transition", "source": "research", "target": "research", "label": "again"},
        {
            "do": "set",
            "pointer": "/states/research/key_results/-",
            "value": {"name": "cited", "description": "Cites"},
        },
        {"do": "insert_state", "pointer": "/transitions/research/default", "id": "check"},
    )
    document = json.loads(answer["text"])
    assert document["transitions"] == {
        "research": {"default": "check", "again": "research"},
        "draft": None,
        "check": "draft",
    }
    assert list(document["graph_layout"]) == ["research", "draft"]
    assert [one["name"] for one in document["states"]["research"]["key_results"]] == [
        "long",
        "cited",
    ]
    graph = answer["checked"]["graph"]
    assert answer["checked"]["kind"] == "workflow"
    assert {(edge["source"], edge["target"], edge["label"]) for edge in graph["edges"]} == {
        ("research", "check", "default"),
        ("research", "research", "again"),
        ("check", "draft", ""),
    }


def test_positions_of_a_workflow_are_those_of_its_file(page):
    page.put("/file", {"path": "w.json", "text": WORK, "base": None})
    opened = page.get("/file", path="w.json")
    assert opened["layout"]["positions"] == {
        "research": {"x": 1, "y": 2},
        "writing": {"x": 300, "y": 0},
    }
