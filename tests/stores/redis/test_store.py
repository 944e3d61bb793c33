"""The Redis store keeps the contract, and says what its server would lose."""

from __future__ import annotations

import asyncio
import re
import subprocess
import warnings
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest

import services
from awake import answered, until, worker
from llm_fsm.durable import submit
from llm_fsm.errors import ConfigurationError, StoreError
from llm_fsm.stores.base import Commit, ListQuery, OutboxQuery, Outgoing
from llm_fsm.stores.redis import RedisStore, connection, scripts
from llm_fsm.testing.store_contract.suite import store_suite

pytestmark = pytest.mark.anyio


def turn(number, name="c"):
    return Commit(conversation_id=name, expected=number - 1, session="{}", record=f'"{number}"')


def cli(url, *command):
    address = url.partition("?")[0]
    done = subprocess.run(
        ("redis-cli", "-u", address, *command), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def prefix_of(url):
    return f"{{{url.partition('prefix=')[2]}}}:"


@pytest.mark.parametrize("check", store_suite(shared=True, fenced=True), ids=str)
async def test_redis_keeps_the_contract(check, redis_url):
    async def lose(store, name):
        holder = cli(redis_url, "GET", f"{prefix_of(redis_url)}l:{name}")
        assert cli(redis_url, "DEL", f"{prefix_of(redis_url)}h:{holder}") == "1"

    def make():
        return RedisStore(redis_url)

    await check(make, reopen=make, lose=lose)


async def message_of(awaitable, retryable=False):
    with pytest.raises(StoreError) as caught:
        await awaitable
    assert caught.value.retryable is retryable
    return str(caught.value)


async def test_a_lock_lives_as_long_as_its_lease_is_renewed(redis_url):
    store, other = RedisStore(redis_url, lease=0.3), RedisStore(redis_url)
    async with store.lock("c"):
        with pytest.raises(StoreError, match="busy in another process"):
            async with other.lock("c", timeout=1.0):
                pass
        await store.save(turn(1))
    async with other.lock("c", timeout=1.0):
        await other.save(turn(2))
    await store.close()
    await other.close()


async def test_deleting_leaves_no_key_behind(redis_url):
    store = RedisStore(redis_url)
    pattern = prefix_of(redis_url).replace("{", "[{]").replace("}", "[}]") + "*"
    commit = Commit(
        conversation_id="c",
        expected=0,
        session="{}",
        record="{}",
        request_id="r",
        due=((1.5, "expire"),),
        definition_sha="sha",
        definition_text="{}",
    )
    async with store.lock("c"):
        await store.save(commit)
        await store.journal("c", 1, "{}")
        assert await store.delete("c")
    assert len(cli(redis_url, "--scan", "--pattern", pattern.replace("*", "h:*")).splitlines()) == 1
    await store.close()
    assert cli(redis_url, "--scan", "--pattern", pattern) == ""


async def test_after_a_server_lost_its_data_no_two_processes_hold_one_lock():
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with warnings.catch_warnings(), services.own_server("redis", ("--appendonly", "no")) as server:
        warnings.simplefilter("ignore", RuntimeWarning)
        first, second = RedisStore(server.url), RedisStore(server.url)
        async with first.lock("c"):
            server.kill()
            server.start()
            async with second.lock("c", timeout=5.0), second.lock("d", timeout=5.0):
                assert "its lock was lost" in await message_of(
                    first.journal("c", 1, "{}"), retryable=True
                )
                assert "its lock was lost" in await message_of(first.save(turn(1)), retryable=True)
                with pytest.raises(StoreError, match="busy in another process"):
                    async with first.lock("d", timeout=0.1):
                        pass
                await second.save(turn(1))
        await first.close()
        await second.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--appendonly", "no"), "keeps turns in memory only (appendonly no): set appendonly yes"),
        (
            ("--appendonly", "yes", "--appendfsync", "everysec"),
            "loses the last turns when its machine fails (appendfsync everysec): set appendonly yes",
        ),
        (
            (
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--maxmemory",
                "50mb",
                "--maxmemory-policy",
                "allkeys-lru",
            ),
            "throws conversations away when memory is short (maxmemory-policy allkeys-lru)",
        ),
    ],
)
async def test_a_server_that_would_lose_turns_is_named_with_the_first_use(options, message):
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis", options) as server:
        store = RedisStore(server.url)
        with pytest.warns(RuntimeWarning) as warned:
            await store.save(turn(1))
        assert [message in str(item.message) for item in warned] == [True]
        await store.save(turn(2))
        await store.close()


ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.mark.parametrize(
    ("options", "message", "retryable"),
    [
        (
            ("--requirepass", "secret"),
            "the server wants a password: put user and password into the URL",
            False,
        ),
        (
            ("--maxmemory", "3mb", "--maxmemory-policy", "noeviction"),
            "the server has no memory left: raise maxmemory",
            False,
        ),
        (
            ("--min-replicas-to-write", "1"),
            "the server has fewer replicas than it must have to write",
            True,
        ),
        (
            ("--user", "default", "on", "nopass", "~other:*", "+@all"),
            "the server does not let this user do that: grant it the commands, keys and channels of llm-fsm",
            False,
        ),
        (
            ("--user", "default", "on", "nopass", "~*", "+@all", "-hset"),
            "the server does not let this user do that: grant it the commands, keys and channels of llm-fsm",
            False,
        ),
    ],
)
async def test_what_is_wrong_is_said_with_a_way_out(options, message, retryable):
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis", (*ALWAYS, *options)) as server:
        store = RedisStore(server.url)

        async def fill():
            for number in range(1, 100):
                await store.save(replace(turn(number), session="x" * 300_000, record="x" * 300_000))

        assert message in await message_of(fill(), retryable)
        await store.close()


