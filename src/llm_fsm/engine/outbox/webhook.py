"""A sink that posts each event as JSON to a URL.

The header `Idempotency-Key` has the key of the event.

With a secret it signs as Standard Webhooks do (https://www.standardwebhooks.com): `webhook-id`,
`webhook-timestamp` and `webhook-signature`, which is "v1," and the base64 of HMAC-SHA256 over
"id.timestamp.body".

A status of 200 to 299 means that it was taken. Any other status is retried later, redirects
included. The environment names the proxy.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import time
from dataclasses import asdict
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp
from yarl import URL

from llm_fsm._json import JsonDict, TextMap
from llm_fsm._text import is_address, sha256_of
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.errors import ConfigurationError
from llm_fsm.llm.openai.connection import proxy_for


class RefusedError(Exception):
    """The URL did not accept an event."""


class Webhook:
    """A webhook: a URL that receives one POST for each event.

    Args:
        url: An http:// or https:// URL.
        headers: Further headers, such as a token.
        secret: The secret for signatures; None: none. After "whsec_" it is base64.

    Raises:
        ConfigurationError: The URL or a header is wrong.
    """

    def __init__(self, url: str, *, headers: TextMap, secret: str | None = None) -> None:
        if not is_address(url):
            raise ConfigurationError(
                f"a sink is a function or an http:// or https:// address, not {url!r}"
            )
        self._url = url.strip()
        parts = urlsplit(self._url)
        self._where = f"{parts.scheme}://{parts.hostname}{parts.path}"
        self._headers = {"User-Agent": "llm-fsm", "Content-Type": "application/json", **headers}
        self._secret = None if secret is None else secret_of(secret)
        self._options: JsonDict = {"allow_redirects": False}
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
        body = json.dumps(asdict(delivery)).encode()
        headers = {**self._headers, "Idempotency-Key": delivery.key}
        if self._secret is not None:
            headers |= signed(self._secret, delivery.key, int(time.time()), body)
        async with self._session().post(
            self._url, data=body, headers=headers, **self._options
        ) as response:
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
            # A proxy would see its headers.
            session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
            self._sessions[loop] = session
        return session


def secret_of(text: str) -> bytes:
    """Read a secret: base64 after `whsec_`, or else the text itself.

    Args:
        text: The secret.

    Returns:
        Its bytes.

    Raises:
        ConfigurationError: It is empty, or no base64.
    """
    begin, mark, rest = text.partition("whsec_")
    try:
        found = base64.b64decode(rest, validate=True) if mark and not begin else text.encode()
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(
            "the secret of a webhook is base64 after whsec_, or any other text"
        ) from error
    if not found:
        raise ConfigurationError("the secret of a webhook is empty")
    return found


def signed(secret: bytes, key: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body (Standard Webhooks).

    Args:
        secret: The secret.
        key: The id of the event. It has no dots in the signed text: its SHA-256 stands for it.
        timestamp: Seconds since the epoch.
        body: The body.

    Returns:
        The three headers.
    """
    # A key holds the caller's id, which may have dots. The signature separates its parts by dots.
    name = f"msg_{sha256_of(key)[:32]}"
    digest = hmac.new(secret, f"{name}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": name, "webhook-timestamp": str(timestamp), "webhook-signature": signature}
