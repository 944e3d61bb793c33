"""Tokens of a file that changes, tokens with an end, and JSON Web Tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from llm_fsm import AsyncMachine
from llm_fsm.errors import ConfigurationError
from llm_fsm.server import create_app, json_web_tokens
from llm_fsm.server.json_web_tokens import JsonWebTokens, Settings
from llm_fsm.server.tokens import Caller, Tokens, add_token
from machines import GREETER
from served import client_at, served

SECRET = "s" * 40
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
SOON = 2.0
"""Seconds within which a changed file counts."""


def jwks(kid: str = "k1", **extra: Any) -> str:
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key()))
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    return json.dumps({"keys": [shared, {**key, "kid": kid, "use": "sig", **extra}]})


def signed(
    key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "k1", **claims: Any
) -> str:
    whole = {"sub": "ada", "aud": "llm-fsm", "exp": time.time() + 60, **claims}
    known = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(known, key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})


def caller_of(settings: Settings, token: str) -> Caller | None:
    return asyncio.run(JsonWebTokens(settings).caller(token))


@pytest.fixture
def public(tmp_path: Path) -> Settings:
    file = tmp_path / "keys.json"
    file.write_text(jwks())
    return Settings(jwks=str(file))


@pytest.fixture
def shared(tmp_path: Path) -> Settings:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return Settings(secret_file=str(file))


def test_a_changed_file_counts_within_two_seconds(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    first = add_token(file, "first")
    app = create_app(
        AsyncMachine.from_dict(GREETER, model="offline"),
        closes=True, due_seconds=None, tokens=Tokens.from_file(file), hosts=None,
    )  # fmt: skip
    with served(app) as url, client_at(url) as client:

        def status(token: str, wanted: int) -> int:
            """The status, which may take its time to be the wanted one."""
            deadline = time.monotonic() + SOON
            while True:
                late = time.monotonic() > deadline
                found = client.get(
                    "/definitions", headers={"Authorization": f"Bearer {token}"}
                ).status_code
                if found == wanted or late:
                    return found
                time.sleep(0.05)

        assert status(first, 200) == 200
        second = add_token(file, "second")
        assert status(second, 200) == 200
        assert status(first, 200) == 200
        kept = json.loads(file.read_text())
        kept["tokens"] = [one for one in kept["tokens"] if one["name"] != "first"]
        file.write_text(json.dumps(kept))
        assert status(first, 401) == 401
        assert status(second, 200) == 200
        file.write_text('{"tokens": []}')
        assert status(second, 401) == 401


def test_a_file_that_cannot_be_read_again_changes_nothing_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens.json"
    token = add_token(file, "ada")
    tokens = Tokens.from_file(file)
    for break_it in (lambda: file.write_text("{"), file.unlink):
        time.sleep(0.6)
        break_it()
        with caplog.at_level(logging.WARNING):
            assert tokens.caller(token) is not None
        assert "the last ones count" in caplog.text
        caplog.clear()


@pytest.mark.parametrize(
    ("expires", "is_known"),
    [
        ("2020-01-01", False),
        ("2999-12-31", True),
        ("2999-12-31T10:00:00", True),
        (-5, False),
        (3600, True),
    ],
)
def test_a_token_may_have_an_end(tmp_path: Path, expires: str | int, is_known: bool) -> None:
    if isinstance(expires, int):
        expires = (datetime.now(UTC) + timedelta(seconds=expires)).isoformat()
    file = tmp_path / "tokens.json"
    token = add_token(file, "ada")
    kept = json.loads(file.read_text())
    kept["tokens"][0]["expires"] = expires
    file.write_text(json.dumps(kept))
    assert (Tokens.from_file(file).caller(token) is not None) is is_known


def test_an_unknown_right_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(
        json.dumps({"tokens": [{"name": "a", "sha256": "0" * 64, "rights": ["everything"]}]})
    )
    with pytest.raises(ConfigurationError, match="'talk'"):
        Tokens.from_file(file)


def test_claims_name_the_caller_its_rights_and_whose_conversations_it_sees(
    public: Settings,
) -> None:
    plain = caller_of(public, signed())
    assert plain is not None
    assert (plain.name, plain.prefix, plain.rights) == ("jwt:ada", "jwt:ada~", {"talk"})
    listed = caller_of(public, signed(rights=["talk", "manage", "openid"], own=False))
    assert listed is not None
    assert (listed.prefix, listed.rights) == ("", {"talk", "manage"})
    worded = caller_of(public, signed(rights="talk seed profile"))
    assert worded is not None
    assert worded.rights == {"talk", "seed"}
    for rights in ([], "", None, 7):
        found = caller_of(public, signed(rights=rights, sub="ada"))
        assert found is not None
        assert found.rights == ({"talk"} if rights is None else set())
    renamed = Settings(jwks=public.jwks, claims={"name": "email", "rights": "scope", "own": "mine"})
    named = caller_of(renamed, signed(email="ada@x.org", scope="answer", mine=False))
    assert named is not None
    assert (named.name, named.prefix, named.rights) == ("jwt:ada@x.org", "", {"answer"})


@pytest.mark.parametrize(
    "name", ["web~x", "a/b", "sha256:00", "Ada Ü", "x" * 300, "ada:b", "\ud800"]
)
def test_a_name_never_meets_that_of_another_caller(shared: Settings, name: str) -> None:
    found = caller_of(shared, signed(SECRET, "HS256", None, sub=name))
    assert found is not None
    assert found.name.startswith("jwt:sha256:")
    assert found.name.count("~") == 0
    assert len(found.name) < 50


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": -1},
        {"exp": None},
        {"aud": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"sub": None},
        {"sub": ""},
        {"nbf": 1000},
    ],
)
def test_a_wrong_claim_is_no_caller(
    shared: Settings, public: Settings, claims: dict[str, Any]
) -> None:
    claims = {
        name: time.time() + value if isinstance(value, int) else value
        for name, value in claims.items()
    }
    assert caller_of(shared, signed(SECRET, "HS256", None, **claims)) is None
    assert caller_of(public, signed(**claims)) is None


def test_issuer_and_audience_are_those_of_the_operator(shared: Settings) -> None:
    strict = Settings(secret_file=shared.secret_file, audience="shop", issuer="https://id.example")
    assert (
        caller_of(
            strict, signed(SECRET, "HS256", None, aud=["shop", "x"], iss="https://id.example")
        )
        is not None
    )
    assert (
        caller_of(strict, signed(SECRET, "HS256", None, aud="shop", iss="https://evil.example"))
        is None
    )
    assert caller_of(strict, signed(SECRET, "HS256", None, aud="shop")) is None


def confused(secret: bytes) -> str:
    """A token whose shared secret is the signer's public key, which everybody knows."""
    head, body, _ = signed(SECRET, "HS256", "k1").split(".")
    made = hmac.new(secret, f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


def test_keys_and_algorithms_are_never_mixed(public: Settings, shared: Settings) -> None:
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, _ = signed(SECRET, "HS256", "k1").split(".")
    unsigned = jwt.encode(
        {"sub": "ada", "aud": "llm-fsm", "exp": time.time() + 60}, None, algorithm="none"
    )
    for token in (
        unsigned,
        confused(pem),
        confused(pem.strip()),
        f"{head}.{body}.",
        f"{head}.{body}.{'A' * 43}",
        signed(EC_KEY, "ES256"),
        signed("secret" * 8, "HS256", "shared"),
        "a.b.c",
        "x" * 10_000,
    ):
        assert caller_of(public, token) is None
        assert caller_of(shared, token) is None
    assert caller_of(public, signed(SECRET, "HS256", "k1")) is None
    assert caller_of(shared, signed()) is None


def test_a_short_secret_and_a_set_without_keys_are_sentences(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("short")
    with pytest.raises(ConfigurationError, match="at least 32 bytes"):
        JsonWebTokens(Settings(secret_file=str(file)))
    file.write_text('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}')
    with pytest.raises(ConfigurationError, match="no public key"):
        JsonWebTokens(Settings(jwks=str(file)))
    with pytest.raises(ConfigurationError, match="https://"):
        JsonWebTokens(Settings(jwks="http://id.example/keys"))


@contextmanager
def published(content: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The URL of the last content, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content[-1].encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_of_a_url_are_fetched_once_whatever_tokens_invent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "no_proxy", "127.0.0.1")
    with published([jwks()]) as (url, asked):

        async def use() -> None:
            issuer = JsonWebTokens(Settings(jwks=url))
            for _ in range(3):
                assert await issuer.caller(signed()) is not None
            for number in range(20):
                assert await issuer.caller(signed(kid=f"invented-{number}")) is None

        asyncio.run(use())
        assert asked == ["/keys"]


def test_a_known_key_waits_for_no_fetch_that_an_invented_one_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "no_proxy", "127.0.0.1")
    monkeypatch.setattr(json_web_tokens, "_INVENTED_SECONDS", 0.0)
    fetching, answered = threading.Event(), threading.Event()
    fetched = json_web_tokens._fetched

    def slow(url: str) -> bytes:
        if fetching.is_set():
            answered.wait(30)
        fetching.set()
        return fetched(url)

    monkeypatch.setattr(json_web_tokens, "_fetched", slow)
    with published([jwks()]) as (url, asked):

        async def use() -> None:
            issuer = JsonWebTokens(Settings(jwks=url))
            assert await issuer.caller(signed()) is not None
            invented = asyncio.create_task(issuer.caller(signed(kid="invented")))
            await asyncio.sleep(0)
            assert await issuer.caller(signed()) is not None
            assert len(asked) == 1
            answered.set()
            assert await invented is None

        asyncio.run(use())


@pytest.mark.parametrize(
    "answer", [b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000]
)
def test_whatever_a_url_answers_a_token_is_only_unknown(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
        assert caller_of(Settings(jwks=url), signed()) is None
        thread.join()


def test_a_json_web_token_talks_beside_the_tokens_of_the_file(
    tmp_path: Path, shared: Settings
) -> None:
    file = tmp_path / "tokens.json"
    web = add_token(file, "web")
    tokens = Tokens.from_file(file, issuer=JsonWebTokens(shared))
    machine = AsyncMachine.from_dict(GREETER, model="offline")
    app = create_app(machine, closes=True, due_seconds=None, tokens=tokens, hosts=None)
    with served(app) as url, client_at(url) as client:

        def by(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        ada, bob = (signed(SECRET, "HS256", None, sub=name) for name in ("ada", "bob"))
        wish = {"definition": "greeter", "greet": False, "id": "c"}
        for token in (web, ada, bob):
            assert client.post("/conversations", json=wish, headers=by(token)).status_code == 201
            assert len(client.get("/conversations", headers=by(token)).json()["conversations"]) == 1
        assert client.delete("/conversations/c", headers=by(ada)).status_code == 403
        late = signed(SECRET, "HS256", None, exp=time.time() - 1)
        assert client.get("/conversations", headers=by(late)).status_code == 401


class Followed:
    """A stream that follows a conversation, read in a thread of its own."""

    def __init__(self, url: str, token: str) -> None:
        self.lines: list[str] = []
        self._asked = f"{url}/conversations/c/events", {"Authorization": f"Bearer {token}"}
        self._began = threading.Event()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        assert self._began.wait(20)

    def _read(self) -> None:
        url, headers = self._asked
        with client_at() as client, client.stream("GET", url, headers=headers) as stream:
            for line in stream.iter_lines():
                self.lines.append(line)
                if line == "event: conversation":
                    self._began.set()


@pytest.mark.parametrize("change", [{"rights": ["answer"]}, {"expires": "2020-01-01"}, None])
def test_a_stream_ends_with_its_token(tmp_path: Path, change: dict[str, Any] | None) -> None:
    file = tmp_path / "tokens.json"
    web = add_token(file, "web")
    desk = {
        "Authorization": f"Bearer {add_token(file, 'desk', rights=['seed', 'manage'], own=False)}"
    }
    app = create_app(
        AsyncMachine.from_dict(GREETER, model="offline"),
        closes=True, due_seconds=None, tokens=Tokens.from_file(file), hosts=None,
    )  # fmt: skip
    with served(app) as url, client_at(url) as client:
        wish = {"definition": "greeter", "greet": False, "id": "c"}
        assert (
            client.post(
                "/conversations", json=wish, headers={"Authorization": f"Bearer {web}"}
            ).status_code
            == 201
        )
        followed = Followed(url, web)

        def say(text: str) -> None:
            said = client.post("/conversations/web~c/say", json={"text": text}, headers=desk)
            assert said.status_code == 200

        time.sleep(1.1)
        say("before")
        while "before" not in "".join(followed.lines):
            time.sleep(0.01)
        document = json.loads(file.read_text())
        known = [
            token | (change or {}) if token["name"] == "web" else token
            for token in document["tokens"]
        ]
        kept = [token for token in known if change is not None or token["name"] != "web"]
        file.write_text(json.dumps({"tokens": kept}))
        time.sleep(SOON)
        say("afterwards")
        followed.thread.join(20)
        assert not followed.thread.is_alive()
        assert "afterwards" not in "".join(followed.lines)
