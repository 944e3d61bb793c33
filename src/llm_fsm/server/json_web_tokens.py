"""JSON Web Tokens (RFC 7519) of another signer, as callers of the server. Needs the extra `jwt`.

Keys are a JWK Set (RFC 7517), from a file or a URL, or a shared secret. The two never mix: a public
key is never taken as a secret, because its algorithms are others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jwt

from llm_fsm._json import JsonMap, TextMap, member
from llm_fsm._text import sha256_of
from llm_fsm.documents.watched_file import WatchedFile
from llm_fsm.errors import ConfigurationError
from llm_fsm.server.tokens import ALL_RIGHTS, DEFAULT_RIGHTS, Caller, Right, caller_with

_LOG = logging.getLogger(__name__)
AUDIENCE = "llm-fsm"
"""The audience that a token must name, unless the operator chooses another one."""
CLAIMS: TextMap = {"name": "sub", "rights": "rights", "own": "own"}
"""Parts of a caller to the claims that hold them."""
_SHARED = ("HS256", "HS384", "HS512")
_SIGNED = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEAST_SECRET = 32
"""Bytes of the shortest secret: RFC 7518, section 3.2, asks for as many as the hash has."""
_MOST_TOKEN = 8_192
_MOST_KEYS = 1_000_000
_FETCH_SECONDS = 5.0
_KEPT_SECONDS = 300.0
"""Seconds for which fetched keys count, so that a withdrawn key ends."""
_AGAIN_SECONDS = 10.0
"""Seconds between two fetches of keys that are old, or could not be fetched."""
_INVENTED_SECONDS = 60.0
"""Seconds between two fetches for the sake of an unknown key, because anybody can invent one. A
signer publishes a new key longer than that before it signs with it."""
_READABLE = re.compile(r"[A-Za-z0-9_.@|+-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings for JSON Web Tokens.

    Attributes:
        jwks: The file or URL of a JWK Set.
        secret_file: The file of a shared secret. Exactly one of both is set.
        audience: The audience that a token must name.
        issuer: The issuer that a token must name; None: any.
        claims: Parts of a caller to their claims, instead of those of `CLAIMS`.
    """

    jwks: str | None = None
    secret_file: str | None = None
    audience: str = AUDIENCE
    issuer: str | None = None
    claims: TextMap = field(default_factory=dict)


class _Key(NamedTuple):
    """A key, its id, and the algorithms that it is for."""

    id: str | None
    key: Any
    algorithms: Sequence[str]


