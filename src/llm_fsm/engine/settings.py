"""The settings of a machine, written once for every way to make one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from llm_fsm._json import JsonMap
from llm_fsm._text import suggestion
from llm_fsm.documents.subflows import Registered
from llm_fsm.engine.handlers.registry import ErrorMode, Handler
from llm_fsm.engine.outbox.sinks import Deliver, Sink
from llm_fsm.llm.base import LLM
from llm_fsm.stores.base import Store
from llm_fsm.tools.registry import ToolRegistry

TIMEOUT = 120.0
"""Seconds for a turn. Slow local models need a minute for a long reply, and one retry."""


class MachineSettings(TypedDict, total=False):
    """The settings of `Machine` and `AsyncMachine`, as keyword arguments. `DEFAULTS` has the values
    of missing ones."""

    model: str | LLM | None
    """"provider/model", "offline", "scripted:FILE", "replay:FILE", or an object with `complete`.
    None takes LLM_FSM_MODEL, or the model that the definition names."""
    base_url: str | None
    """The URL of an OpenAI-compatible server. The machine calls it directly."""
    api_key: str | None
    """The key of that server, or of the model's provider. No other host receives it."""
    store: str | Store | None
    """A URL (see `llm_fsm.stores.registry`) or a store. None is "memory"."""
    tools: ToolRegistry | Iterable[Callable[..., Any]]
    """Functions, or a ToolRegistry."""
    functions: Iterable[Callable[..., Any]]
    """Functions for `execute` and for checks of key results."""
    mcp: Mapping[str, JsonMap] | None
    """MCP servers by alias."""
    handlers: Sequence[Handler]
    """Handlers made by `create_handler`."""
    sinks: Sequence[Sink | Deliver | str]
    """Functions and webhook URLs that receive events, at least once and in order; see
    `llm_fsm.engine.outbox.sinks`."""
    fallbacks: Sequence[str | LLM]
    """Models to call in this order if the one before fails for good."""
    timeout: float | None
    """Seconds for a whole turn. In a run without a user, it applies to each model call. None: no
    limit."""
    merge_within: float | None
    """Seconds. One turn answers all messages of a conversation that arrive within this time, and
    each sender gets that turn. Every message waits this long for its answer. None: each message
    gets its own turn."""
    error_mode: ErrorMode
    """"raise" stops the turn if a handler fails; "continue" goes on."""
    summaries: bool
    """False turns off summaries of states and of the history."""
    summarizer: Callable[[Any], Any] | None
    """A function that writes summaries instead of the model. It takes {"of", "happened", "summary",
    "background"}, and returns text or {"summary", "todo_list"}."""
    clock: Callable[[], float] | None
    """A function that returns seconds since the epoch."""
    on_change: str | JsonMap
    """The policy for conversations of another version of the definition. "pin" finishes them on
    their version, "reject" refuses them, and "migrate" moves them to this version. A map {"states":
    {old: new}, "keys": {old: new, or None to drop}} also migrates them."""
    flows: Mapping[str, Registered] | None
    """Definitions by the names that subflows call."""
    allow_unsafe: bool
    """True starts a definition although it acts without a yes (F120), or a yes in it has no effect
    (F122). The faults are logged then."""
    reply: str
    """"prompt" asks for the form of a reply in words alone. "schema" lets the provider force it."""


DEFAULTS: MachineSettings = {
    "model": None,
    "base_url": None,
    "api_key": None,
    "store": None,
    "tools": (),
    "functions": (),
    "mcp": None,
    "handlers": (),
    "sinks": (),
    "fallbacks": (),
    "timeout": TIMEOUT,
    "merge_within": None,
    "error_mode": "continue",
    "summaries": True,
    "summarizer": None,
    "clock": None,
    "on_change": "pin",
    "flows": None,
    "allow_unsafe": False,
    "reply": "schema",
}


def check_names(given: MachineSettings, called: str) -> None:
    """Check that each setting exists. Python does so only for arguments that are written out.

    Args:
        given: The settings of a caller.
        called: The function that the caller called, such as "Machine.from_file".

    Raises:
        TypeError: There is no such setting.
    """
    for name in given:
        if name not in DEFAULTS:
            hint = suggestion(name, DEFAULTS, "the settings are")
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}; {hint}")


def complete(given: MachineSettings) -> MachineSettings:
    """Add the defaults to the settings that a caller gave.

    Raises:
        ValueError: A setting has none of its possible values.
    """
    chosen: MachineSettings = {**DEFAULTS, **given}
    if chosen["error_mode"] not in ("continue", "raise"):
        raise ValueError(f"error_mode is 'continue' or 'raise', not {chosen['error_mode']!r}")
    if chosen["reply"] not in ("schema", "prompt"):
        raise ValueError(f"reply is 'schema' or 'prompt', not {chosen['reply']!r}")
    return chosen
