"""Doubles and helpers for tests of machines, models and stores. They are product code, and need no pytest.

`ScriptedLLM` answers from a list; `serve_scripted` is a real OpenAI-compatible server on the loopback
address; `play`, `reply`, `calls` and `expect` play a conversation and check its turns; `check_folder`
checks definition files; `play_suite` plays a file of conversation tests; `store_suite` is the contract that
every store must pass.
"""

from llm_fsm.llm.scripted import ScriptedLLM, calls
from llm_fsm.testing.definitions import check_folder
from llm_fsm.testing.play import Played, expect, play, reply
from llm_fsm.testing.scenarios.session import play_suite
from llm_fsm.testing.server.faults import FAULTS, FaultyStream
from llm_fsm.testing.server.http import HttpReply
from llm_fsm.testing.server.server import serve_scripted
from llm_fsm.testing.store_contract.suite import StoreCheck, store_suite

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
