"""Releases of a server: read and replaced by managers, counted in figures, found in its folder."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.cli.fleet import Brought, Fleet
from llm_fsm.server import create_app
from llm_fsm.server.tokens import Tokens, add_token
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from served import client_at, served
from shops import RELEASE, STABLE, write_release


@pytest.fixture
def shop(tmp_path):
    """A server of a release, with clients by rights."""
    machine = AsyncMachine.from_release(write_release(tmp_path), model="offline")
    file = tmp_path / "tokens.json"
    secrets = {
        "boss": add_token(file, "boss", rights=["manage", "talk", "metrics"]),
        "user": add_token(file, "user", rights=["talk"]),
    }
    app = create_app(machine, tokens=Tokens.from_file(file), due_seconds=None)
    with served(app) as url, client_at(url) as client:

        def ask(name: str, method: str, path: str, body: Any = None):
            headers = {"Authorization": f"Bearer {secrets[name]}"}
            return client.request(method, path, json=body, headers=headers)

        yield SimpleNamespace(ask=ask, path=tmp_path / "shop.release.json")


def test_a_manager_reads_and_replaces_a_release(shop):
    read = shop.ask("boss", "GET", "/releases/shop").json()
    assert (read["share"], read["candidate"]) == (0.5, "shop-2.json")
    assert read["arms"]["stable"]["conversations"] == 0
    wish = {**RELEASE, "share": 1}
    del wish["salt"]
    answer = shop.ask("boss", "PUT", "/releases/shop", wish)
    assert (answer.status_code, answer.json()["share"]) == (200, 1)
    assert json.loads(shop.path.read_text()) == wish
    begun = shop.ask("boss", "POST", "/conversations", {"definition": "shop"}).json()
    assert begun["greeting"] == "What may it be?"
    assert (
        shop.ask("boss", "GET", "/releases/shop").json()["arms"]["candidate"]["conversations"] == 1
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"share": 2}, "from 0 to 1"),
        ({"candidate": "none.json"}, "none.json"),
        ({"stable": "/etc/passwd"}, "stable"),
        ({"stable": "tokens.json"}, "tokens.json"),
    ],
)
def test_a_release_at_fault_is_refused(shop, changes, said):
    before = shop.path.read_text()
    answer = shop.ask("boss", "PUT", "/releases/shop", {**RELEASE, **changes})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert shop.path.read_text() == before


def test_others_may_neither_read_nor_replace(shop):
    assert shop.ask("user", "GET", "/releases/shop").status_code == 403
    assert shop.ask("user", "PUT", "/releases/shop", RELEASE).status_code == 403
    assert shop.ask("boss", "GET", "/releases/other").status_code == 404


def test_figures_for_prometheus_name_release_and_arm(shop):
    shop.ask("boss", "PUT", "/releases/shop", {**RELEASE, "share": 1})
    shop.ask("boss", "POST", "/conversations", {"definition": "shop"})
    wish = 'llm_fsm_turns_total{arm="candidate",definition="shop",kind="start",release="shop",'
    assert wish in shop.ask("boss", "GET", "/metrics").text


def fleet_of(path, store=None):
    brought = Brought(
        paths=(str(path),),
        model="offline",
        base_url=None,
        timeout=None,
        db=None,
        tools=(),
        mcp=None,
    )
    return Fleet(brought, store or MemoryStore())


def test_a_folder_with_a_release_is_served(tmp_path):
    write_release(tmp_path)
    other = {**STABLE, "name": "other"}
    (tmp_path / "other.json").write_text(json.dumps(other))
    fleet = fleet_of(tmp_path)
    found = {machine.definition.name: machine.release for machine in fleet.machines()}
    assert found.keys() == {"shop", "other"}
    assert found["other"].release.share == 0
    assert found["shop"].release.share == 0.5
    assert fleet.changed() == []
    write_release(tmp_path, share=0.75)
    [again] = fleet.changed()
    assert again.release.release.share == 0.75


def test_a_release_is_served_by_its_name(tmp_path):
    path = write_release(tmp_path)
    [machine] = fleet_of(path).machines()
    assert machine.release.path == str(path)


@pytest.fixture
def two_servers(tmp_path):
    """Clients of two servers that share a database and no disk."""
    with ExitStack() as stack:
        clients = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            write_release(tmp_path / name).unlink()
            store = SQLiteStore(tmp_path / "shop.db")
            [machine] = fleet_of(tmp_path / name / "shop.json", store).machines()
            file = tmp_path / name / "tokens.json"
            secret = add_token(file, "boss", rights=["manage", "talk"])
            app = create_app(machine, tokens=Tokens.from_file(file), due_seconds=None)
            client = stack.enter_context(client_at(stack.enter_context(served(app))))
            client.headers["Authorization"] = f"Bearer {secret}"
            clients.append(client)
        yield clients


def greeting_at(client):
    return client.post("/conversations", json={"definition": "shop"}).json()["greeting"]


def test_a_release_that_one_server_takes_counts_on_the_other(two_servers):
    one, two = two_servers
    nobody = one.get("/releases/shop").json()
    assert (nobody["share"], nobody["source"], nobody["version"]) == (0, "store", 1)
    answer = one.put("/releases/shop", json={**RELEASE, "share": 1})
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    assert {greeting_at(client) for client in two_servers} == {"What may it be?"}
    read = two.get("/releases/shop").json()
    assert (read["share"], read["source"], read["version"]) == (1, "store", 2)
    assert read["arms"]["candidate"]["conversations"] == 2
    assert two.put("/releases/shop", json={**RELEASE, "share": 0}).status_code == 200
    assert {greeting_at(client) for client in two_servers} == {"Which item?"}


def test_a_change_to_an_older_version_is_refused(two_servers):
    one, two = two_servers
    assert one.put("/releases/shop", json={**RELEASE, "version": 1}).status_code == 200
    late = two.put("/releases/shop", json={**RELEASE, "share": 1, "version": 1})
    assert (late.status_code, late.json()["title"]) == (409, "Conflict")
    assert "it is version 2" in late.json()["detail"]
    assert two.get("/releases/shop").json()["share"] == 0.5
    assert two.put("/releases/shop", json={**RELEASE, "share": 1, "version": 2}).is_success


def test_a_release_file_beside_a_named_definition_counts(tmp_path):
    path = write_release(tmp_path, share=1)
    [machine] = fleet_of(path.with_name("shop.json")).machines()
    assert machine.release.release.share == 1
