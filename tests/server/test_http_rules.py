"""The rules of HTTP hold at every address, with whatever name the definition has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm import AsyncMachine
from llm_fsm.server import create_app
from llm_fsm.server.http_rules import accepts
from llm_fsm.testing import ScriptedLLM
from machines import GREETER
from served import client_at, served

RUN = {
    "threadId": "t",
    "runId": "r",
    "state": {},
    "messages": [],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM([]))
    app = create_app(machine, closes=True, due_seconds=None, workbench=True)
    with served(app) as url, client_at(url) as found:
        yield found


@pytest.fixture(scope="module")
def addresses(client: httpx.Client) -> dict[str, set[str]]:
    """Every address of the OpenAPI document, and those beside it, with their methods."""
    found = {
        re.sub(r"\{[a-z_]+\}", "x", path): {method.upper() for method in operations} & set(METHODS)
        for path, operations in client.get("/openapi.json").json()["paths"].items()
    }
    beside = ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/assets/chat.js")
    return {**found, **{place: {"GET"} for place in beside}, "/mcp": {"POST"}}


def allowed(answer: httpx.Response) -> set[str]:
    return {name.strip() for name in answer.headers["allow"].split(",")}


def told(methods: set[str]) -> set[str]:
    return methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())


def test_options_names_every_method_of_every_address(
    client: httpx.Client, addresses: dict[str, set[str]]
) -> None:
    assert len(addresses) > 30
    for place, methods in addresses.items():
        answer = client.options(place)
        assert (answer.status_code, answer.content, allowed(answer)) == (204, b"", told(methods)), (
            place
        )
        assert "content-length" not in answer.headers or answer.headers["content-length"] == "0"
    assert client.options("/nowhere").status_code == 404


def test_another_method_is_refused_with_those_of_the_address(
    client: httpx.Client, addresses: dict[str, set[str]]
) -> None:
    for place, methods in addresses.items():
        for method in {*METHODS, "HEAD"} - told(methods):
            for kind in ("text/plain", "application/json"):
                body = None if method in ("GET", "HEAD", "DELETE") else b"{}"
                answer = client.request(method, place, content=body, headers={"Content-Type": kind})
                assert (answer.status_code, allowed(answer)) == (405, told(methods)), (
                    method,
                    place,
                )


def test_head_is_get_without_the_body_at_every_address(
    client: httpx.Client, addresses: dict[str, set[str]]
) -> None:
    for place, methods in addresses.items():
        # figures of requests change with each request
        if "GET" not in methods or place == "/metrics":
            continue
        plain = {"Accept-Encoding": "identity"}
        whole, head = client.get(place, headers=plain), client.head(place, headers=plain)
        assert (head.status_code, head.content) == (whole.status_code, b""), place
        assert head.headers.get("content-type") == whole.headers.get("content-type"), place
        if whole.status_code == 200:
            assert head.headers.get("content-length") == whole.headers.get("content-length"), place


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({"Content-Type": "text/plain"}, "Accept"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "Accept"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "Accept-Encoding"),
    ],
)
def test_a_body_of_another_type_is_refused_with_the_type_that_is_right(
    client: httpx.Client, addresses: dict[str, set[str]], headers: dict[str, str], names: str
) -> None:
    for place, methods in addresses.items():
        if "POST" in methods:
            answer = client.post(place, content=b"a=1", headers=headers)
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (
                415,
                "unsupported-media-type",
            )
            assert names in answer.headers, place


def test_an_answer_that_the_client_excludes_is_none(
    client: httpx.Client, addresses: dict[str, set[str]]
) -> None:
    for place, methods in addresses.items():
        if "POST" in methods:
            answer = client.post(place, json={}, headers={"Accept": "image/png"})
            assert answer.status_code == 406, place
        if "GET" in methods and client.head(place).status_code == 200:
            assert client.get(place, headers={"Accept": "image/png"}).status_code == 406, place
            kind = client.head(place).headers["content-type"].partition(";")[0]
            for accept in (
                kind,
                f"{kind.partition('/')[0]}/*;q=0.1",
                f"image/png, {kind};q=0.5",
                "*/*",
            ):
                assert client.get(place, headers={"Accept": accept}).status_code == 200, (
                    place,
                    accept,
                )
    assert client.get("/conversations").json()["conversations"] == []  # nothing was done


@pytest.mark.parametrize(
    ("accept", "kind", "taken"),
    [
        ([], "application/json", True),
        ([""], "application/json", True),
        (["application/json"], "application/json; charset=utf-8", True),
        (["APPLICATION/JSON"], "application/json", True),
        (["text/html", "application/*"], "application/json", True),
        (["*/*;q=0"], "application/json", False),
        (["*/*, application/json;q=0"], "application/json", False),
        (["application/*;q=0, application/json"], "application/json", True),
        (["application/json;q=x"], "application/json", True),
        (["text/event-stream"], "application/json", False),
    ],
)
def test_accept_is_read_by_its_most_specific_range(
    accept: list[str], kind: str, taken: bool
) -> None:
    assert accepts(accept, kind) is taken


@given(st.text(), st.text())
def test_any_accept_header_can_be_read(header: str, kind: str) -> None:
    assert accepts([header], kind) in (True, False)


NAMES = [
    "pizza/order",
    "größe",
    "a b",
    "100%",
    "?#",
    "日本",
    "v1",
    "schema",
    "a/schema",
    "a:b",
    "%2F",
    "x" * 300,
]
UNSENT = ["..", ".", ""]
"""Names that no client can send in a path."""


def test_a_name_that_the_loader_takes_works_at_every_address() -> None:
    names = [*NAMES, *UNSENT]
    machines = [
        AsyncMachine.from_dict({**GREETER, "name": name}, model="offline") for name in names
    ]
    app = create_app(machines, closes=True, due_seconds=None)
    with served(app) as url, client_at(url) as client:
        for name in names:
            name_works(client, name)


def name_works(client: httpx.Client, name: str) -> None:
    [listed] = [
        one for one in client.get("/definitions").json()["definitions"] if one["name"] == name
    ]
    addresses = [listed["sha256"], *(() if name in UNSENT else [quote(name, safe="")])]
    for address in addresses:
        assert client.get(f"/definitions/{address}").json()["name"] == name
        assert client.get(f"/definitions/{address}/schema").status_code == 200
        assert client.get(f"/definitions/{address}/diagram?format=mermaid").status_code == 200
        assert client.get(f"/v1/models/{address}").json()["id"] == name
        assert client.post(f"/ag-ui/{address}", json=RUN).status_code == 200
    begun = client.post("/conversations", json={"definition": name})
    assert begun.status_code == 201, begun.text
    assert name in [one["id"] for one in client.get("/v1/models").json()["data"]]
    said = {"model": name, "messages": [{"role": "user", "content": "Ada"}]}
    assert client.post("/v1/chat/completions", json=said).status_code == 200
    assert client.post("/v1/responses", json={"model": name, "input": "Ada"}).status_code == 200
    wanted = {"definition": name} if name else {}
    assert client.get("/conversations", params=wanted).json()["conversations"]


@pytest.mark.parametrize("given", ["a/b", "a%2Fb", "größe", "a b", "../x", "?", "x" * 190])
def test_an_id_of_a_conversation_works_in_every_path(given: str) -> None:
    machine = AsyncMachine.from_dict(GREETER, model="offline")
    asyncio.run(machine.start(conversation_id=given))
    app = create_app(machine, closes=True, due_seconds=None)
    with served(app) as url, client_at(url) as client:
        place = f"/conversations/{quote(given, safe='')}"
        assert client.get(place).json()["id"] == given
        assert client.post(f"{place}/messages", json={"text": "Ada"}).status_code == 200
        assert client.get(f"{place}/turns").status_code == 200
        assert client.delete(place).status_code == 204
