"""A sink that posts each event as JSON to a URL, with the event's key in the header `Idempotency-Key`.

A status of 200 to 299 means that it was taken. Any other status is retried later, redirects included. The environment
names the proxy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp
from yarl import URL

from llm_fsm._text import is_address
from llm_fsm.engine.outbox.sinks import Delivery
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.openai.connection import proxy_for


class RefusedError(Exception):
    """The URL did not accept an event."""


class Webhook:
    """A webhook: a URL that receives one POST for each event.

    Args:
        url: An http:// or https:// URL.
        headers: Further headers, such as a token.

    Raises:
        ConfigurationError: The URL or a header is wrong.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str]) -> None:
        if not is_address(url):
            raise ConfigurationError(f"a sink is a function or an http:// or https:// address, not {url!r}")
        self._url = url.strip()
        parts = urlsplit(self._url)
        self._where = f"{parts.scheme}://{parts.hostname}{parts.path}"
        self._headers = {"User-Agent": "llm-fsm", **headers}
        self._options: dict[str, Any] = {"allow_redirects": False}
        if (proxy := proxy_for(URL(self._url))) is not None:
            self._options["proxy"] = proxy
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    async def __call__(self, delivery: Delivery) -> None:
        """Post one event.

        Raises:
            RefusedError: The status was not 200 to 299.
            aiohttp.ClientError: The URL could not be reached.
        """
        headers = {**self._headers, "Idempotency-Key": delivery.key}
        async with self._session().post(self._url, json=asdict(delivery), headers=headers, **self._options) as response:
            if not 200 <= response.status < 300:
                raise RefusedError(f"{self._where} answered {response.status}")

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())  # a proxy would see its headers
            self._sessions[loop] = session
        return session
