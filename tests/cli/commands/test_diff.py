from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cli_command import Desk
from llm_fsm.session.session import Session, session_to_dict
from llm_fsm.stores.base import Commit
from llm_fsm.stores.registry import resolve
from shop import SHOP, drop_count, keys


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys, monkeypatch)


def changed(edit: Any) -> dict[str, Any]:
    document = copy.deepcopy(SHOP)
    edit(document)
    return document


async def filled(url: str, conversations: list[tuple[str, str, dict[str, Any], bool]]) -> None:
    store = resolve(url)
    for number, (name, state, context, ended) in enumerate(conversations):
        how = "final" if ended else None
        session = Session(conversation_id=f"c{number}", state=state, context=context, outcome=how)
        await store.save(
            Commit(
                conversation_id=f"c{number}", expected=0, session=json.dumps(session_to_dict(session)), record="{}",
                definition=name, state=state, ended=ended,
            )
        )  # fmt: skip
    await store.close()


def test_a_change_is_told_with_its_reason(desk: Desk) -> None:
    desk.write("old.json", SHOP)
    desk.write("new.json", changed(drop_count))
    done = desk.run("diff", "old.json", "new.json")
    assert done.code == 0
    assert done.out.splitlines() == [
        'strands      state "count" removed: conversations in it cannot be opened any more',
        'safe         transition from "ask" to "count" removed',
        'safe         transition from "ask" to "done" added',
        "3 changes: 1 strands, 0 need a map, 2 safe",
    ]


def test_live_conversations_are_counted_by_state_and_by_stored_value(desk: Desk) -> None:
    def edit(document: dict[str, Any]) -> None:
        drop_count(document)
        keys(document)["item"]["maxLength"] = 5

    desk.write("old.json", SHOP)
    desk.write("new.json", changed(edit))
    conversations = [
        ("shop", "count", {"item": "lamp"}, False),
        ("shop", "count", {"item": "wardrobe"}, False),
        ("shop", "ask", {"item": "wardrobe"}, False),
        ("shop", "ask", {}, False),
        ("shop", "done", {"item": "wardrobe"}, True),
        ("other", "count", {}, False),
    ]
    asyncio.run(filled("sqlite:///bots.db", conversations))
    done = desk.run(
        "diff", "old.json", "new.json", "--conversations", "sqlite:///bots.db", "--format", "json"
    )
    report = json.loads(done.out)
    assert report["conversations"] == {"live": 4, "touched": 3}
    counted = {change["message"][:13]: change["conversations"] for change in report["changes"]}
    assert counted == {'state "count"': 2, "schema of key": 2, "transition fr": 0}
    text = desk.run("diff", "old.json", "new.json", "--conversations", "bots.db").out
    assert "4 conversations under way, 3 of them touched" in text
    assert "any more (2 conversations)" in text


def test_markdown_is_a_table_in_which_nothing_is_markup(desk: Desk) -> None:
    desk.write("old.json", SHOP)
    desk.write("new.json", changed(lambda document: document.update(persona="<b>|x|</b>")))
    done = desk.run("diff", "old.json", "new.json", "--format", "markdown")
    assert done.out.splitlines() == [
        "### old.json → new.json",
        "",
        "1 change: 0 strand, 0 need a map, 1 safe.",
        "",
        "| Mark | Change | Why |",
        "|---|---|---|",
        '| safe | "persona" changed from "" to "\\<b\\>\\|x\\|\\</b\\>" |  |',
    ]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("old.json", "old.json", "--exit-code"), 0),
        (("old.json", "new.json"), 0),
        (("old.json", "new.json", "--exit-code"), 1),
        (("old.json", "bad.json"), 1),
        (("old.json", "none.json"), 2),
        (("old.json",), 2),
        (("old.json", "new.json", "--conversations", "none.db"), 4),
        (("old.json", "new.json", "--conversations", "nonsense://x"), 2),
    ],
)
def test_exit_codes(desk: Desk, arguments: tuple[str, ...], code: int) -> None:
    desk.write("old.json", SHOP)
    desk.write("new.json", changed(drop_count))
    desk.write("bad.json", {"states": 3})
    assert desk.run("diff", *arguments).code == code


def test_the_same_definition_says_so(desk: Desk) -> None:
    desk.write("old.json", SHOP)
    assert desk.run("diff", "old.json", "old.json").out == "old.json and old.json mean the same\n"


def test_changes_of_what_is_called_are_told_with_its_name(desk: Desk) -> None:
    outer = {
        "name": "outer",
        "initial_state": "call",
        "states": {"call": {"kind": "subflow", "flow": "inner.json"}},
    }
    inner = {
        "name": "inner",
        "initial_state": "ask",
        "states": {
            "ask": {"purpose": "What?", "transitions": [{"target_state": "end"}]},
            "end": {},
        },
    }
    for folder, purpose in (("a", "What?"), ("b", "Which?")):
        (desk.folder / folder).mkdir()
        desk.write(f"{folder}/outer.json", outer)
        desk.write(f"{folder}/inner.json", json.dumps(inner).replace("What?", purpose))
    assert 'in "inner.json": ' in desk.run("diff", "a/outer.json", "b/outer.json").out
    (desk.folder / "b" / "inner.json").unlink()
    done = desk.run("diff", "a/outer.json", "b/outer.json")
    assert (done.code, done.out) == (0, "a/outer.json and b/outer.json mean the same\n")
    assert "it was not compared" in done.err


def test_a_store_that_is_none_is_told_by_the_option_that_named_it(desk: Desk) -> None:
    desk.write("old.json", SHOP)
    done = desk.run("diff", "old.json", "old.json", "--conversations", "nonsense")
    assert (done.code, done.out) == (2, "")
    assert '--conversations: unknown store "nonsense"' in done.err
