"""Every store keeps the contract; and how a store is chosen."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from llm_fsm import Machine
from llm_fsm.errors import ConfigurationError, ConversationConflict, StoreError
from llm_fsm.stores.base import Commit, ListQuery, Loaded, storable
from llm_fsm.stores.file import FileStore
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.registry import default_path, resolve
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.testing.store_contract.suite import store_suite
from paths import TESTS

NAUGHTY = json.loads((TESTS / "data" / "blns" / "blns.json").read_text("utf-8"))


@pytest.mark.anyio
@pytest.mark.parametrize("check", store_suite(), ids=str)
async def test_memory_keeps_the_contract(check):
    await check(MemoryStore)


@pytest.mark.anyio
@pytest.mark.parametrize("check", store_suite(shared=True), ids=str)
async def test_sqlite_keeps_the_contract(check, tmp_path):
    await check(
        lambda: SQLiteStore(tmp_path / "x.db"), reopen=lambda: SQLiteStore(tmp_path / "x.db")
    )


@pytest.mark.anyio
@pytest.mark.parametrize("check", store_suite(), ids=str)
async def test_sqlite_in_memory_keeps_the_contract(check):
    await check(lambda: SQLiteStore(":memory:"))


def is_id(text):
    return 0 < len(text) <= 200 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "make", [MemoryStore, lambda: SQLiteStore(":memory:")], ids=["memory", "sqlite"]
)
async def test_every_naughty_string_is_kept_as_id_request_id_and_text(make):
    store = make()
    ids = [text for text in dict.fromkeys(NAUGHTY) if is_id(text)]
    assert len(ids) > 400
    for text in ids:
        document = json.dumps(text)
        commit = Commit(
            conversation_id=text, expected=0, session=document, record=document, request_id=text
        )
        await store.save(commit)
    for text in ids:
        document = json.dumps(text)
        assert await store.load(text, text) == Loaded(
            session=document, version=1, recorded=document
        )
    assert [line.conversation_id for line in await store.list(ListQuery(limit=1000))] == sorted(ids)
    everything = json.dumps(NAUGHTY)
    await store.save(
        Commit(conversation_id="all", expected=0, session=everything, record=everything)
    )
    assert await store.load("all") == Loaded(session=everything, version=1)
    await store.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "make", [MemoryStore, lambda: SQLiteStore(":memory:")], ids=["memory", "sqlite"]
)
async def test_conflicts_say_what_was_expected_and_found(make):
    store = make()

    async def message(expected, request_id=None):
        with pytest.raises(ConversationConflict) as caught:
            await store.save(
                Commit(
                    conversation_id="c",
                    expected=expected,
                    session="",
                    record="",
                    request_id=request_id,
                )
            )
        return str(caught.value)

    gone = 'conversation "c" is gone: expected version 3, found none; begin a new conversation'
    assert await message(3) == gone
    await store.save(Commit(conversation_id="c", expected=0, session="", record="", request_id="r"))
    assert await message(0) == 'conversation "c" exists already: choose another id, or resume it'
    assert await message(4) == (
        'conversation "c" was changed by another writer: expected version 4, found 1; load it and try again'
    )
    assert await message(1, "r") == (
        'request "r" of conversation "c" was answered already: '
        "load the conversation with this request id to get the answer"
    )
    await store.journal("c", 7, "")
    with pytest.raises(
        ConversationConflict, match=r"step 7 of the turn under way .* is recorded already"
    ):
        await store.journal("c", 7, "")
    await store.close()


@pytest.mark.anyio
async def test_the_kit_says_what_a_store_does_wrong():
    class Forgetful(MemoryStore):
        async def journal(self, conversation_id, step, text):
            pass

    (check,) = [
        check for check in store_suite() if check.name == "the-journal-keeps-steps-in-order"
    ]
    with pytest.raises(AssertionError, match=r"journalled: expected \['\"step 1\"'.*found \[\]"):
        await check(Forgetful)


@pytest.mark.anyio
async def test_the_kit_asks_for_a_second_store_where_one_is_needed():
    shared = [check for check in store_suite(shared=True) if check.shared]
    assert len(shared) == len(store_suite(shared=True)) - len(store_suite()) > 0
    with pytest.raises(ValueError, match="needs `reopen`"):
        await shared[0](MemoryStore)


def test_the_kit_does_not_import_pytest():
    code = "import sys, llm_fsm.testing.store_contract.suite; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("form", [None, "memory", "Memory", "memory://"])
def test_memory_is_the_store_unless_another_is_named(form):
    assert isinstance(resolve(form), MemoryStore)


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ("sqlite:///bots.db", "CWD/bots.db"),
        ("sqlite:///data/bots", "CWD/data/bots"),
        ("SQLite:////var/lib/bots.db", "/var/lib/bots.db"),
        ("sqlite:///~/bots.db", "HOME/bots.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///100%25.db", "CWD/100%25.db"),
        ("bots.db", "CWD/bots.db"),
        ("./a b/bots.SQLITE", "CWD/a b/bots.SQLITE"),
        ("~/bots.sqlite3", "HOME/bots.sqlite3"),
        ("/var/lib/bots.db", "/var/lib/bots.db"),
    ],
)
def test_sqlite_is_named_by_url_or_file(form, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    store = resolve(form)
    assert isinstance(store, SQLiteStore)
    wanted = path.replace("HOME", str(tmp_path / "home")).replace("CWD", str(tmp_path))
    assert store.path == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ("file:///var/lib/bots", "/var/lib/bots"),
        ("file://./bots", "CWD/bots"),
        ("file://~/bots", "HOME/bots"),
    ],
)
def test_a_folder_is_named_by_url(form, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    store = resolve(form)
    assert isinstance(store, FileStore)
    assert store.path == path.replace("HOME", str(tmp_path / "home")).replace("CWD", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_taken_as_it_is():
    store = MemoryStore()
    assert resolve(store) is store


AVAILABLE = 'vailable: "memory", "sqlite:///file.db", "postgresql://user:password@host/database", '


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("sqlite://bots.db", 'use three slashes before a path, .*: "sqlite:///bots.db"'),
        ("sqlite:bots.db", '"sqlite:///bots.db"'),
        ("sqlite:/var/bots.db", '"sqlite:////var/bots.db"'),
        ("sqlite://", '"sqlite:///file.db"'),
        ("sqlite:///", 'no file is named; for example "sqlite:///file.db"'),
        (
            "sqlite:///x.db?mode=ro",
            'parameters after "\\?" are not supported; write "sqlite:///x.db"',
        ),
        (
            "sqlit:///bots.db",
            'unknown store "sqlit://…"; did you mean "sqlite:///file.db"\\? A' + AVAILABLE,
        ),
        ("memroy", 'unknown store "memroy"; did you mean "memory"\\?'),
        ("etcd://host", 'unknown store "etcd://…". A' + AVAILABLE),
        (
            "file://dir",
            'name a folder, as "file:///var/lib/bots", "file://./bots" or "file://~/bots"',
        ),
        (
            "postgresql://u:secret@host/db?schema=x-y",
            "schema of a postgresql store is a name of letters",
        ),
        ("postgresql://u:secret@host/db?colour=red", "no URL of a PostgreSQL database"),
        ("redis://host:port", "no URL of a Redis server"),
        ("mongodb://host:port", "no URL of a MongoDB server"),
        ("", 'unknown store "". Available'),
        (7, "int has no load, save, "),
    ],
)
def test_a_store_that_cannot_be_is_explained(form, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        resolve(form)
    assert "secret" not in str(caught.value)


def test_installed_packages_bring_stores(monkeypatch, tmp_path):
    package = tmp_path / "acme_store-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: acme-store\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[llm_fsm.stores]\nacme = acme_store:make\nbad = acme_store:bad\n"
    )
    module = "from llm_fsm.stores.memory import MemoryStore\nurls = []\n"
    module += "def make(url):\n    urls.append(url)\n    return MemoryStore()\ndef bad(url):\n    return url\n"
    (tmp_path / "acme_store.py").write_text(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(resolve("acme://somewhere"), MemoryStore)
    assert sys.modules["acme_store"].urls == ["acme://somewhere"]
    with pytest.raises(ConfigurationError, match="str has no load"):
        resolve("bad://somewhere")
    with pytest.raises(ConfigurationError, match='did you mean "acme://…"'):
        resolve("acne://somewhere")


@pytest.mark.parametrize("module", ["sqlite3", "psycopg", "redis", "pymongo"])
def test_the_choice_imports_only_what_was_chosen(module):
    code = "import sys; from llm_fsm.stores.registry import resolve; resolve(None); "
    code += f"sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("postgresql://host/db", "psycopg", "postgres"),
        ("redis://host", "redis", "redis"),
        ("mongodb://host", "pymongo", "mongo"),
    ],
)
def test_a_store_without_its_package_names_the_line_that_installs_it(
    url, package, extra, monkeypatch
):
    for name in [
        name for name in sys.modules if name.startswith(f"llm_fsm.stores.{url.partition(':')[0]}")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ConfigurationError,
        match=rf'needs the package {package}: pip install "llm-fsm-runtime\[{extra}\]"',
    ):
        resolve(url)


HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("environ", "platform", "path"),
    [
        ({}, "linux", "/home/ada/.local/share/llm-fsm/conversations.db"),
        ({"XDG_DATA_HOME": "/data"}, "linux", "/data/llm-fsm/conversations.db"),
        ({"XDG_DATA_HOME": "relative"}, "linux", "/home/ada/.local/share/llm-fsm/conversations.db"),
        ({"XDG_DATA_HOME": ""}, "freebsd14", "/home/ada/.local/share/llm-fsm/conversations.db"),
        ({}, "darwin", "/home/ada/Library/Application Support/llm-fsm/conversations.db"),
        ({"LOCALAPPDATA": "/Local"}, "win32", "/Local/llm-fsm/conversations.db"),
        ({}, "win32", "/home/ada/AppData/Local/llm-fsm/conversations.db"),
        ({"LLM_FSM_HOME": "/own", "XDG_DATA_HOME": "/data"}, "linux", "/own/conversations.db"),
        ({"LLM_FSM_HOME": "/own"}, "win32", "/own/conversations.db"),
    ],
)
def test_the_command_line_keeps_conversations_in_the_data_folder(environ, platform, path):
    assert default_path(environ, platform, HOME) == Path(path)


@pytest.mark.anyio
async def test_a_closed_memory_store_is_a_store_error():
    store = MemoryStore()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.load("c")


def test_a_commit_answers_each_request_once():
    whole = Commit(
        conversation_id="c",
        expected=0,
        session="{}",
        record="{}",
        earlier=(("{}", "r"), ("{}", None)),
    )
    assert [number for number, *_ in whole.numbered] == [1, 2, 3]
    with pytest.raises(ConversationConflict, match="the same request id; give each record its own"):
        replace(whole, request_id="r")
    with pytest.raises(ValueError, match="does not exist yet"):
        replace(whole, expected=1)


def test_names_for_listings_can_be_kept_everywhere():
    assert storable("an ordinary näme \U0001f600") == "an ordinary näme \U0001f600"
    assert storable("a\0b\ud800c\udfff") == "a\\x00b\\ud800c\\udfff"


def test_a_definition_may_have_any_name_and_ids_are_checked_at_the_border(tmp_path):
    document = {
        "name": "odd \0 name",
        "initial_state": "hello",
        "states": {"hello": {"purpose": "Say hello.", "transitions": []}},
    }
    with Machine.from_dict(document, model="offline", store=str(tmp_path / "x.db")) as machine:
        chat = machine.start(conversation_id="c", greet=False)
        (line,) = machine.conversations()
        assert line.definition == "odd \\x00 name"
        assert machine.conversations(after="\0\ud800")[0].conversation_id == chat.id
        for use in (machine.resume, machine.delete):
            with pytest.raises(ValueError, match="control characters"):
                use("c\0")