COMMANDS = re.compile(r"redis\.call\('([A-Z]+)'")


def test_whoever_may_not_write_is_found_out_with_every_command_of_the_scripts():
    others = "".join(
        text for name, text in vars(scripts).items() if name.isupper() and name != "TRY"
    )
    assert set(COMMANDS.findall(others)) == set(re.findall(r"\('([A-Z]+)'", scripts.TRY))


async def test_nothing_is_half_written_by_a_user_who_may_not_use_one_command():
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis") as server:
        whole = replace(turn(1), due=((1.5, "expire"),), definition_sha="sha", definition_text="{}")
        for command in ("del", "hset", "hsetnx", "rpush", "sadd", "zadd", "exists"):
            cli(
                server.url,
                "ACL",
                "SETUSER",
                "bot",
                "reset",
                "on",
                "nopass",
                "~*",
                "+@all",
                f"-{command}",
            )
            store = RedisStore(server.url.replace("//", "//bot:any@"))
            assert "the server does not let this user do that" in await message_of(
                store.save(whole)
            )
            assert cli(server.url, "KEYS", "*") == ""
            cli(server.url, "ACL", "SETUSER", "bot", f"+{command}")
            await store.save(whole)
            assert await store.delete("c")
            assert cli(server.url, "KEYS", "*") == ""
            await store.close()


async def test_a_user_who_may_not_write_loses_nothing_that_sinks_have_still_to_be_told():
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis") as server:
        cli(server.url, "ACL", "SETUSER", "bot", "on", "nopass", "~*", "+@all", "-rpush")
        store, bot = RedisStore(server.url), RedisStore(server.url.replace("//", "//bot:any@"))
        await store.save(
            replace(turn(1), outbox=tuple(Outgoing(sink="s", key=key, text="{}") for key in "ab"))
        )
        rows = await store.outbox(OutboxQuery(sink="s"))
        assert "the server does not let this user do that" in await message_of(
            bot.acknowledge(rows[0])
        )
        assert await store.outbox(OutboxQuery(sink="s")) == rows
        await store.close()
        await bot.close()


