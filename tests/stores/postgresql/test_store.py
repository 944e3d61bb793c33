"""The PostgreSQL store keeps the contract, and says what is wrong with its server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import quote

import psycopg
import pytest

from awake import answered, until, worker
from llm_fsm.durable import submit
from llm_fsm.errors import ConfigurationError, StoreError
from llm_fsm.stores.base import Commit, ListQuery
from llm_fsm.stores.postgresql import PostgreSQLStore
from llm_fsm.testing.store_contract.suite import store_suite

pytestmark = pytest.mark.anyio


def turn(number, name="c"):
    return Commit(conversation_id=name, expected=number - 1, session="{}", record=f'"{number}"')


@pytest.fixture
def admin(postgresql_url):
    """Runs a statement in the schema of the test, as somebody else."""
    url, _, schema = postgresql_url.partition("?schema=")

    def run(statement, *values):
        with psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema}") as db:
            cursor = db.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    run.schema = schema
    return run


END_OF_HOLDER = """SELECT pg_terminate_backend(pid) FROM pg_locks JOIN locks ON objid = holder
    WHERE locktype = 'advisory' AND classid = 'locks'::regclass AND conversation = %s"""


@pytest.mark.parametrize("check", store_suite(shared=True, fenced=True), ids=str)
async def test_postgresql_keeps_the_contract(check, postgresql_url, admin):
    async def lose(store, name):
        assert admin(END_OF_HOLDER, name) == [(True,)]

    def make():
        return PostgreSQLStore(postgresql_url)

    await check(make, reopen=make, lose=lose)


async def message_of(awaitable, retryable=False):
    with pytest.raises(StoreError) as caught:
        await awaitable
    assert caught.value.retryable is retryable
    return str(caught.value).partition(": ")[2]


async def test_a_connection_that_was_closed_meanwhile_is_opened_again(postgresql_url, admin):
    store = PostgreSQLStore(f"{postgresql_url}&application_name={admin.schema}")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    for number in (1, 2, 3):
        async with store.lock("c"):
            await store.save(turn(number))
            assert (await store.load("c")).version == number
        assert admin(end, admin.schema) == [(True,)] * 3
    await store.close()


async def test_a_text_that_postgresql_cannot_hold_fails_alone(postgresql_url):
    store = PostgreSQLStore(postgresql_url)
    await store.load("c")
    saves = [store.save(turn(1, name)) for name in ("a", "\ud800", "b\0", "c")]
    found = await asyncio.gather(*saves, return_exceptions=True)
    assert [type(outcome) for outcome in found[1:3]] == [UnicodeEncodeError, StoreError]
    assert [found[0], found[3]] == [None, None]
    assert [line.conversation_id for line in await store.list(ListQuery())] == ["a", "c"]
    await store.close()


@pytest.mark.parametrize("version", [1, 4, 6, 7])
async def test_another_version_is_refused(version, postgresql_url, admin):
    store = PostgreSQLStore(postgresql_url)
    await store.save(turn(1))
    await store.close()
    admin(f"UPDATE contract SET version = {version}")
    store = PostgreSQLStore(postgresql_url)
    assert (
        f"has the schema {version}, and this llm-fsm reads only 5. Use the version"
        in await message_of(store.load("c"))
    )
    await store.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("tester@", "stranger@"),
            "the server refuses this user: check the user's name and pg_hba.conf",
        ),
        (
            ("/postgres?", "/nowhere?"),
            "the server has no such database: create it, or name another one",
        ),
        (
            ("?", "?options=-cdefault_transaction_read_only%3Don&"),
            "the server is read-only (a standby?)",
        ),
        (
            ("/postgres?", "/latin1?"),
            "the database has the encoding LATIN1, which cannot hold every text",
        ),
        (
            ("tester@", "guest@"),
            "the server does not let this user do that: grant it the rights on the schema",
        ),
    ],
)
async def test_what_is_wrong_is_said_with_a_way_out(postgresql_url, admin, change, message):
    before, after = change
    own = f"{after.strip('@/?')}_{admin.schema}"
    if after == "guest@":
        admin(f"CREATE ROLE {own} LOGIN")
        after = f"{own}@"
    if after == "/latin1?":
        admin(
            f"CREATE DATABASE {own} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        after = f"/{own}?"
    store = PostgreSQLStore(postgresql_url.replace(before, after, 1))
    assert message in await message_of(store.load("c"), retryable="read-only" in message)
    await store.close()


@pytest.mark.parametrize(
    "limit", ["ALTER DATABASE {own} CONNECTION LIMIT 0", "ALTER ROLE {own} CONNECTION LIMIT 2"]
)
async def test_database_or_role_that_takes_no_more_connections_is_retryable(
    postgresql_url, admin, limit
):
    own = f"tenant_{admin.schema}"
    admin(f"CREATE ROLE {own} LOGIN")
    admin(f"CREATE DATABASE {own} OWNER {own}")
    admin(limit.format(own=own))
    store = PostgreSQLStore(
        postgresql_url.replace("tester@", f"{own}@").replace("/postgres?", f"/{own}?")
    )

    async def use():
        async with store.lock("c"):
            await store.load("c")
            await store.save(turn(1))

    wanted = (
        "the server takes no more connections (a process needs three, a worker four). "
        "Raise max_connections or the limit of the"
    )
    assert wanted in await message_of(use(), retryable=True)
    for kind in ("DATABASE", "ROLE"):
        admin(f"ALTER {kind} {own} CONNECTION LIMIT -1")
    await use()
    await store.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "nobody of that name",
            "the server refuses this user: check the user's name and pg_hba.conf",
        ),
        ('odd "database ', "the server refuses this user: check the user's name and pg_hba.conf"),
    ],
)
async def test_unknown_user_is_named_whatever_the_name(postgresql_url, name, message):
    store = PostgreSQLStore(postgresql_url.replace("tester@", f"{quote(name)}@"))
    assert message in await message_of(store.load("c"))
    await store.close()


async def test_server_that_turned_read_only_is_retryable_and_asked_again_over_new_connections(
    postgresql_url, admin
):
    own = f"ward_{admin.schema}"
    admin(f"CREATE ROLE {own} LOGIN SUPERUSER")
    store = PostgreSQLStore(postgresql_url.replace("tester@", f"{own}@"))
    await store.save(turn(1))
    before = await backend(store)
    await store._own().writing.call(lambda db: db.execute("SET default_transaction_read_only = on"))
    # as after a failover: the new connection leads to a server that can write
    await store.save(turn(2))
    assert await backend(store) != before
    admin(f"ALTER ROLE {own} SET default_transaction_read_only = on")
    await store._own().writing.close()
    assert "the server is read-only (a standby?)" in await message_of(
        store.save(turn(3)), retryable=True
    )
    admin(f"ALTER ROLE {own} SET default_transaction_read_only = off")
    await store.save(turn(3))
    await store.close()


async def backend(store):
    async def ask(db):
        return await (await db.execute("SELECT pg_backend_pid()")).fetchone()

    return await store._own().writing.call(ask)


async def test_a_slow_statement_ends_with_the_time_out(postgresql_url, admin):
    store = PostgreSQLStore(postgresql_url, timeout=1.0)
    await store.save(turn(1))
    url, _, schema = postgresql_url.partition("?schema=")
    with psycopg.connect(url, options=f"-csearch_path={schema}") as other:
        other.execute("LOCK TABLE conversations")
        assert "see what keeps it busy" in await message_of(store.save(turn(2)), retryable=True)
    await store.save(turn(2))
    await store.close()


async def shown(store, name):
    async def ask(db):
        return await (await db.execute("SELECT current_setting(%s)", (name,))).fetchone()

    await store.load("c")
    (value,) = await store._own().locking.call(ask)
    return value


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("options=-c%20work_mem%3D5MB", "work_mem", "5MB"),
        ("application_name=our%20bots%20a+b", "application_name", "our bots a+b"),
        ("connect_timeout=3", "application_name", "llm-fsm"),
    ],
)
async def test_a_setting_of_the_url_reaches_the_server_as_it_is_written(
    postgresql_url, setting, name, value
):
    store = PostgreSQLStore(f"{postgresql_url}&{setting}")
    assert await shown(store, name) == value
    await store.close()


async def test_the_server_is_told_to_miss_a_machine_that_vanishes_with_its_locks(postgresql_url):
    store = PostgreSQLStore(postgresql_url)
    names = ("keepalives_idle", "keepalives_interval", "keepalives_count", "user_timeout")
    found = [await shown(store, f"tcp_{name}") for name in names]
    assert found == ["10", "5", "3", "25000"]
    await store.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (
            "postgresql:///bots?host=/var/run/postgresql&schema=mine",
            "postgresql:///var/run/postgresql/bots",
        ),
        ("postgresql:///bots", "postgresql://localhost/bots"),
        ("postgresql://ada@%2Ftmp/bots", "postgresql://ada@/tmp/bots"),
        ("postgresql://one:1,two:2/bots", "postgresql://one,two:1,2/bots"),
    ],
)
def test_a_database_is_named_in_every_way_that_libpq_knows(url, place):
    assert PostgreSQLStore(url).place == place


@pytest.mark.parametrize(
    "url", ["postgresql://[::1/bots", "postgresql://h/b?colour=red", "postgresql://h/b?=x"]
)
def test_a_url_that_is_none_is_a_configuration_error(url):
    with pytest.raises(ConfigurationError, match="no URL of a PostgreSQL database; for example"):
        PostgreSQLStore(url)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "soon", ""])
def test_a_time_out_that_is_no_time_is_a_configuration_error(text):
    with pytest.raises(
        ConfigurationError, match="timeout is a number of seconds, more than 0 and at most 86400"
    ):
        PostgreSQLStore(f"postgresql://localhost/bots?timeout={text}")


def test_passwords_do_not_show():
    store = PostgreSQLStore("postgresql://ada:secret@db.example:5433/bots?schema=mine")
    assert store.place == "postgresql://ada@db.example:5433/bots"


async def test_a_store_serves_one_event_loop_after_the_other(postgresql_url):
    store = PostgreSQLStore(postgresql_url)

    def in_a_loop_of_its_own(number):
        asyncio.run(store.save(turn(number)))

    for number in (1, 2, 3):
        await asyncio.to_thread(in_a_loop_of_its_own, number)
    assert (await store.load("c")).version == 3
    await store.close()


async def test_a_commit_that_a_deadlock_undid_is_written_when_the_other_one_is_through(
    postgresql_url,
):
    store = PostgreSQLStore(postgresql_url)
    url, _, schema = postgresql_url.partition("?schema=")
    await store.save(turn(1))
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    patient = f"-csearch_path={schema} -cdeadlock_timeout=60s"
    async with (
        await psycopg.AsyncConnection.connect(url, options=patient) as other,
        store.lock("c"),
    ):
        await other.execute("SELECT 1 FROM conversations FOR UPDATE")
        saving = asyncio.create_task(store.save(turn(2)))
        while not await (await other.execute(waiting)).fetchall() and not saving.done():
            await asyncio.sleep(0.01)
        # the store's statement holds it, and is undone
        await other.execute("SELECT 1 FROM locks FOR UPDATE")
        await other.commit()
        await saving
    assert (await store.load("c")).version == 2
    await store.close()


async def test_a_cancelled_turn_is_over_before_the_next_one_begins(postgresql_url):
    store = PostgreSQLStore(postgresql_url)
    async with store.lock("d"):
        await store.save(turn(1, "d"))
    url, _, schema = postgresql_url.partition("?schema=")
    entered = asyncio.Event()

    async def cancelled():
        async with store.lock("c"):
            await store.journal("c", 0, '"sent"')
            entered.set()
            await store.save(turn(1))

    async def following():
        async with store.lock("c"):
            loaded = await store.load("c")
            await asyncio.sleep(0.5)  # long enough for a write that was left behind
            await store.save(turn(1 + (loaded.version if loaded else 0)))

    async with await psycopg.AsyncConnection.connect(url) as blocking:
        await blocking.execute(f"LOCK TABLE {schema}.conversations IN EXCLUSIVE MODE")
        first = asyncio.create_task(cancelled())
        await entered.wait()
        await asyncio.sleep(0.2)
        first.cancel()
        second = asyncio.create_task(following())
        await asyncio.sleep(0.3)
        await blocking.rollback()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (first.cancelled(), second.exception()) == (True, None)
    assert await store.records("c") == ('"1"', '"2"')
    await store.close()


async def test_texts_stay_what_they_are_whatever_encoding_the_client_is_told(postgresql_url):
    store, other = (
        PostgreSQLStore(f"{postgresql_url}&client_encoding=LATIN1"),
        PostgreSQLStore(postgresql_url),
    )
    await store.save(Commit(conversation_id="ü€", expected=0, session='"ü€"', record='"€"'))
    for each in (store, other):
        assert (await each.load("ü€")).session == '"ü€"'
        assert [*await each.records("ü€")] == ['"€"']
        await each.close()


async def test_the_tables_are_made_in_a_schema_that_is_there_for_a_user_who_may_make_none(
    postgresql_url, admin
):
    own = f"owner_{admin.schema}"
    admin(f"CREATE ROLE {own} LOGIN")
    admin(f"CREATE SCHEMA {own} AUTHORIZATION {own}")
    url = postgresql_url.partition("?")[0].replace("tester@", f"{own}@")
    store = PostgreSQLStore(url, schema=own)
    await store.save(turn(1))
    assert (await store.load("c")).version == 1
    await store.close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("default_transaction_isolation", "serializable"), ("idle_session_timeout", "900")],
)
async def test_settings_of_a_role_that_would_undo_turns_or_end_locks_are_set_aside(
    postgresql_url, setting, value
):
    urls = [f"{postgresql_url}&options=-c%20{setting}%3D{value}"] * 3
    stores = [PostgreSQLStore(url) for url in urls]
    await asyncio.gather(
        *(store.save(turn(1, f"c{number}")) for number, store in enumerate(stores))
    )
    assert [await shown(store, setting) for store in stores] == [
        {"900": "0"}.get(value, "read committed")
    ] * 3
    for store in stores:
        await store.close()


@pytest.mark.parametrize("use", ["save", "delete"])
async def test_a_definition_that_somebody_pins_while_it_is_dropped_stays_and_harms_nobody(
    postgresql_url, admin, use
):
    store = PostgreSQLStore(postgresql_url)
    pinned = {"definition_sha": "a", "definition_text": "A"}
    await store.save(replace(turn(1), **pinned))
    url, _, schema = postgresql_url.partition("?schema=")
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    pin = """INSERT INTO conversations VALUES ('other', 1, '{}', '', '', false, 0, 0, 'a')"""
    async with await psycopg.AsyncConnection.connect(
        url, options=f"-csearch_path={schema}"
    ) as other:
        await other.execute(pin)
        change = replace(turn(2), definition_sha="b", definition_text="B")
        using = asyncio.create_task(store.save(change) if use == "save" else store.delete("c"))
        while not await (await other.execute(waiting)).fetchall() and not using.done():
            await asyncio.sleep(0.01)
        await other.commit()
        assert await using in (None, True)
    assert await store.definition("a") == "A"
    names = [line.conversation_id for line in await store.list(ListQuery())]
    assert names == (["c", "other"] if use == "save" else ["other"])
    await store.close()


async def test_whoever_is_cancelled_while_taking_a_lock_takes_it_from_nobody(postgresql_url):
    store = PostgreSQLStore(postgresql_url)
    await store.save(turn(1))

    for pause in range(1, 9):
        await entered_after(store, pause)
    assert (await store.load("c")).version == 9
    await store.close()


async def entered_after(store, pause):
    async def enter():
        async with store.lock("c"):
            await asyncio.sleep(1)

    entering = asyncio.create_task(enter())
    await asyncio.sleep(pause * 0.0004)
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    async with store.lock("c"):
        await asyncio.sleep(0.02)
        await store.save(turn(pause + 1))


def test_event_loop_that_cannot_watch_sockets_is_named_with_a_way_out():
    """As the default one of Windows."""

    class Poor(asyncio.SelectorEventLoop):
        def add_reader(self, *_):
            raise NotImplementedError

    async def use():
        await PostgreSQLStore("postgresql://nobody.invalid/x").load("c")

    with (
        asyncio.Runner(loop_factory=Poor) as runner,
        pytest.raises(
            ConfigurationError,
            match=r"cannot be used with Poor, .*loop_factory=asyncio\.SelectorEventLoop",
        ),
    ):
        runner.run(use())


async def listeners(admin):
    """Return the backends that listen for the schema of the test."""
    found = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND query LIKE 'LISTEN %%'"
    )
    return [pid for (pid,) in await asyncio.to_thread(admin, found, admin.schema)]


async def one_listener(admin, other_than=None):
    async def is_there():
        return await listeners(admin) not in ([], [other_than])

    await until(is_there)
    (pid,) = await listeners(admin)
    return pid


async def test_a_message_that_another_process_accepts_wakes_a_worker(postgresql_url, admin):
    store = PostgreSQLStore(f"{postgresql_url}&application_name={admin.schema}")
    other = PostgreSQLStore(postgresql_url)
    async with worker(store, every=3600):
        await one_listener(admin)
        await submit("order", "c", "hello", "r1", store=other)
        await answered(store, "c")
    await other.close()
    await store.close()

    async def nobody_listens():
        return await listeners(admin) == []

    await until(nobody_listens)


async def test_a_worker_that_lost_its_listener_looks_at_intervals_and_listens_again(
    postgresql_url, admin
):
    store, said = PostgreSQLStore(f"{postgresql_url}&application_name={admin.schema}"), []
    async with worker(store, every=0.2, said=said):
        first = await one_listener(admin)
        assert admin("SELECT pg_terminate_backend(%s)", first) == [(True,)]
        await submit("order", "a", "hello", "r1", store=store)
        await answered(store, "a")
        await one_listener(admin, first)
    assert said == ["an accepted message waits for the next look, because nothing tells of it"]
    await store.close()


async def test_a_listener_that_came_back_wakes_a_worker_for_what_it_missed(postgresql_url, admin):
    store = PostgreSQLStore(f"{postgresql_url}&application_name={admin.schema}")
    async with worker(store, every=3600):
        first = await one_listener(admin)
        admin("SELECT pg_terminate_backend(%s)", first)
        await submit("order", "a", "hello", "r1", store=store)
        await answered(store, "a")
    await store.close()
