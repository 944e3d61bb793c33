"""What every channel does: one conversation for a thread, each message once, and no other door."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.channels import telegram
from llm_fsm.server import create_app
from llm_fsm.server.channels import answer
from llm_fsm.server.tokens import Caller, Tokens
from llm_fsm.testing import ScriptedLLM, reply
from messengers import TABLE
from served import served


def test_nothing_else_is_open_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_SECRET", "s3cret")
    machine = AsyncMachine.from_dict(TABLE, model="offline")
    channels = {"telegram": telegram.routes}
    app = create_app(machine, closes=True, tokens=Tokens(), channels=channels)
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        assert client.get("/conversations").status_code == 401
        assert client.get("/channels/telegram/../../conversations").status_code == 401
        assert client.get("/channels/nothing").status_code == 404


def test_a_message_that_comes_again_after_an_end_is_answered_once() -> None:
    desk = Caller(name="desk", prefix="desk~")

    async def play() -> None:
        model = ScriptedLLM([reply("place", "Inside or outside?")])
        machine = AsyncMachine.from_dict(TABLE, model=model)
        service = create_app(machine).service
        first = await answer(service, desk, "chat", "Inside", "m1")
        assert first.ended
        assert not (await answer(service, desk, "chat", "Hello", "m2")).ended
        again = await answer(service, desk, "chat", "Inside", "m1")
        assert (again.number, again.text) == (first.number, first.text)
        assert (await answer(service, desk, "chat", "Outside", "m3")).ended
        assert (await answer(service, desk, "chat", "Inside", "m4")).text == "Inside it is."
        [line] = await machine.conversations()
        assert line.conversation_id == "desk~chat"
        assert len(model.requests) == 1

    asyncio.run(play())
