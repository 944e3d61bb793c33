"""`conversations export`, `import`, `fork`, `doctor`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from cli_command import ASKS, BYE, HELLO, Desk, desk
from llm_fsm.testing import reply

__all__ = ["desk"]


def talk(desk: Desk, name: str, *replies: object, said: bytes = b"") -> None:
    assert (
        desk.run("chat", "greeter.json", "--id", name, *desk.replies(*replies), stdin=said).code
        == 0
    )


def ids(desk: Desk, *db: str) -> list[str]:
    done = desk.run("conversations", "list", "--json", *db)
    return sorted(item["id"] for item in json.loads(done.out)["conversations"])


def test_everything_moves_from_one_store_to_another(desk: Desk) -> None:
    talk(desk, "a", HELLO, BYE, said=b"Ada\n")
    talk(desk, "b \u200f/", HELLO)
    done = desk.run("conversations", "export")
    assert done.code == 0
    assert [json.loads(line)["conversation"] for line in done.out.splitlines()] == [
        "a",
        "b \u200f/",
    ]
    Path("all.jsonl").write_text(done.out)
    moved = desk.run("conversations", "import", "all.jsonl", "--db", "file://./moved")
    assert (moved.code, moved.out.splitlines()[0]) == (0, "a")
    assert ids(desk, "--db", "file://./moved") == ids(desk) == ["a", "b \u200f/"]
    again = desk.run("conversations", "export", "--db", "file://./moved")
    assert again.out == done.out
    assert (
        desk.run("conversations", "doctor", "--db", "file://./moved").err
        == "llm-fsm: nothing is wrong\n"
    )
    shown = desk.run("conversations", "show", "a", "--db", "file://./moved")
    assert "Ada" in shown.out


def test_one_conversation_is_taken_in_under_another_id(desk: Desk) -> None:
    talk(desk, "a", HELLO)
    text = desk.run("conversations", "export", "a").out
    assert desk.run("conversations", "import", "-", "--id", "b", stdin=text.encode()).out == "b\n"
    assert ids(desk) == ["a", "b"]
    done = desk.run("conversations", "import", "-", stdin=text.encode())
    assert (done.code, done.out) == (2, "")
    assert "exists already" in done.err
    assert (
        desk.run("conversations", "import", "-", "--id", "c", stdin=(text * 2).encode()).code == 2
    )


def test_a_fork_is_a_copy_of_how_it_was(desk: Desk) -> None:
    talk(desk, "a", HELLO, ASKS, BYE, said=b"hm\nAda\n")
    assert (
        desk.run("conversations", "fork", "a", "b", "--turn", "1").err
        == "llm-fsm: b is a copy of a\n"
    )
    listed = json.loads(desk.run("conversations", "list", "--json").out)["conversations"]
    assert {item["id"]: item["ended"] for item in listed} == {"a": True, "b": False}
    done = desk.run("conversations", "fork", "a", "c", "--turn", "9")
    assert done.code == 2
    assert "has no turn 9; its turns are 0, 1, 2" in done.err


def test_what_cannot_be_taken_in_is_named_with_its_line(desk: Desk) -> None:
    for text in (b"garbage\n", b"\n{}\n", b"\xff\n", b'{"conversation": 5}\n'):
        done = desk.run("conversations", "import", "-", stdin=text)
        assert done.code == 2, text
        assert "Traceback" not in done.err
        assert "line 1: this is no exported conversation" in done.err or "UTF-8" in done.err, text
        assert "Error(" not in done.err


def test_an_import_that_ends_early_says_what_it_has_kept(desk: Desk) -> None:
    talk(desk, "a", HELLO)
    text = desk.run("conversations", "export", "a").out
    done = desk.run(
        "conversations",
        "import",
        "-",
        "--db",
        "file://./other",
        stdin=f"{text}garbage\n{text}".encode(),
    )
    assert (done.code, done.out) == (2, "a\n")
    assert done.err.splitlines()[0] == "llm-fsm: kept before the error: 1 conversation"
    assert "line 2: this is no exported conversation" in done.err
    again = desk.run("conversations", "import", "-", "--db", "file://./other", stdin=text.encode())
    assert (again.code, again.out, "kept before" in again.err) == (2, "", False)


def test_a_line_that_never_ends_is_not_read_for_ever(desk: Desk) -> None:
    done = desk.run("conversations", "import", "/dev/zero")
    assert done.code == 2
    assert "/dev/zero: a line is longer than 100,000,000 characters" in done.err


def test_without_a_store_there_is_nothing_to_do(desk: Desk) -> None:
    assert desk.run("conversations", "export").out == ""
    assert desk.run("conversations", "export", "a").code == 2
    assert desk.run("conversations", "fork", "a", "b").code == 2
    assert desk.run("conversations", "doctor").code == 0
    assert not Path("home").exists()


def test_the_doctor_complains_with_exit_code_4(desk: Desk) -> None:
    talk(desk, "a", HELLO)
    (place,) = Path().rglob("conversations.db")
    with closing(sqlite3.connect(place)) as db:
        db.execute(
            "UPDATE conversations SET session = replace(session, '\"turn\":0', '\"turn\":5')"
        )
        db.commit()
    done = desk.run("conversations", "doctor")
    assert done.code == 4
    assert done.out == "a: its records do not lead to its session: turn differ\n"


def test_an_export_goes_on_behind_a_damaged_conversation(desk: Desk) -> None:
    for name in "abc":
        talk(desk, name, HELLO)
    (place,) = Path().rglob("conversations.db")
    with closing(sqlite3.connect(place)) as db:
        db.execute("UPDATE records SET record = 'x' WHERE conversation = 'b'")
        db.commit()
    done = desk.run("conversations", "export")
    assert done.code == 4
    assert [json.loads(line)["conversation"] for line in done.out.splitlines()] == ["a", "c"]
    assert "llm-fsm: error: b: a turn record cannot be read" in done.err
    assert "what is damaged was left out" in done.err


def test_what_is_damaged_ends_no_command_with_an_internal_error(desk: Desk) -> None:
    talk(desk, "a", HELLO, BYE, said=b"Ada\n")
    (place,) = Path().rglob("conversations.db")
    for sql in (
        "UPDATE conversations SET updated = 1e300",
        "UPDATE definitions SET text = 'garbage'",
        "DELETE FROM records WHERE number = 1",
        "UPDATE conversations SET session = '[]'",
    ):
        with closing(sqlite3.connect(place)) as db:
            db.execute(sql)
            db.commit()
        for command in ("list", "show a", "export", "fork a b", "doctor", "replay", "migrate"):
            file = ["greeter.json"] if command in ("replay", "migrate") else []
            done = desk.run("conversations", *command.split(), *file)
            assert done.code in (0, 1, 4), (sql, command, done)
            assert "internal error" not in done.err
    assert desk.run("conversations", "delete", "a", "--yes").code == 0


def test_an_id_that_was_damaged_in_the_store_keeps_no_other_conversation_back(desk: Desk) -> None:
    for name in "ab":
        talk(desk, name, HELLO)
    (place,) = Path().rglob("conversations.db")
    with closing(sqlite3.connect(place)) as db:
        db.executescript(
            "PRAGMA foreign_keys = 0; UPDATE conversations SET id = char(27) || 'a' WHERE id = 'a'"
        )
    done = desk.run("conversations", "export")
    assert (done.code, [json.loads(line)["conversation"] for line in done.out.splitlines()]) == (
        4,
        ["b"],
    )
    assert "llm-fsm: error: \\x1ba: its id was damaged in the store" in done.err
    done = desk.run("conversations", "migrate", "greeter.json")
    assert (done.code, "internal error" in done.err) == (4, False)


def test_the_doctor_says_what_is_wrong_with_the_store_itself(desk: Desk) -> None:
    talk(desk, "a", HELLO)
    place = Path("bots.db").resolve()
    moved = desk.run("conversations", "export").out
    desk.run("conversations", "import", "-", "--db", f"sqlite:///{place}", stdin=moved.encode())
    with closing(sqlite3.connect(place)) as db:
        db.executescript("PRAGMA foreign_keys = 0; INSERT INTO due VALUES ('nobody', 1, 'expire')")
    done = desk.run("conversations", "doctor", "--db", f"sqlite:///{place}")
    assert (done.code, done.out) == (
        4,
        "the store: rows of the table due belong to no conversation\n",
    )
    with closing(sqlite3.connect(place)) as db:
        db.executescript("DROP TABLE outbox")
    done = desk.run("conversations", "doctor", "--db", f"sqlite:///{place}")
    assert (done.code, done.out) == (4, "")
    assert "no such table: outbox" in done.err


def test_a_commit_of_which_nobody_can_tell_whose_it_is_is_told_by_an_export(desk: Desk) -> None:
    for name in ("a", "b"):
        assert (
            desk.run(
                "chat", "greeter.json", "--id", name, *desk.replies(HELLO), "--db", "file://./kept"
            ).code
            == 0
        )
    damaged, _ = sorted(Path("kept/conversations").glob("*.json"))
    damaged.write_text("{")
    done = desk.run("conversations", "export", "--db", "file://./kept")
    assert (done.code, len(done.out.splitlines())) == (4, 1)
    assert f"{damaged.name}: the file is damaged" in done.err


def test_commands_that_go_through_all_conversations_tell_of_those_that_cannot_be_listed(
    desk: Desk,
) -> None:
    for name in ("a", "b"):
        assert (
            desk.run(
                "chat", "greeter.json", "--id", name, *desk.replies(HELLO), "--db", "file://./kept"
            ).code
            == 0
        )
    damaged, _ = sorted(Path("kept/conversations").glob("*.json"))
    damaged.write_text("{")
    for command in (("list",), ("replay", "greeter.json"), ("migrate", "greeter.json")):
        done = desk.run("conversations", *command, "--db", "file://./kept")
        assert done.code == 4, command
        assert f"{damaged.name}: the file is damaged" in done.err
        assert "what is damaged was left out" in done.err


def test_a_folder_in_place_of_records_keeps_no_other_conversation_back(desk: Desk) -> None:
    for name in "abc":
        assert (
            desk.run(
                "chat", "greeter.json", "--id", name, *desk.replies(HELLO), "--db", "file://./kept"
            ).code
            == 0
        )
    place, *_ = sorted(Path("kept/conversations").glob("*.records"))  # of c
    place.unlink()
    place.mkdir()
    done = desk.run("conversations", "doctor", "--db", "file://./kept")
    assert (done.code, done.out.startswith("c: "), len(done.out.splitlines())) == (4, True, 1)
    assert (
        f"{place.name}: is a folder in place of a file: move it away, and restore the file"
        in done.out
    )
    done = desk.run("conversations", "export", "--db", "file://./kept")
    assert (done.code, len(done.out.splitlines())) == (4, 2)


def test_an_export_has_secrets_only_where_it_says_so(desk: Desk) -> None:
    document = {
        "name": "safe",
        "initial_state": "ask",
        "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}},
        "states": {
            "ask": {"reply": "PIN?", "transitions": [{"target_state": "end"}]},
            "end": {"reply": "Bye."},
        },
    }
    Path("safe.json").write_text(json.dumps(document))
    said = reply("end", pin="471147")
    assert (
        desk.run(
            "chat", "safe.json", "--id", "c", *desk.replies(said), stdin=b"it is 471147\n"
        ).code
        == 0
    )
    exported = desk.run("conversations", "export").out
    assert "471147" not in exported
    assert "471147" in desk.run("conversations", "export", "--with-secrets").out
    Path("c.jsonl").write_text(exported)
    assert desk.run("conversations", "import", "c.jsonl", "--id", "d").code == 0
    assert desk.run("conversations", "doctor").code == 0