class JsonWebTokens:
    """The callers of JSON Web Tokens.

    Raises:
        ConfigurationError: A setting is wrong, or a file cannot be used. The message says how.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._claims = {**CLAIMS, **settings.claims}
        if (settings.jwks is None) == (settings.secret_file is None):
            raise ConfigurationError(
                "JSON Web Tokens need a JWK Set or a secret file, and not both"
            )
        unknown = sorted(self._claims.keys() - CLAIMS.keys())
        if unknown:
            raise ConfigurationError(
                f"a claim is for {', '.join(CLAIMS)}, and not for {unknown[0]!r:.60}"
            )
        self._keys: Sequence[_Key] = ()
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()
        source = settings.jwks or settings.secret_file or ""
        self._url = source if settings.jwks is not None and "://" in source else None
        self._file = None if self._url is not None else WatchedFile(source)
        if self._url is not None:
            _check_url(self._url)
        else:
            self._read_file(at_start=True)

    async def caller(self, token: str) -> Caller | None:
        """Find the caller with a token.

        Args:
            token: The token of the request.

        Returns:
            The caller; None: its signature, end, audience, issuer or name is wrong.
        """
        if token.count(".") != 2 or len(token) > _MOST_TOKEN:
            return None
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            return None
        await self._refresh(key_id)
        for key in self._keys:
            if key_id is None or key.id is None or key.id == key_id:
                claims = self._verified(token, key)
                if claims is not None:
                    return self._named(claims)
        return None

    def _verified(self, token: str, key: _Key) -> JsonMap | None:
        try:
            found: JsonMap = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options={"require": ["exp", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        return found

    def _named(self, claims: JsonMap) -> Caller | None:
        name = claims.get(self._claims["name"])
        if not isinstance(name, str) or not name:
            return None
        rights = _rights_of(claims.get(self._claims["rights"]), self._claims["rights"] in claims)
        own = claims.get(self._claims["own"], True) is not False
        return caller_with(_public_name(name), rights, own=own)

    # -- keys

    async def _refresh(self, key_id: str | None) -> None:
        """Read the file again, or fetch the keys again if they are old or lack this one."""
        if self._file is not None:
            self._read_file(at_start=False)
            return
        # the lock is held while keys are fetched, and known keys need not wait for that
        if not self._is_due(key_id):
            return
        async with self._lock:
            if not self._is_due(key_id):
                return
            self._tried = time.monotonic()
            try:
                self._keys = _key_set(await asyncio.to_thread(_fetched, self._url or ""))
                self._fetched = time.monotonic()
            except Exception as error:  # whatever another server answers, the last keys count
                _LOG.warning("the JWK Set could not be fetched, so the last one counts: %s", error)

    def _is_due(self, key_id: str | None) -> bool:
        """Return true if the keys are to be fetched before a token with this key is checked."""
        now = time.monotonic()
        if now - self._fetched >= _KEPT_SECONDS:
            return now - self._tried >= _AGAIN_SECONDS
        is_known = any(key_id in (None, key.id) for key in self._keys)
        return not is_known and now - self._tried >= _INVENTED_SECONDS

    def _read_file(self, *, at_start: bool) -> None:
        assert self._file is not None
        try:
            content = self._file.news()
            if content is not None:
                self._keys = (
                    _key_set(content) if self._settings.jwks is not None else _secret(content)
                )
        except (OSError, ValueError) as error:
            if at_start:
                said = error.strerror if isinstance(error, OSError) else str(error)
                raise ConfigurationError(f"{self._file.path}: {said}") from error
            _LOG.warning(
                "%s could not be read again, so its last content counts: %s", self._file.path, error
            )


def _rights_of(claim: object, is_given: bool) -> frozenset[Right]:
    if not is_given:
        return DEFAULT_RIGHTS
    words = claim.replace(",", " ").split() if isinstance(claim, str) else claim
    if not isinstance(words, list):
        return frozenset()
    return frozenset(right for right in ALL_RIGHTS if right in words)


def _public_name(name: str) -> str:
    """Return the name of a caller. It never equals that of a token in the file, which has no colon."""
    if _READABLE.fullmatch(name):
        return f"jwt:{name}"
    return f"jwt:sha256:{sha256_of(name)[:32]}"


def _key_set(content: bytes) -> Sequence[_Key]:
    """Return the public keys of a JWK Set. Raises ValueError if there is none."""
    document = json.loads(content)
    entries = member(document, "keys")
    if not isinstance(entries, list):
        raise ValueError('a JWK Set is {"keys": […]}')
    found = []
    for entry in entries:
        key = _key_of(entry)
        if key is not None:
            found.append(key)
    if not found:
        raise ValueError("the JWK Set has no public key for signatures")
    return found


def _key_of(entry: object) -> _Key | None:
    """Return a key for signatures; None for one of another use or kind, and for a shared secret."""
    if not isinstance(entry, dict) or entry.get("kty") == "oct" or entry.get("use", "sig") != "sig":
        return None
    named = entry.get("alg")
    if named is not None and named not in _SIGNED:
        return None
    try:
        key = jwt.PyJWK.from_dict(entry)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return _Key(entry.get("kid"), key.key, _SIGNED if named is None else (named,))


def _secret(content: bytes) -> Sequence[_Key]:
    """Return the shared secret. Raises ValueError if it is too short."""
    secret = content.strip()
    if len(secret) < _LEAST_SECRET:
        raise ValueError(
            f"a secret has at least {_LEAST_SECRET} bytes, and this one has {len(secret)}"
        )
    return [_Key(None, secret, _SHARED)]


def _check_url(url: str) -> None:
    found = urllib.parse.urlsplit(url)
    is_near = found.hostname in ("localhost", "127.0.0.1", "::1")
    if found.scheme != "https" and not (found.scheme == "http" and is_near):
        raise ConfigurationError(
            f"the URL of a JWK Set begins with https://, and {url!r:.100} does not"
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which could lead to an address without TLS."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse a redirect."""


def _fetched(url: str) -> bytes:
    """Return the content of a URL. Raises OSError."""
    with urllib.request.build_opener(_NoRedirect).open(url, timeout=_FETCH_SECONDS) as answer:
        content: bytes = answer.read(_MOST_KEYS)
    return content
