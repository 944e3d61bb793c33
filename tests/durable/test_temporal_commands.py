"""The commands with `--temporal`: who works, who gives work, who deletes, and what a bad server is
told by.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.service import RPCError

import warm_parent
from cli_command import Desk, command, desk
from llm_fsm.durable import temporal
from llm_fsm.stores.registry import resolve
from services import free_port
from temporal_server import TemporalServer
from temporal_worker import ECHO, machines
from temporal_workers import begin, end

__all__ = ["desk"]


def inputs(desk: Desk, count: int) -> tuple[str, ...]:
    """A file of conversations, and the options that play it."""
    desk.write("echo.json", ECHO)
    lines = [json.dumps({"messages": [f"{number}", "more"]}) for number in range(count)]
    desk.write("inputs.jsonl", "\n".join(lines))
    return "run", "echo.json", "--batch", "inputs.jsonl", "-o", "results.jsonl"


def lines_of(desk: Desk) -> list[int]:
    path = desk.folder / "results.jsonl"
    return (
        [json.loads(line)["line"] for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


def until(check: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_workflow(server: TemporalServer, name: str) -> bool:
    async def described() -> bool:
        client = await temporal.connect(server.address)
        try:
            await client.get_workflow_handle(f"llm-fsm/{name}").describe()
        except RPCError:
            return False
        return True

    return asyncio.run(described())


def talk(server: TemporalServer, *names: str) -> None:
    """Say hello in conversations, through Temporal."""

    async def sent() -> None:
        client = await temporal.connect(server.address)
        for name in names:
            await temporal.send(client, temporal.Ask("echo", name, "send", "hello", "r1"))

    asyncio.run(sent())


def test_the_command_gives_a_batch_to_workers(
    server: TemporalServer, folder: Path, desk: Desk
) -> None:
    store, ledger = f"sqlite:///{folder}/command.db", folder / "command.ledger"
    play = inputs(desk, 30)
    worker = begin(server, store, ledger)
    try:
        done = desk.run(*play, "--db", store, "--model", "offline", "--temporal", server.address)
        assert done.code == 0, done.err
    finally:
        end([worker])
    assert lines_of(desk) == list(range(1, 31))
    assert ledger.read_bytes().count(b"\n") >= 30  # the worker asked the model, and not the command


def test_a_server_is_a_worker_and_deletes_workflows(
    server: TemporalServer, folder: Path, desk: Desk
) -> None:
    common = (
        "--db",
        f"sqlite:///{folder}/served.db",
        "--model",
        "offline",
        "--temporal",
        server.address,
    )
    play = inputs(desk, 1)
    port = free_port()
    serving = warm_parent.Popen(
        command("serve", "echo.json", "--port", str(port), *common), cwd=desk.folder
    )
    try:
        done = desk.run(*play, *common)
        assert (done.code, "1 of 1" in done.err) == (0, True)
        talk(server, "by-rest", "by-command", "by-label")
        assert has_workflow(server, "by-rest")
        where = f"http://127.0.0.1:{port}/conversations/by-rest"
        urllib.request.urlopen(urllib.request.Request(where, method="DELETE")).close()
        until(lambda: not has_workflow(server, "by-rest"))
    finally:
        serving.terminate()
        assert serving.wait(60) == 0
    with_temporal = ("--yes", "--db", common[1], "--temporal", server.address)
    assert desk.run("conversations", "delete", "by-command", *with_temporal).code == 0
    until(lambda: not has_workflow(server, "by-command"))
    assert has_workflow(server, "by-label")
    assert desk.run("conversations", "delete", "--before", "2999-01-01", *with_temporal).code == 0
    until(lambda: not has_workflow(server, "by-label"))


def test_a_worker_and_a_batch_wait_for_a_server_that_is_away_and_comes_back(
    folder: Path, desk: Desk
) -> None:
    place = folder / "away"
    place.mkdir()
    own = TemporalServer(place)
    common = ("--db", f"sqlite:///{place}/away.db", "--model", "offline", "--temporal", own.address)
    play = inputs(desk, 200)
    told = {"worker": desk.folder / "worker.err", "batch": desk.folder / "batch.err"}
    commands = {"worker": ("worker", "echo.json", *common), "batch": (*play, *common)}
    running: dict[str, subprocess.Popen[bytes]] = {}
    for name, path in told.items():
        with path.open("wb") as file:
            running[name] = warm_parent.Popen(
                command(*commands[name]), cwd=desk.folder, stderr=file, stdout=file
            )
    said = f"Temporal at {own.address} does not answer; it is waited for"
    try:
        for path in told.values():
            until(lambda: said in path.read_text())  # noqa: B023
        own.start()
        until(lambda: lines_of(desk))
        own.kill()
        time.sleep(2)
        own.start()
        assert running["batch"].wait(60) == 0
        running["worker"].terminate()
        assert running["worker"].wait(60) == 0
    finally:
        end(running.values())
        own.kill()
    assert lines_of(desk) == list(range(1, 201))
    assert told["worker"].read_text().count(said) == 1
    assert told["batch"].read_text().count(said) <= 2  # once an outage
    assert not any("WARN" in path.read_text() for path in told.values())


def test_a_namespace_that_is_not_there_is_said_once(
    server: TemporalServer, folder: Path, desk: Desk
) -> None:
    store = f"sqlite:///{folder}/namespace.db"
    common = ("--db", store, "--model", "offline", "--temporal", f"{server.address}/elsewhere")
    play = inputs(desk, 1)
    said = f"Temporal at {server.address} has no namespace 'elsewhere': make it, or name another"
    for begun in (("worker", "echo.json"), ("serve", "echo.json", "--port", "0"), play):
        done = desk.run(*begun, *common)
        assert done.code == 3, done.err
        assert " ".join(done.err.split()).count(said) == 1, done.err
    assert (desk.folder / "results.jsonl").exists() is False or lines_of(desk) == []


@pytest.mark.parametrize("away", ["127.0.0.1:1", "namespace"])
def test_a_deletion_succeeds_though_its_workflow_cannot_be_deleted(
    server: TemporalServer, desk: Desk, away: str
) -> None:
    address = f"{server.address}/elsewhere" if away == "namespace" else away
    store = f"sqlite:///{desk.folder}/bots.db"

    async def begun() -> list[str]:
        *_, waiter = machines(resolve(store), str(desk.folder / "ledger"))
        for name in ("a", "b"):
            await waiter.run(conversation_id=name)
        await waiter.close()
        return ["a", "b"]

    asyncio.run(begun())
    options = ("--before", "2999-01-01", "--yes", "--db", store, "--temporal", address)
    done = desk.run("conversations", "delete", *options)
    assert (done.code, "deleted 2 conversations" in done.err) == (0, True)
    assert done.err.count("keeps the messages") == 1


@pytest.mark.parametrize(
    "address", ["localhost", "localhost:", ":7233", "http://localhost:7233", "a b:1", "h:7233/"]
)
def test_an_address_that_is_none_is_a_fault_of_usage(desk: Desk, address: str) -> None:
    play = inputs(desk, 1)
    done = desk.run(*play, "--db", "sqlite:///bots.db", "--temporal", address)
    assert (done.code, "HOST:PORT" in done.err) == (2, True)


def test_temporal_belongs_to_a_batch_and_to_a_store_that_workers_share(desk: Desk) -> None:
    play = inputs(desk, 1)
    assert desk.run("run", "echo.json", "--temporal", "localhost:7233").code == 2
    assert desk.run(*play, "--db", "memory", "--temporal", "localhost:7233").code == 2
