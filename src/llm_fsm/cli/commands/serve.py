"""`llm-fsm serve`."""

from __future__ import annotations

import asyncio
import atexit
import ipaddress
import json
import os
import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli.exit_codes import Failure
from llm_fsm.cli.failures import reporting
from llm_fsm.cli.fleet import Brought, Fleet, SinkOptions
from llm_fsm.cli.host_code import channels_in
from llm_fsm.cli.listening import listening_socket
from llm_fsm.cli.options import command, option, taken
from llm_fsm.cli.stores import open_store
from llm_fsm.cli.temporal import temporal_module, temporal_option
from llm_fsm.cli.terminal import console
from llm_fsm.errors import ConfigurationError
from llm_fsm.stores.memory import MemoryStore

if TYPE_CHECKING:
    from llm_fsm.server.tokens import Right

_SETTINGS = "LLM_FSM_SERVE"
"""The variable in which workers find their settings."""
_JWT_OPTIONS = ("jwks", "secret_file", "audience", "issuer", "claim")


@dataclass(frozen=True, kw_only=True)
class ServeOptions(Brought, SinkOptions):
    """The options of the command. `jwt`: the settings of JSON Web Tokens."""

    host: str = option(
        "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
    )
    port: int = option(
        "--port",
        default=8000,
        show_default=True,
        type=click.IntRange(0, 65535),
        help="0 takes a free one.",
    )
    cors: tuple[str, ...] = option(
        "--cors", metavar="ORIGIN", multiple=True, help="Pages of this origin may call the server."
    )
    hosts: tuple[str, ...] = option(
        "--allow-host",
        "hosts",
        metavar="NAME",
        multiple=True,
        help="A name by which the server is called.",
    )
    token_file: str | None = option(
        "--token-file", metavar="FILE", help="Who may use the server; --add-token makes it."
    )
    add_token: str | None = option(
        "--add-token",
        metavar="NAME",
        help="Make a token, write its hash to --token-file, print it, and end.",
    )
    rights: str | None = option(
        "--rights",
        metavar="RIGHT,…",
        help="What the token may do, such as talk,seed; talk without it.",
    )
    all_conversations: bool = option(
        "--all-conversations",
        is_flag=True,
        help="Let the token of --add-token see those of others, too.",
    )
    expires: str | None = option(
        "--expires", metavar="DATE", help="When the token of --add-token ends, such as 2027-01-31."
    )
    jwt_jwks: str | None = option(
        "--jwt-jwks", metavar="FILE|URL", help="Take JSON Web Tokens that these public keys verify."
    )
    jwt_secret_file: str | None = option(
        "--jwt-secret-file",
        metavar="FILE",
        help="Take JSON Web Tokens that this shared secret verifies.",
    )
    jwt_audience: str | None = option(
        "--jwt-audience",
        metavar="NAME",
        help="The audience that they must name; llm-fsm without it.",
    )
    jwt_issuer: str | None = option(
        "--jwt-issuer", metavar="NAME", help="The issuer that they must name."
    )
    jwt_claim: tuple[str, ...] = option(
        "--jwt-claim",
        metavar="PART=CLAIM",
        multiple=True,
        help="The claim that holds the name, rights or own.",
    )
    no_auth: bool = option(
        "--no-auth", is_flag=True, help="Let anybody who can reach the address talk."
    )
    workbench: bool = option(
        "--workbench", is_flag=True, help="Offer assistants the tools for authors, over MCP."
    )
    rate: int | None = option(
        "--rate", metavar="N", type=click.IntRange(min=1), help="Requests a minute of each token."
    )
    max_messages: int = option(
        "--max-messages",
        metavar="N",
        default=10_000,
        show_default=True,
        type=click.IntRange(min=1),
        help="Messages of a transcript in the OpenAI form.",
    )
    max_body: int = option(
        "--max-body",
        metavar="BYTES",
        default=1_000_000,
        show_default=True,
        type=click.IntRange(min=1),
        help="Bytes of a request, transcripts included.",
    )
    mounts: tuple[str, ...] = option(
        "--mount",
        "mounts",
        metavar="FILE",
        multiple=True,
        help="A Python file with the routes of a channel.",
    )
    channels: tuple[str, ...] = option(
        "--channel",
        "channels",
        type=click.Choice(["slack", "telegram", "whatsapp"]),
        multiple=True,
        help="Answer in this messenger, too.",
    )
    temporal: str | None = taken(temporal_option)
    reload: bool = option("--reload", is_flag=True, help="Load a file again when it changes.")
    workers: int = option(
        "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes."
    )
    otel: bool = option(
        "--otel",
        is_flag=True,
        help="Export traces and metrics by OTLP, as the OTEL_… variables say.",
    )
    log: str = option(
        "--log",
        type=click.Choice(["none", "json"]),
        default="none",
        show_default=True,
        help="What to log.",
    )
    jwt: JsonDict | None = None
    verbose: int = 0


