"""`llm-fsm conversations migrate` and `replay`: what a changed definition does to conversations,
before it does it.
"""

from __future__ import annotations

import copy
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli_command import ASKS, BYE, GREETER, HELLO, Desk, desk
from llm_fsm.engine.sync import Machine
from llm_fsm.llm.scripted import ScriptedLLM

__all__ = ["desk"]
DB = ("--db", "sqlite:///bots.db")


def talked(desk: Desk) -> None:
    """Two conversations: one that has ended, one that is under way."""
    for name, replies in (("over", [HELLO, BYE]), ("live", [HELLO, ASKS])):
        with Machine.from_dict(
            GREETER, model=ScriptedLLM(replies), store="sqlite:///bots.db"
        ) as machine:
            machine.start({"age": 17}, conversation_id=name).send("I'm Ada")


def renamed(desk: Desk) -> None:
    """`new.json`: another name for the first state, and for a key."""
    new: dict[str, Any] = copy.deepcopy(GREETER)
    new["initial_state"] = "welcome"
    new["states"]["welcome"] = new["states"].pop("hello")
    new["context_schema"]["properties"]["years"] = new["context_schema"]["properties"].pop("age")
    new["states"]["welcome"]["transitions"][1]["conditions"][0]["logic"] = {
        ">=": [{"var": "years"}, 18]
    }
    desk.write("new.json", new)
    desk.write("map.json", {"states": {"hello": "welcome"}, "keys": {"age": "years"}})


def test_migration_is_shown_first_and_done_when_asked_for(desk: Desk) -> None:
    talked(desk)
    renamed(desk)
    command = ("conversations", "migrate", "new.json", *DB)
    without = desk.run(*command)
    assert (without.code, without.out) == (
        0,
        "live: stays: the definition has no state 'hello' any more, and the map names no other\n",
    )
    assert "0 conversations can be carried over, 1 stays as begun; --apply does it" in without.err
    shown = desk.run(*command, "--map", "map.json")
    assert (shown.code, shown.out) == (0, "live: hello → welcome; age → years\n")
    as_json = json.loads(desk.run(*command, "--map", "map.json", "--json").out)
    assert as_json == {
        "applied": False,
        "conversations": [
            {
                "id": "live",
                "state": "hello",
                "to": "welcome",
                "keys": {"age": "years"},
                "dropped": [],
            }
        ],
    }
    assert "1 conversation carried over" in desk.run(*command, "--map", "map.json", "--apply").err
    assert "goes on under the definition" in desk.run("conversations", "show", "live", *DB).out
    assert "follows it as it is" in desk.run(*command, "--map", "map.json", "--apply").err
    with Machine.from_file("new.json", model=ScriptedLLM([]), store="sqlite:///bots.db") as machine:
        chat = machine.resume("live")
        assert (chat.state, chat.context) == ("welcome", {"years": 17})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"age": "years", "name": "years"}, "the keys 'age' and 'name' would be one"),
        ({"age": "name"}, "the keys 'name' and 'age' would be one"),
        ({"age": "name", "name": "age"}, ""),
        ({"age": "name", "name": None}, ""),
    ],
)
def test_conversation_in_which_two_values_would_come_to_one_key_stays_as_it_was_begun(
    desk: Desk, keys: dict[str, Any], says: str
) -> None:
    talked(desk)
    with Machine.from_dict(
        GREETER, model=ScriptedLLM([ASKS]), store="sqlite:///bots.db"
    ) as machine:
        machine.start({"age": 17, "name": "Eve"}, conversation_id="both", greet=False)
    free = {key: value for key, value in GREETER.items() if key != "context_schema"}
    desk.write("free.json", free)
    desk.write("map.json", {"keys": keys})
    found = desk.run("conversations", "migrate", "free.json", "--map", "map.json", "--json", *DB)
    whole = {one["id"]: one.get("stays") for one in json.loads(found.out)["conversations"]}
    assert (whole["both"] or "").startswith(says)
    assert (whole["both"] is None) is (not says)


def test_damaged_conversation_keeps_no_other_from_being_carried_over(desk: Desk) -> None:
    talked(desk)
    with Machine.from_dict(
        GREETER, model=ScriptedLLM([ASKS]), store="sqlite:///bots.db"
    ) as machine:
        machine.start({"age": 18}, conversation_id="a", greet=False)
    with closing(sqlite3.connect(desk.folder / "bots.db")) as database, database:
        database.execute("update conversations set session = '[]' where id = 'live'")
    renamed(desk)
    done = desk.run("conversations", "migrate", "new.json", "--map", "map.json", "--apply", *DB)
    assert (done.code, sorted(line.partition(": ")[0] for line in done.out.splitlines())) == (
        4,
        ["a", "live"],
    )
    assert "a: hello → welcome" in done.out
    assert "live: stays: a stored conversation cannot be read" in done.out
    assert "1 conversation carried over, 1 stays as begun" in done.err


def test_replay_tells_which_conversations_go_another_way(desk: Desk) -> None:
    talked(desk)
    same = desk.run("conversations", "replay", "greeter.json", *DB)
    assert (same.code, same.out) == (0, "")
    assert "2 conversations, 4 turns played: all go the same way" in same.err
    strict = copy.deepcopy(GREETER)
    strict["states"]["hello"]["transitions"][0]["conditions"] = [
        {"logic": {"==": [{"var": "name"}, "Eve"]}}
    ]
    desk.write("strict.json", strict)
    differs = desk.run("conversations", "replay", "strict.json", *DB)
    assert (differs.code, differs.out) == (1, "over: turn 1: state: bye → hello\n")
    assert "1 go another way (1 by state)" in differs.err
    one = desk.run("conversations", "replay", "strict.json", "live", "--json", *DB)
    assert one.code == 0
    assert json.loads(one.out) == {
        "conversations": [{"conversation_id": "live", "turns": 2, "divergence": None}],
        "turns": 2,
        "diverging": 0,
        "by": {},
    }
    other = desk.run(
        "conversations", "replay", "greeter.json", "over", *desk.replies(HELLO, ASKS), *DB
    )
    assert (other.code, other.out) == (1, "over: turn 1: state: bye → hello\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("migrate", "greeter.json", "--map", "none.json"), "'none.json' does not exist"),
        (("migrate", "greeter.json", "--map", "bad.json"), "'stats' is neither states nor keys"),
        (
            ("migrate", "greeter.json", "--map", "list.json"),
            "list.json: one JSON object is needed, not an empty list",
        ),
        (("migrate", "greeter.json", "--map", "latin.json"), "latin.json: is not UTF-8 at byte 3"),
        (
            ("migrate", "greeter.json", "--map", "twice.json"),
            "twice.json: the key 'age' stands in line 2 a second",
        ),
        (("migrate", "nothing.json"), "nothing.json: there is no such file"),
        (("replay", "greeter.json", "nobody"), "there is no conversation 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    desk: Desk, arguments: tuple[str, ...], says: str
) -> None:
    talked(desk)
    desk.write("bad.json", {"stats": {}})
    desk.write("latin.json", b'{"\xe9": 1}')
    desk.write("list.json", [])
    desk.write("twice.json", b'{"keys": {"age": "years",\n "age": null}}')
    done = desk.run("conversations", *arguments, *DB)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_store_that_does_not_exist_yet_has_nothing_to_migrate_or_replay(desk: Desk) -> None:
    for command in ("migrate", "replay"):
        assert desk.run("conversations", command, "greeter.json").code == 0
    assert not Path("home").exists()
