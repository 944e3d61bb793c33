"""A saved conversation plays again without the host: its functions and handlers return what they
returned.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm import AsyncMachine, Handler, Veto, create_handler, load
from llm_fsm.engine.host_files import HostTools
from llm_fsm.session.turn_record import parse
from llm_fsm.testing import ScriptedLLM, reply
from llm_fsm.testing.generate.generator import generated
from llm_fsm.testing.scenarios.save import document_of
from llm_fsm.testing.scenarios.session import play_file

KNOWN = [{"requires_context_keys": ["size"]}]
PAST = itertools.count(7)
"""No function returns the same twice, so a test that calls one anew fails."""


def shop(**work: Any) -> dict[str, Any]:
    """A shop whose state `work` is as given."""
    task = {"kind": "task", "transitions": [{"target_state": "done"}], **work}
    return {
        "name": "shop",
        "initial_state": "ask",
        "context_schema": {
            "properties": {"size": {"enum": ["small", "large"]}, "price": {"type": "integer"}}
        },
        "states": {
            "ask": {
                "purpose": "Size?",
                "required_context_keys": ["size"],
                "transitions": [
                    {"target_state": "work", "description": "Known", "conditions": KNOWN}
                ],
            },
            "work": task,
            "done": {"purpose": "Bye", "reply": "{{ size }} costs {{ price }}."},
            "other": {"purpose": "Sorry", "reply": "Something else for {{ price }}."},
        },
    }


def price(ctx: Any) -> dict[str, int]:
    ctx.set_context(price=next(PAST))
    return {"price": next(PAST)}


def fails_twice(ctx: Any) -> str:
    if next(PAST) % 3:
        raise ValueError(f"not yet {ctx.retry_count}")
    return "done"


def asks(ctx: Any) -> str:
    return f"{ctx.ask('How many?')} and {next(PAST)}"


def checked(output: Any) -> tuple[bool, str]:
    return bool(next(PAST) % 2), f"it is {output}"


def picks(output: Any) -> str:
    return "other" if next(PAST) and output else "done"


ROUTES = {"route": "picks", "transitions": [{"target_state": "done"}, {"target_state": "other"}]}
CHECKED = {"key_results": [{"name": "good", "check": {"registered": "checked"}}]}
WORK: dict[str, dict[str, Any]] = {
    "an output and a key": {"execute": "price"},
    "errors before a result": {"execute": "fails_twice"},
    "a question to a person": {"execute": "asks"},
    "a check that fails once": {"execute": "price", **CHECKED},
    "a route": {"execute": "price", **ROUTES},
    "errors, a check and a route": {"execute": "fails_twice", **CHECKED, **ROUTES},
}


def counted(_: Any) -> dict[str, int]:
    return {"price": next(PAST)}


def signed(occasion: Any) -> str:
    return f"{occasion.text} ({next(PAST)})"


def forbids_once(_: Any) -> Veto | None:
    return Veto("not on Mondays") if next(PAST) % 2 else None


def handler(point: str, function: Callable[[Any], Any]) -> Handler:
    return create_handler("own").at(point).do(function)


HANDLERS = {
    "before a message": [handler("pre_processing", counted)],
    "after a move": [handler("post_transition", counted)],
    "after an update": [create_handler("own").on_context_update("size").do(counted)],
    "words": [handler("post_processing", signed)],
    "a veto": [handler("pre_transition", forbids_once)],
    "at the start": [handler("start_conversation", counted)],
    "all of them": [
        handler("start_conversation", counted),
        handler("pre_processing", counted),
        handler("post_transition", counted),
        handler("post_processing", signed),
    ],
}


def passes_again(
    document: dict[str, Any], folder: Path, handlers: list[Handler], said: list[str]
) -> dict[str, Any]:
    """Hold a conversation, save it, and play it without the host. Returns the case."""

    async def hold() -> dict[str, Any]:
        model = ScriptedLLM([reply("work", size="large"), reply("ask", "Which?")] * 9)
        async with AsyncMachine.from_dict(
            document, model=model, store="memory", handlers=handlers
        ) as machine:
            for function in (price, fails_twice, asks, checked, picks):
                machine.function(function)
            chat = await machine.start(greet=False)
            for text in said:
                if chat.paused is not None:
                    await chat.answer("three")
                elif not chat.ended:
                    await chat.send(text)
            records = [parse(record) for record in await machine.store.records(chat.id)]
            return {**document_of(machine.program, "", records, "held"), "definition": document}

    saved = asyncio.run(hold())
    path = folder / "held.test.json"
    path.write_text(json.dumps(saved))
    result = play_file(str(path))
    assert result.passed, result
    case: dict[str, Any] = saved["cases"][0]
    return case


@pytest.mark.parametrize("work", WORK)
def test_functions_return_again_what_they_returned(work: str, tmp_path: Path) -> None:
    case = passes_again(shop(**WORK[work]), tmp_path, [], ["large", "go on", "go on"])
    assert set(case["functions"]) >= {WORK[work]["execute"]}


@pytest.mark.parametrize("name", HANDLERS)
def test_handlers_do_again_what_they_did(name: str, tmp_path: Path) -> None:
    document = shop(kind="converse", purpose="Anything else?")
    said = ["large", "no", "really no"]
    assert passes_again(document, tmp_path, HANDLERS[name], said)["handlers"]


def test_a_conversation_without_a_host_keeps_no_fixture(tmp_path: Path) -> None:
    case = passes_again(shop(kind="converse", purpose="Else?"), tmp_path, [], ["large"])
    assert case.keys().isdisjoint({"functions", "handlers", "tools"})


@pytest.mark.parametrize("work", WORK)
def test_generated_tests_keep_what_the_host_returned(work: str, tmp_path: Path) -> None:
    functions = {one.__name__: one for one in (price, fails_twice, asks, checked, picks)}
    host = HostTools(functions=functions, handlers=[handler("post_transition", counted)])
    (tmp_path / "shop.json").write_text(json.dumps(shop(**WORK[work])))
    made = generated(
        load(tmp_path / "shop.json"), name="shop.json", place=str(tmp_path / "shop.json"), host=host
    )
    path = tmp_path / "shop.test.json"
    path.write_text(json.dumps(made.document))
    assert play_file(str(path)).passed
    assert any(case.get("handlers") for case in made.document["cases"])


def test_generating_runs_no_function_that_acts(tmp_path: Path) -> None:
    called: list[Any] = []
    document = shop(execute="price", acts=True)
    (tmp_path / "shop.json").write_text(json.dumps(document))
    generated(
        load(tmp_path / "shop.json"),
        name="shop.json",
        place=str(tmp_path / "shop.json"),
        host=HostTools(functions={"price": called.append}),
    )
    assert called == []
