"""Proxies: which variables count for which address, and what is never asked through one."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientHttpProxyError
from yarl import URL

from llm_fsm.engine.outbox.sinks import Delivery
from llm_fsm.engine.outbox.webhook import RefusedError, Webhook
from llm_fsm.errors import ConfigurationError, ModelError
from llm_fsm.llm.openai.client import CompatLLM
from llm_fsm.llm.openai.connection import proxy_for
from llm_fsm.llm.retry import RetryPolicy
from llm_fsm.testing.server.server import serve_scripted
from llm_requests import request

pytestmark = pytest.mark.anyio
ADA = "Basic " + b64encode(b"ada:pw").decode()


@pytest.mark.parametrize(
    ("set_to", "url", "found"),
    [
        ({}, "https://api.example/v1", None),
        ({"https_proxy": "http://p:3128"}, "https://api.example/v1", "http://p:3128"),
        ({"HTTPS_PROXY": "p:3128"}, "https://api.example/v1", "http://p:3128"),
        ({"https_proxy": "http://p:3128"}, "http://api.example/v1", None),
        ({"http_proxy": "http://p:3128"}, "http://api.example/v1", "http://p:3128"),
        ({"all_proxy": "https://p"}, "http://api.example/v1", "https://p"),
        ({"all_proxy": "http://p", "no_proxy": "example,other"}, "https://api.example/v1", None),
        ({"all_proxy": "http://p", "no_proxy": "other"}, "https://api.example/v1", "http://p"),
        ({"all_proxy": "http://p", "no_proxy": "*"}, "https://api.example/v1", None),
        (
            {"all_proxy": "http://p", "no_proxy": "api.example:8000"},
            "http://api.example:8000/v1",
            None,
        ),
        ({"all_proxy": "http://p", "no_proxy": "api.example:443"}, "https://api.example./v1", None),
        (
            {"all_proxy": "http://p", "no_proxy": "api.example:80"},
            "https://api.example/v1",
            "http://p",
        ),
        *(
            ({"all_proxy": "http://p"}, f"http://{host}:11434/v1", None)
            for host in (
                "localhost",
                "LOCALHOST",
                "a.localhost",
                "127.0.0.1",
                "127.8.9.1",
                "[::1]",
                "0.0.0.0",
            )
        ),
    ],
)
def test_an_address_is_asked_through_the_proxy_that_the_environment_names(
    set_to: dict[str, str], url: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    proxy = proxy_for(URL(url))
    assert (None if proxy is None else str(proxy).rstrip("/")) == found


@pytest.mark.parametrize("named", ["socks5://ada:pw@p:1080", "http://", "http://p:port"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(
        ConfigurationError, match=r"\(https_proxy.*no_proxy=api.example asks directly"
    ) as caught:
        CompatLLM("m", base_url="https://api.example/v1")
    assert "pw" not in str(caught.value)


@asynccontextmanager
async def proxy_that_answers(answer: bytes) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy on the loopback, and the heads of the requests that it has seen."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


async def test_a_request_without_tls_is_given_to_the_proxy_with_its_whole_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve_scripted(["hi", "ho"]) as server:
        monkeypatch.setenv(
            "http_proxy", server.base_url.replace("//", "//ada:pw@").removesuffix("/v1")
        )
        llm = CompatLLM("m", base_url="http://api.example/v1?a=b", api_key="sk-1")
        assert [(await llm.complete(request())).text for _ in range(2)] == ["hi", "ho"]
        await llm.aclose()
    seen = server.requests[0].headers
    assert (seen["host"], seen["authorization"], seen["proxy-authorization"]) == (
        "api.example",
        "Bearer sk-1",
        ADA,
    )


async def test_a_request_with_tls_asks_the_proxy_for_a_tunnel_and_shows_it_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxy_that_answers(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as (
        place,
        heads,
    ):
        monkeypatch.setenv("https_proxy", f"http://ada:pw@{place}")
        llm = CompatLLM(
            "m", base_url="https://api.example/v1", api_key="sk-1", retry=RetryPolicy(attempts=1)
        )
        with pytest.raises(ModelError) as caught:
            await llm.complete(request())
        await llm.aclose()
    said = f"cannot connect to https://api.example/v1 (through the proxy http://{place}), which answered 407: Who are"
    assert (said in str(caught.value), caught.value.retryable) == (True, False)
    assert heads[0].startswith("CONNECT api.example:443 HTTP/1.1\r\n")
    assert f"Proxy-Authorization: {ADA}\r\n" in heads[0]
    assert "sk-1" not in heads[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_webhook_goes_through_the_proxy(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy_that_answers(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as (
        place,
        heads,
    ):
        monkeypatch.setenv(f"{scheme}_proxy", f"http://ada:pw@{place}")
        hook = Webhook(f"{scheme}://api.example/hook", headers={"X-Token": "t"})
        with pytest.raises((RefusedError, ClientHttpProxyError), match="403"):
            await hook(
                Delivery(
                    key="k",
                    conversation_id="c",
                    record=1,
                    index=0,
                    definition="d",
                    kind="message",
                    state="s",
                )
            )
        await hook.aclose()
    assert f"Proxy-Authorization: {ADA}\r\n" in heads[0]
    assert ("X-Token" in heads[0]) == (scheme == "http")
