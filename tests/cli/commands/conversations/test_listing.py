"""`conversations`: list, show, delete."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from cli_command import ASKS, BYE, HELLO, TO_BAR, Desk, Done, desk
from llm_fsm import Machine
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.commands.conversations.listing import _listed
from llm_fsm.cli.stores import shortest
from llm_fsm.stores.base import Commit, Listed, ListQuery
from llm_fsm.stores.memory import MemoryStore

__all__ = ["desk"]


def talk(desk: Desk, name: str, *replies: object, said: bytes = b"") -> None:
    assert (
        desk.run("chat", "greeter.json", "--id", name, *desk.replies(*replies), stdin=said).code
        == 0
    )


def test_a_place_where_nobody_may_look_is_not_taken_for_an_empty_one(desk: Desk) -> None:
    def denied(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    desk.patch.setattr("os.lstat", denied)
    (desk.folder / "home").write_text("no folder", encoding="utf-8")
    done = desk.run("conversations", "list")
    assert done.code == exits.STORE
    assert "there are no conversations yet" not in done.err


def test_a_user_without_a_home_is_told_what_to_set(desk: Desk) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    desk.patch.setattr(Path, "home", staticmethod(homeless))
    desk.patch.delenv("LLM_FSM_HOME")
    wanted = "this user has no home folder: set HOME or LLM_FSM_HOME to a folder, or name a place with --db"
    for arguments in (("conversations", "list"), ("chat", "greeter.json", "--model", "offline")):
        assert desk.run(*arguments) == Done(exits.STORE, "", f"llm-fsm: error: {wanted}\n")
    assert desk.run("conversations", "list", "--db", "x.db").code == exits.STORE
    assert desk.run("chat", "greeter.json", "--model", "offline", "--db", "memory").code == exits.OK
    desk.patch.setenv("LLM_FSM_HOME", "here")
    assert desk.run("chat", "greeter.json", "--model", "offline").code == exits.OK


def test_before_the_first_conversation_there_is_nothing_and_nothing_is_made(desk: Desk) -> None:
    done = desk.run("conversations", "list")
    assert (done.code, done.out, done.err) == (0, "", "llm-fsm: there are no conversations yet\n")
    assert json.loads(desk.run("conversations", "list", "--json").out) == {"conversations": []}
    assert not Path("home").exists()


def test_the_list_begins_with_the_one_used_last(desk: Desk) -> None:
    talk(desk, "b", HELLO)
    talk(desk, "a", HELLO, BYE, said=b"Ada\n")
    talk(desk, "c", HELLO)
    done = desk.run("conversations", "list")
    head, *rows = done.out.splitlines()
    assert head.split() == ["id", "definition", "state", "turns", "last", "used", "(UTC)"]
    assert [row.split()[0] for row in rows] == ["c", "a", "b"]
    assert "bye (ended)" in rows[1]
    assert done.err == ""


def test_the_limit_is_a_limit_and_the_rest_is_counted(desk: Desk) -> None:
    for name in "abc":
        talk(desk, name, HELLO)
    done = desk.run("conversations", "list", "--json", "--limit", "1")
    assert [item["id"] for item in json.loads(done.out)["conversations"]] == ["c"]
    assert done.err == "llm-fsm: 2 more; --limit shows them\n"
    assert desk.run("conversations", "list", "--limit", "0").code == 2


def test_a_listing_reads_what_it_shows_and_counts_the_rest(desk: Desk) -> None:
    """A store may hold a million conversations; a store that is asked tells how many lines were
    read.
    """
    read: list[int] = []

    class Counting(MemoryStore):
        async def list(self, query: ListQuery) -> Sequence[Listed]:
            found = await super().list(query)
            read.append(len(found))
            return found

    store = Counting()

    async def filled() -> None:
        for number in range(300):
            await store.save(
                Commit(conversation_id=f"c{number}", expected=0, session="{}", record="{}")
            )

    asyncio.run(filled())
    listing = asyncio.run(_listed(store, ListQuery(limit=5, order="-updated"), 5, names=True))
    assert (len(listing.shown), listing.total) == (5, 300)
    assert sum(read) <= 20


def test_the_beginning_of_an_id_will_do_where_no_other_begins_so(desk: Desk) -> None:
    for name in ("ada", "adam", "bob"):
        talk(desk, name, HELLO)
    assert desk.run("conversations", "show", "b") == desk.run("conversations", "show", "bob")
    assert desk.run("conversations", "show", "ada").code == 0
    said = "llm-fsm: error: several conversations begin with 'ad': 'ada', 'adam'\n"
    assert desk.run("conversations", "show", "ad") == Done(2, "", said)
    assert (
        desk.run("conversations", "fork", "bo", "bertha").err
        == "llm-fsm: bertha is a copy of bob\n"
    )
    assert json.loads(desk.run("conversations", "export", "be").out)["conversation"] == "bertha"
    assert desk.run("conversations", "delete", "be", "--yes").err == "llm-fsm: deleted bertha\n"
    assert (
        desk.run("chat", "greeter.json", "--resume", "bo", *desk.replies(BYE), stdin=b"Ada").out
        == "Bye Ada.\n"
    )


def test_the_last_conversation_needs_no_id(desk: Desk) -> None:
    for last in ("show", "chat"):
        option = (
            ("conversations", "show", "--last")
            if last == "show"
            else ("chat", "--last", "--model", "offline")
        )
        done = desk.run(*option)
        assert (done.code, done.err) == (
            2,
            "llm-fsm: error: there is no conversation in this store yet\n",
        )
    talk(desk, "a", HELLO)
    talk(desk, "b", HELLO)
    assert desk.run("chat", "greeting", "--id", "c", "--model", "offline").code == 0
    assert desk.run("conversations", "show", "--last") == desk.run("conversations", "show", "c")
    assert desk.run("chat", "--last", "--model", "offline", stdin=b"I am Ada").code == 0
    assert "Ada" in desk.run("conversations", "show", "c").out
    assert (
        desk.run("chat", "greeter.json", "--last", *desk.replies(BYE), stdin=b"Ada").out
        == "Bye Ada.\n"
    )
    assert "Bye Ada." in desk.run("conversations", "show", "b").out
    assert desk.run("chat", "quiz", "--last", "--model", "offline").err.endswith(
        "of 'quiz' in this store yet\n"
    )


def test_a_new_conversation_has_an_id_that_is_easy_to_type(desk: Desk) -> None:
    assert desk.run("chat", "greeter.json", *desk.replies(HELLO)).code == 0
    [item] = json.loads(desk.run("conversations", "list", "--json").out)["conversations"]
    assert re.fullmatch("[a-z2-9]{8}", item["id"])


def test_a_listed_conversation_in_json(desk: Desk) -> None:
    talk(desk, "ä / \u200f", HELLO)
    [item] = json.loads(desk.run("conversations", "list", "--json").out)["conversations"]
    assert {name: item[name] for name in ("id", "definition", "state", "ended", "turns")} == {
        "id": "ä / \u200f",
        "definition": "greeter",
        "state": "hello",
        "ended": False,
        "turns": 1,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", item["created"])


def test_show_goes_turn_by_turn(desk: Desk) -> None:
    talk(desk, "x", HELLO, TO_BAR, ASKS, BYE, said="drink\u202e\nAda\n".encode())
    done = desk.run("conversations", "show", "x")
    assert done.code == 0
    assert [line for line in done.out.splitlines() if not line.startswith("turn")] == [
        "  machine: Hello!",
        "",
        "  user: drink\\u202e",
        "  machine: Your name?",
        "  set: age, pin",
        "",
        "  user: Ada",
        "  machine: Bye Ada.",
        "  hello → bye (model)",
        "  set: name",
    ]
    assert "turn 1 · " in done.out
    assert "2 model calls, 0 tokens in, 0 out" in done.out


def test_show_in_json(desk: Desk) -> None:
    talk(desk, "x", HELLO, BYE, said=b"Ada\n")
    document = json.loads(desk.run("conversations", "show", "x", "--json").out)
    assert document["conversation"] == "x"
    assert [
        (turn["turn"], turn["kind"], turn["user"], turn["reply"]) for turn in document["turns"]
    ] == [(0, "start", None, "Hello!"), (1, "message", "Ada", "Bye Ada.")]
    assert document["turns"][1]["moves"] == [{"from": "hello", "to": "bye", "by": "model"}]
    assert document["turns"][1]["usage"]["calls"] == 1


def test_delete_removes_one_conversation(desk: Desk) -> None:
    talk(desk, "x", HELLO)
    talk(desk, "y", HELLO)
    done = desk.run("conversations", "delete", "x", "--yes")
    assert (done.code, done.out, done.err) == (0, "", "llm-fsm: deleted x\n")
    assert [
        item["id"]
        for item in json.loads(desk.run("conversations", "list", "--json").out)["conversations"]
    ] == ["y"]


def test_a_damaged_name_of_a_state_moves_no_cursor(desk: Desk) -> None:
    talk(desk, "x", HELLO, BYE, said=b"Ada\n")
    with closing(sqlite3.connect("home/conversations.db")) as db, db:
        db.execute("UPDATE conversations SET state = state || char(27) || '[2J'")
        db.execute("UPDATE records SET record = replace(record, '\"bye\"', '\"bye\\u001b[2J\"')")
    listed, shown = (
        desk.run("conversations", "list").out,
        desk.run("conversations", "show", "x").out,
    )
    assert r"bye\x1b[2J (ended)" in listed
    assert r"hello → bye\x1b[2J (model)" in shown
    assert "\x1b" not in listed + shown


def test_delete_asks_nobody_through_a_pipe(desk: Desk) -> None:
    talk(desk, "x", HELLO)
    done = desk.run("conversations", "delete", "x", stdin=b"y\n")
    assert done.code == 2
    assert "add --yes" in done.err
    assert desk.run("conversations", "show", "x").code == 0


@pytest.mark.parametrize("arguments", [["show"], ["delete", "--yes"], ["export"]])
@pytest.mark.parametrize("name", ["zz\x1b", "z\udcff"])
@pytest.mark.parametrize("exists", [True, False])
def test_an_unknown_id_is_exit_2(desk: Desk, arguments: list[str], name: str, exists: bool) -> None:
    if exists:
        talk(desk, "x", HELLO)
    done = desk.run("conversations", *arguments, name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("llm-fsm: error: there is no conversation")
    assert "\x1b" not in done.err


def test_what_was_said_is_shown_without_the_values_of_secret_keys(desk: Desk) -> None:
    early = {
        "transition": {"target_state": "hello", "context_update": {}},
        "message": "4711 is what?",
    }
    talk(desk, "x", HELLO, early, TO_BAR, ASKS, said=b"4711\nmy pin is 4711, I am 12\n")
    for arguments in (["show", "x"], ["show", "x", "--json"]):
        done = desk.run("conversations", *arguments)
        assert "my pin is •••, I am 12" in done.out
        assert "••• is what?" in done.out
        assert "4711" not in done.out


def test_another_store_can_be_named(desk: Desk) -> None:
    url = "sqlite:///other.db"
    desk.run("chat", "greeter.json", "--id", "x", *desk.replies(HELLO), "--db", url)
    assert desk.run("conversations", "show", "x", "--db", url).code == 0
    assert desk.run("conversations", "show", "x").code == 2
    missing = desk.run("conversations", "list", "--db", "sqlite:///none.db")
    assert missing.code == 4
    assert not Path("none.db").exists()


def test_a_long_id_of_ours_is_listed_as_short_as_it_can_be_told(desk: Desk) -> None:
    names = sorted([f"{'a' * 9}b{'0' * 22}", f"{'a' * 9}c{'0' * 22}", f"c{'0' * 31}", "c" * 9])
    assert [shortest(name, names) for name in names] == [
        "a" * 9 + "b",
        "a" * 9 + "c",
        "c0000000",
        "c" * 9,
    ]
    talk(desk, f"d{'0' * 31}", HELLO)
    assert desk.run("conversations", "list").out.splitlines()[1].split()[0] == "d0000000"
    assert desk.run("conversations", "show", "d0000000").code == 0


def of_users(desk: Desk) -> None:
    """Two conversations of ada, of 1970 and of 2027, and one of bob."""
    (desk.folder / "home").mkdir(exist_ok=True)
    for name, user, time in (
        ("a1", "ada", 0.0),
        ("a2", "ada", 1_800_000_000.0),
        ("b1", "bob", 1_800_000_000.0),
    ):
        store = "sqlite:///home/conversations.db"
        with Machine.from_file(
            "greeter.json", model="offline", store=store, clock=partial(float, time)
        ) as machine:
            machine.start(conversation_id=name, metadata={"user": user})


def ids(desk: Desk, *arguments: str) -> list[str]:
    found = json.loads(desk.run("conversations", "list", "--json", *arguments).out)["conversations"]
    return sorted(item["id"] for item in found)


def test_the_conversations_of_a_person_are_listed_exported_and_deleted(desk: Desk) -> None:
    of_users(desk)
    assert ids(desk, "--label", "user=ada") == ["a1", "a2"]
    exported = desk.run("conversations", "export", "--label", "user=ada").out.splitlines()
    assert len(exported) == 2
    asked = desk.run("conversations", "delete", "--label", "user=ada")
    assert (asked.code, "add --yes" in asked.err) == (2, True)
    done = desk.run("conversations", "delete", "--label", "user=ada", "--yes")
    assert (done.code, done.out, done.err) == (0, "", "llm-fsm: deleted 2 conversations\n")
    assert ids(desk) == ["b1"]
    again = desk.run("conversations", "delete", "--label", "user=ada", "--yes")
    assert (again.code, again.err) == (0, "llm-fsm: deleted 0 conversations\n")
    assert (
        desk.run("conversations", "list", "--label", "user=ada").err
        == "llm-fsm: no conversation matches\n"
    )


def test_conversations_that_are_old_are_deleted_by_their_last_use(desk: Desk) -> None:
    of_users(desk)
    assert ids(desk, "--before", "2026-11-01") == ["a1"]
    assert ids(desk, "--before", "2027-12-01", "--label", "user=bob") == ["b1"]
    assert desk.run("conversations", "delete", "--before", "2026-11-01", "--yes").code == 0
    assert ids(desk) == ["a2", "b1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["delete", "--yes"], "name the ID of a conversation"),
        (["delete", "a1", "--label", "user=ada", "--yes"], "name the ID of a conversation"),
        (["delete", "--label", "ada", "--yes"], "--label is KEY=TEXT"),
        (["delete", "--label", "user=ada", "--label", "user=bob", "--yes"], "has two texts"),
        (["list", "--label", "=x"], "a key of metadata"),
        (["list", "--before", "yesterday"], "yesterday"),
        (["export", "a1", "--label", "user=ada"], "not both"),
    ],
)
def test_a_filter_that_is_none_deletes_nothing(desk: Desk, arguments: list[str], said: str) -> None:
    of_users(desk)
    done = desk.run("conversations", *arguments)
    assert done.code == 2
    assert said in done.err
    assert ids(desk) == ["a1", "a2", "b1"]
