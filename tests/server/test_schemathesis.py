"""Thousands of requests that the OpenAPI document allows, and that it does not: none gets a 500."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import ten_turns
from llm_fsm import AsyncMachine
from llm_fsm.server import Limits, create_app
from machines import GREETER
from served import served

REQUESTS = int(os.environ.get("LLM_FSM_REQUESTS", "800"))
"""At least so many are sent; `make kills` sends 5,000."""
LONGEST_ADDRESS = 60_000
"""Characters of an address that the HTTP server passes on. It refuses a longer one by itself, in
plain words, and may close the connection before all of it was read.
"""
NAMES = ("greeter", "ten", "nobody")


@pytest.mark.timeout(1_200)
def test_no_request_gets_a_500() -> None:
    machines = (AsyncMachine.from_dict(GREETER, model="offline"), ten_turns.machine())
    app = create_app(machines, closes=True, due_seconds=None, limits=Limits(streams=10_000))
    statuses: Counter[int] = Counter()
    with served(app) as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        modes = list(schemathesis.GenerationMode)
        operations = [found.ok() for found in schema.get_all_operations()]
        each = max(1, REQUESTS // len(operations))
        for turn, operation in rounds(operations):
            if sum(statuses.values()) >= REQUESTS:
                break
            strategy = st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])

            @seed(turn)
            @given(strategy, st.sampled_from(NAMES))
            @settings(
                max_examples=each,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case: Any, name: str) -> None:
                if isinstance(case.body, dict):
                    for key in ("definition", "model"):
                        if isinstance(case.body.get(key), str):
                            case.body[key] = name
                for key in ("definition", "name", "model"):
                    if key in (case.path_parameters or {}):
                        case.path_parameters[key] = name
                if "conversation_id" in (case.path_parameters or {}) and name != "nobody":
                    case.path_parameters["conversation_id"] = "known"
                if len(address_of(case, url)) >= LONGEST_ADDRESS:
                    return
                status, kind, text = answer_to(case, url)
                statuses[status] += 1
                assert status != 500, (case.as_curl_command(), text)
                if status >= 400:
                    assert kind == "application/problem+json", case.as_curl_command()

            begin(url)
            ask()
    assert statuses[200] + statuses[201] > 0


def address_of(case: Any, url: str) -> str:
    """Return the address of a request with its query."""
    asked = case.as_transport_kwargs(base_url=url)
    request = requests.Request(asked["method"], asked["url"], params=asked.get("params"))
    return request.prepare().url or ""


def answer_to(case: Any, url: str) -> tuple[int, str, str]:
    """Send a request. Return status, type and text of its answer.

    A stream is left after its head, because one that follows a conversation never ends.
    """
    asked = case.as_transport_kwargs(base_url=url)
    with requests.request(**asked, timeout=30, stream=True) as answer:
        kind = answer.headers["content-type"] if answer.status_code != 204 else ""
        is_stream = kind.startswith("text/event-stream")
        return answer.status_code, kind, "" if is_stream else answer.text


def rounds(operations: list[Any]) -> Iterator[tuple[int, Any]]:
    """Every operation, again and again: those with few forms send less than their share in a round."""
    return ((turn, operation) for turn in count() for operation in operations)


def begin(url: str) -> None:
    wish = {"definition": "greeter", "id": "known", "greet": False}
    httpx.post(f"{url}/conversations", json=wish, trust_env=False)