@command("llm-fsm serve bots --model openai/gpt-4o-mini --port 8000", options=ServeOptions)
def serve(ctx: click.Context, wanted: ServeOptions) -> int:
    """Serve definitions: a chat page, REST, the OpenAI form, AG-UI and MCP.

    PATH is a definition file, a folder of them, or the name of a shipped definition. Without it all
    shipped ones are served. Any address but that of this machine needs tokens, or --no-auth, which
    lets anybody talk. --tools runs the Python file that it names: name only your own.

    Exit codes: 0 ended. 1 a definition is at fault. 2 usage. 3 model, provider or Temporal. 4
    store. 130 interrupted.
    """
    exits.need("serving", exits.SERVING, "server")
    if wanted.add_token is not None:
        return _add_token(ctx, wanted.add_token, wanted)
    if wanted.rights is not None or wanted.expires is not None or wanted.all_conversations:
        ctx.fail("--rights, --expires and --all-conversations belong to --add-token NAME")
    jwt = _jwt(ctx, {name: getattr(wanted, f"jwt_{name}") for name in _JWT_OPTIONS})
    has_tokens = wanted.token_file is not None or jwt is not None
    if wanted.no_auth and has_tokens:
        other = "--token-file" if wanted.token_file is not None else "JSON Web Tokens"
        ctx.fail(f"--no-auth and {other} contradict each other: give one of them")
    if not has_tokens and not wanted.no_auth and not _is_loopback(wanted.host):
        ctx.fail(
            f"{wanted.host} can be reached from elsewhere: give a --token-file, or write --no-auth"
        )
    if wanted.workers > 1 and wanted.db == "memory":
        ctx.fail("several --workers share a store: --db memory is each one's own")
    return _serve(replace(wanted, jwt=jwt, verbose=ctx.obj.verbose))


def _add_token(ctx: click.Context, name: str, wanted: ServeOptions) -> int:
    file = wanted.token_file
    if file is None:
        ctx.fail("--add-token NAME needs --token-file FILE")
    from llm_fsm.server import tokens

    with exits.failing(ConfigurationError):
        made = tokens.add_token(
            file,
            name,
            rights=_rights(ctx, wanted.rights),
            own=not wanted.all_conversations,
            expires=_moment(ctx, wanted.expires),
        )
    console.out(made)
    console.note(f"{file}: the token {name!r} was added; it is shown this once")
    return exits.OK


def _rights(ctx: click.Context, given: str | None) -> frozenset[Right] | None:
    """Return the rights of an option; None for none. Raises UsageError for an unknown one."""
    if given is None:
        return None
    from llm_fsm.server.tokens import ALL_RIGHTS

    names = frozenset(given.replace(",", " ").split())
    unknown = sorted(names - ALL_RIGHTS)
    if unknown or not names:
        wrong = unknown[0] if unknown else given
        known = ", ".join(sorted(ALL_RIGHTS))
        ctx.fail(f"--rights: {wrong!r} is no right; there are {known}")
    return frozenset(right for right in ALL_RIGHTS if right in names)


