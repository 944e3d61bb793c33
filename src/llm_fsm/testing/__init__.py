"""Test doubles and helpers for machines, models and stores.

`ScriptedLLM` answers from a list. `serve_scripted` is a real OpenAI-compatible server on the
loopback address. `play`, `reply`, `calls` and `expect` run a conversation and check its turns.
`check_folder` checks definition files, `play_suite` runs a file of conversation tests, and
`store_suite` is the contract of every store.

Inside: `scenarios` reads and plays `*.test.json` files, `generate` makes such files from
definitions, `coverage` measures what they touch, and `pytest_plugin` collects them for pytest. Open
`scenarios/models.py` first. Names are imported on first use, because pytest imports this package in
every run.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # of `typing`, without the cost of its import
if TYPE_CHECKING:
    from typing import Any

    from llm_fsm.llm.scripted import ScriptedLLM, calls
    from llm_fsm.testing.conversations import Played, expect, play, reply
    from llm_fsm.testing.definitions import check_folder
    from llm_fsm.testing.scenarios.session import play_suite
    from llm_fsm.testing.server.faults import FAULTS, FaultyStream
    from llm_fsm.testing.server.http import HttpReply
    from llm_fsm.testing.server.server import serve_scripted
    from llm_fsm.testing.store_contract.suite import StoreCheck, store_suite

_PLACES = {
    "llm.scripted": ("ScriptedLLM", "calls"),
    "testing.definitions": ("check_folder",),
    "testing.conversations": ("Played", "expect", "play", "reply"),
    "testing.scenarios.session": ("play_suite",),
    "testing.server.faults": ("FAULTS", "FaultyStream"),
    "testing.server.http": ("HttpReply",),
    "testing.server.server": ("serve_scripted",),
    "testing.store_contract.suite": ("StoreCheck", "store_suite"),
}
_MODULE_OF: dict[str, str] = {}
for _module, _names in _PLACES.items():
    _MODULE_OF.update(dict.fromkeys(_names, _module))

__all__ = [
    "FAULTS",
    "FaultyStream",
    "HttpReply",
    "Played",
    "ScriptedLLM",
    "StoreCheck",
    "calls",
    "check_folder",
    "expect",
    "play",
    "play_suite",
    "reply",
    "serve_scripted",
    "store_suite",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"llm_fsm.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
