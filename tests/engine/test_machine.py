"""The machine and its host: whose choice of a model counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from llm_fsm import AsyncMachine, Machine
from llm_fsm.engine.outbox.sinks import sink
from llm_fsm.session.events import ModelReplied
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, serve_scripted
from llm_fsm.testing.server.server import HttpReply
from machines import reply

NAMES: dict[str, Any] = {
    "name": "names",
    "initial_state": "big",
    "model": {"name": "by-definition", "temperature": 0.5},
    "states": {
        "big": {"purpose": "Name?", "transitions": [{"target_state": "small"}]},
        "small": {
            "purpose": "Sure?",
            "model": {"name": "by-state"},
            "transitions": [{"target_state": "end"}],
        },
        "end": {"kind": "final", "reply": "Bye."},
    },
}


@pytest.mark.parametrize(
    ("given", "in_environment", "asked"),
    [
        (None, None, "by-definition"),
        ("by-caller", None, "by-caller"),
        (None, "by-operator", "by-operator"),
    ],
)
def test_the_callers_model_stands_for_the_definitions_and_a_state_keeps_its_own(
    given: str | None, in_environment: str | None, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_FSM_MODEL", raising=False)
    if in_environment is not None:
        monkeypatch.setenv("LLM_FSM_MODEL", in_environment)
    with (
        serve_scripted([reply("small", "Sure?"), reply("end", "")]) as server,
        Machine.from_dict(NAMES, model=given, base_url=server.base_url) as machine,
    ):
        chat = machine.start(greet=False)
        turns = [chat.send("Ada"), chat.send("yes")]
    sent = [(seen.body["model"], seen.body["temperature"]) for seen in server.requests]
    assert sent == [(asked, 0.5), ("by-state", 0.5)]
    told = [
        event.model for turn in turns for event in turn.events if isinstance(event, ModelReplied)
    ]
    assert told == [asked, "by-state"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_to_fall_back_to_is_asked_under_its_own_name(streams: bool) -> None:
    refused = HttpReply(status=400, body={"error": {"message": "no such model"}})
    with (
        serve_scripted([refused, reply("end", "")]) as server,
        Machine.from_dict(
            NAMES, model="first", fallbacks=["second"], base_url=server.base_url
        ) as machine,
    ):
        chat = machine.start(greet=False, state="small")
        if streams:
            list(chat.stream("yes"))
        else:
            chat.send("yes")
        assert [seen.body["model"] for seen in server.requests] == ["by-state", "second"]


def test_a_called_definition_keeps_the_model_that_it_names() -> None:
    caller = {
        "name": "caller",
        "initial_state": "pay",
        "model": {"name": "by-definition"},
        "states": {
            "pay": {"kind": "subflow", "flow": "names", "transitions": [{"target_state": "end"}]},
            "end": {"kind": "final", "reply": "Bye."},
        },
    }
    model = ScriptedLLM([reply("small", "Sure?"), reply("end", "")])
    with Machine.from_dict(caller, model=model, flows={"names": NAMES}) as machine:
        chat = machine.start(greet=False)
        chat.send("Ada")
        chat.send("yes")
    assert [request.model for request in model.requests] == ["by-definition", "by-state"]


class Stubborn(ScriptedLLM):
    """A model that cannot be closed, or whose closing is cancelled."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__([])
        self.error = error

    async def aclose(self) -> None:
        raise self.error


class Taking:
    """A sink that takes everything and cannot be closed."""

    closed = False

    async def __call__(self, delivery: object) -> None: ...

    async def aclose(self) -> None:
        self.closed = True
        raise OSError


class Closing(MemoryStore):
    """A store that notes that it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
def test_what_cannot_be_closed_keeps_nothing_else_open(error: type[BaseException]) -> None:
    store, taking = Closing(), Taking()
    models, sinks = [Stubborn(error), Stubborn(OSError)], [sink(taking, name="taking")]

    async def main() -> None:
        machine = AsyncMachine.from_dict(
            NAMES, model=models[0], fallbacks=models[1:], store=store, sinks=sinks
        )
        await machine.close()

    with pytest.raises(error):
        asyncio.run(main())
    assert (store.closed, taking.closed) == (True, True)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"handlers": [print]}, r"a handler is made with create_handler\(name\)"),
        ({"handlers": 3}, "handlers= is a list, not int"),
        ({"tools": 3}, "tools= is a list, not int"),
        ({"sinks": 3}, "sinks= is a list, not int"),
        ({"fallbacks": "openai/gpt-4o"}, "fallbacks= is a list, not str"),
        (
            {"timeout": "5"},
            "timeout= is a number of seconds above 0, or None for no limit, not '5'",
        ),
        ({"timeout": float("nan")}, "timeout= is a number of seconds"),
        ({"timeout": 0}, "timeout= is a number of seconds"),
        ({"summarizer": "short"}, "summarizer= is a function, not str"),
    ],
)
def test_what_no_machine_can_work_with_is_refused_when_it_is_made(
    option: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Machine.from_dict(NAMES, model="offline", **option)


@pytest.mark.parametrize("given", [3, "tier", ["tier"], []])
def test_a_context_that_is_no_object_is_refused(given: Any) -> None:
    with (
        Machine.from_dict(NAMES, model="offline") as machine,
        pytest.raises(
            ValueError, match=r"the context is an object of keys and values, not a (int|str|list)"
        ),
    ):
        machine.start(given)


@pytest.mark.parametrize("given", [3, None, "nope"])
def test_a_point_that_is_none_and_a_handler_that_is_no_function_are_refused(given: Any) -> None:
    with Machine.from_dict(NAMES, model="offline") as machine:
        with pytest.raises(
            ValueError,
            match=rf"unknown handler point {given!r}\. The points are start_conversation",
        ):
            machine.on(given)(print)
        with pytest.raises(ValueError, match="is a function, not a "):
            machine.on("error")(given)