def _moment(ctx: click.Context, given: str | None) -> datetime | None:
    """Return the moment of an option, in UTC if it names no zone. Raises UsageError."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError as error:
        raise click.UsageError(
            f"--expires: {given!r} is no date, such as 2027-01-31", ctx
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _jwt(ctx: click.Context, given: JsonMap) -> JsonDict | None:
    """Return the settings of JSON Web Tokens; None if there shall be none. Raises UsageError,
    Failure.
    """
    if given["jwks"] is None and given["secret_file"] is None:
        if any(given.values()):
            ctx.fail("JSON Web Tokens need --jwt-jwks or --jwt-secret-file")
        return None
    if find_spec("jwt") is None:
        raise Failure("JSON Web Tokens need PyJWT: pip install 'llm-fsm-runtime[jwt]'", exits.USAGE)
    claims = {}
    for pair in given["claim"]:
        part, _, claim = pair.partition("=")
        if not part or not claim:
            ctx.fail("--jwt-claim is PART=CLAIM, such as name=email")
        claims[part] = claim
    settings = {
        name: value for name, value in given.items() if name != "claim" and value is not None
    }
    return {**settings, "claims": claims}


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _serve(wanted: ServeOptions) -> int:
    from llm_fsm.server import run
    from llm_fsm.server.connections import raise_descriptors

    raise_descriptors()
    limits = _limits(wanted)
    if wanted.temporal is not None:
        asyncio.run(temporal_module().check_namespace(wanted.temporal))
    with ExitStack() as stack:
        stack.enter_context(_logging(wanted))
        listening = stack.enter_context(listening_socket(wanted.host, wanted.port))
        if wanted.workers == 1:
            stack.enter_context(_observing(wanted))
            app = _application(wanted)
            _say(wanted, listening)
            run.Server(run.config_of(app, limits=limits)).run(sockets=[listening])
            return exits.OK
        # what is wrong is said once, and before any worker starts
        asyncio.run(_close(_application(wanted)))
        _say(wanted, listening)
        os.environ[_SETTINGS] = json.dumps(asdict(wanted))
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", stack.enter_context(TemporaryDirectory()))
        config = run.config_of(f"{__name__}:application", limits=limits, workers=wanted.workers)
        supervisor = import_module("uvicorn.supervisors")
        supervisor.Multiprocess(config, sockets=[listening]).run()
        return exits.OK


async def _close(app: Any) -> None:
    for machine in app.service.machines.every():
        await machine.close()


def _say(wanted: ServeOptions, listening: socket.socket) -> None:
    host = wanted.host if wanted.host not in ("0.0.0.0", "::") else "127.0.0.1"
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    if wanted.log == "json":
        from llm_fsm.server.logs import tell

        pages = {"chat": f"{url}/", "documentation": f"{url}/docs", "openai": f"{url}/v1"}
        tell("listening", f"listening on {url}", **pages)
        return
    console.out(
        f"chat page          {url}/",
        f"API documentation  {url}/docs",
        f"OpenAI base URL    {url}/v1",
    )


def application() -> Any:
    """The application of one of several workers."""
    wanted = ServeOptions(**json.loads(os.environ[_SETTINGS]))
    atexit.register(_logging(wanted).close)
    atexit.register(_observing(wanted).close)
    return _application(wanted)


def _logging(wanted: ServeOptions) -> ExitStack:
    """Begin the logs that are wanted. Closing the stack ends them, but for lines of JSON: the last
    words of the process are such lines, too.
    """
    stack = ExitStack()
    if wanted.log == "json":
        from llm_fsm.server.logs import log_json

        log_json("DEBUG" if wanted.verbose else "INFO")
    else:
        stack.enter_context(reporting(wanted.verbose))
    return stack


def _observing(wanted: ServeOptions) -> ExitStack:
    """Begin the export that is wanted. Closing the stack ends it."""
    stack = ExitStack()
    if wanted.otel:
        from llm_fsm.telemetry import export

        stack.callback(export())
    return stack


def _limits(wanted: ServeOptions) -> Any:
    from llm_fsm.server.limits import Limits

    return Limits(
        messages_per_minute=wanted.rate,
        transcript_messages=wanted.max_messages,
        body_bytes=wanted.max_body,
    )


def _tokens(wanted: ServeOptions) -> Any:
    """The tokens that the server accepts; None: it needs none. Raises ConfigurationError."""
    from llm_fsm.server.tokens import Tokens

    tokens = Tokens
    issuer = None
    if wanted.jwt is not None:
        from llm_fsm.server import json_web_tokens as jwt

        issuer = jwt.JsonWebTokens(jwt.Settings(**wanted.jwt))
    if wanted.token_file is not None:
        return tokens.from_file(wanted.token_file, issuer=issuer)
    return None if issuer is None else tokens(issuer=issuer)


def _application(wanted: ServeOptions) -> Any:
    """The application. Raises Failure, DefinitionError, ConfigurationError."""
    from llm_fsm import server

    with exits.failing(ConfigurationError):
        tokens = _tokens(wanted)
    store = open_store(wanted.db)
    if wanted.workers > 1 and isinstance(store, MemoryStore):
        raise Failure("several --workers need a store that they share", exits.USAGE)
    beside = None
    if wanted.temporal is not None:
        flows = temporal_module()
        store = flows.ForgettingStore(store, wanted.temporal, console.note)
        beside = partial(flows.work, wanted.temporal, told_away=console.note)
    fleet = Fleet(wanted, store, wanted.all_sinks())
    from llm_fsm.server.logs import log_answer

    return server.create_app(
        fleet.machines(),
        tokens=tokens,
        anonymous=None if _is_loopback(wanted.host) else ["talk"],
        workbench=wanted.workbench,
        cors=wanted.cors,
        hosts=None if tokens is not None and not wanted.hosts else wanted.hosts,
        limits=_limits(wanted),
        closes=True,
        channels=channels_in(wanted.channels, wanted.mounts),
        changed=fleet.changed if wanted.reload else None,
        beside=beside,
        answered=[log_answer] if wanted.log == "json" else [],
    )