@asynccontextmanager
async def address_of(first, second):
    """An address that leads new connections to the second port once it is told so; those that stand
    stay.
    """
    ports, served = [first], []

    async def pass_on(reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()
            await writer.wait_closed()

    async def connected(reader, writer):
        upstream = await asyncio.open_connection("127.0.0.1", ports[0])
        served.append(asyncio.gather(pass_on(reader, upstream[1]), pass_on(upstream[0], writer)))

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield (
            f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0",
            lambda: ports.insert(0, second),
        )
    finally:
        listening.close()
        await asyncio.gather(*served)


async def test_a_store_goes_with_its_address_when_a_replica_takes_over():
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    at_once = (*ALWAYS, "--repl-diskless-sync-delay", "0")
    with services.own_server("redis", at_once) as old, services.own_server("redis", at_once) as new:
        cli(new.url, "REPLICAOF", "127.0.0.1", str(old.port))
        async with AsyncExitStack() as stack:
            url, fail_over = await stack.enter_async_context(address_of(old.port, new.port))
            # on a busy machine the usual ten seconds may pass before a lease is renewed, or a
            # server answers
            store = RedisStore(url, timeout=services.PATIENCE, lease=services.PATIENCE)
            stack.push_async_callback(store.close)
            async with store.lock("c"):
                await asyncio.gather(*(store.save(turn(1, name)) for name in "cde"))
                await asyncio.to_thread(
                    services.until, lambda: cli(new.url, "ZCARD", "{llm-fsm}:all") == "3"
                )
                cli(new.url, "REPLICAOF", "NO", "ONE")
                cli(old.url, "REPLICAOF", "127.0.0.1", str(new.port))
                fail_over()
                await store.save(turn(2))
            for number in (2, 3):
                await asyncio.gather(*(store.save(turn(number, name)) for name in "de"))
            assert [line.turns for line in await store.list(ListQuery())] == [2, 3, 3]
            cli(new.url, "REPLICAOF", "127.0.0.1", str(old.port))
            said = await message_of(store.save(turn(3)), retryable=True)
            assert "the server is a read-only replica: use the primary" in said


@pytest.mark.parametrize("url", ["redis://host:port", "redis://host/0?colour=red"])
def test_a_url_that_is_none_is_a_configuration_error(url):
    with pytest.raises(
        ConfigurationError, match="no URL of a Redis server; for example redis://localhost:6379/0"
    ):
        RedisStore(url)


@pytest.mark.parametrize("name", ["timeout", "lease"])
@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_setting_that_is_no_time_is_a_configuration_error(name, text):
    with pytest.raises(
        ConfigurationError, match=f"{name} is a number of seconds, more than 0 and at most 86400"
    ):
        RedisStore(f"redis://localhost/0?{name}={text}")


def test_a_socket_is_named_by_its_path():
    store = RedisStore("unix:///run/redis.sock?db=1&prefix=a%20b&timeout=3&lease=4")
    assert (store.place, store.prefix, store.timeout, store.lease) == (
        "unix:///run/redis.sock",
        "{a b}:",
        3.0,
        4.0,
    )


def test_passwords_do_not_show():
    assert RedisStore("redis://ada:secret@db.example:6380/1").place == "redis://db.example:6380/1"


async def test_a_lock_granted_after_its_time_out_is_free_for_others_while_the_process_holds_another():
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis", ALWAYS) as server:
        store, other = (RedisStore(server.url, timeout=1.0, lease=1.0) for _ in range(2))
        await asyncio.gather(store.load("c"), other.load("c"))
        async with store.lock("c"):
            server.freeze()
            with pytest.raises(StoreError, match="did not answer within 1 seconds"):
                async with store.lock("d"):
                    pass
            server.thaw()
            async with other.lock("d", timeout=5.0):
                await other.save(turn(1, "d"))
            async with store.lock("e"):
                await store.save(turn(1))
        await store.close()
        await other.close()


@pytest.mark.parametrize(
    ("write", "use"),
    [
        (("HSET", "c:c", "version", "many"), lambda store: store.list(ListQuery())),
        (("HSET", "c:c", "version", "many"), lambda store: store.load("c")),
        (("HDEL", "c:c", "created"), lambda store: store.list(ListQuery())),
        (("HSET", "c:c", "session", b"\xff"), lambda store: store.load("c")),
        (("LPUSH", "r:c", b"\xff"), lambda store: store.records("c")),
        (("ZADD", "due", "0", "garbage"), lambda store: store.due(9.0)),
    ],
)
async def test_what_another_program_wrote_into_a_conversation_is_damage(redis_url, write, use):
    store = RedisStore(redis_url)
    await store.save(turn(1))
    command, key, *values = write
    cli(redis_url, command, prefix_of(redis_url) + key, *values)
    assert "what the server keeps of a conversation is damaged" in await message_of(use(store))
    await store.close()


async def one_listener(url, other_than=None):
    """Wait for a subscription to the channel of the test, and return the id of its connection."""

    async def is_there():
        return subscriptions(url) == 1 and listener(url) != other_than

    await until(is_there)
    return listener(url)


def subscriptions(url):
    return int(cli(url, "PUBSUB", "NUMSUB", f"{prefix_of(url)}wake").split()[-1])


def listener(url):
    """Return the id of the newest connection that listens."""
    found = re.findall(r"(?m)^id=(\d+)", cli(url, "CLIENT", "LIST", "TYPE", "pubsub"))
    return found[-1] if found else None


async def test_a_message_that_another_process_accepts_wakes_a_worker(redis_url):
    store, other = RedisStore(redis_url), RedisStore(redis_url)
    async with worker(store, every=3600):
        await one_listener(redis_url)
        await submit("order", "c", "hello", "r1", store=other)
        await answered(store, "c")
    assert subscriptions(redis_url) == 0
    await other.close()
    await store.close()


async def test_a_worker_that_lost_its_listener_looks_at_intervals_and_listens_again(redis_url):
    store, said = RedisStore(redis_url), []
    async with worker(store, every=0.2, said=said):
        first = await one_listener(redis_url)
        assert cli(redis_url, "CLIENT", "KILL", "ID", first) == "1"
        await submit("order", "a", "hello", "r1", store=store)
        await answered(store, "a")
        await one_listener(redis_url, first)
    assert said == ["an accepted message waits for the next look, because nothing tells of it"]
    await store.close()


async def test_a_server_that_answers_no_probe_is_no_longer_listened_to(monkeypatch):
    monkeypatch.setattr(connection, "_PROBE_SECONDS", 0.1)
    woken = []
    if (reason := services.missing("redis")) is not None:
        pytest.skip(reason)
    with services.own_server("redis") as server:
        store = RedisStore(server.url, timeout=0.5)
        listening = asyncio.create_task(store.listen(lambda: woken.append(1)))
        await asyncio.sleep(0.5)
        assert woken == [1]
        assert not listening.done()
        server.freeze()
        assert "did not answer within" in await message_of(listening, retryable=True)
        server.thaw()
        await store.close()
