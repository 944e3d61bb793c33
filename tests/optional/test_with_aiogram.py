"""A dispatcher of aiogram receives, and its bot sends: updates, repetitions and edits."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from aiogram import Bot, Dispatcher
from aiogram.client.session.base import BaseSession
from aiogram.types import Update

from messengers import asked, recorded, service
from paths import ROOT

listen = runpy.run_path(str(ROOT / "examples" / "telegram" / "with_aiogram.py"))["listen"]
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Session(BaseSession):
    """A session that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []

    async def close(self) -> None:
        pass

    async def make_request(self, bot: Bot, method: Any, timeout: int | None = None) -> Any:
        self.sent.append(method)

    async def stream_content(self, *_: Any, **__: Any) -> Any:
        yield b""


async def test_a_bot_of_aiogram_answers_updates_once() -> None:
    session = Session()
    bot, dispatcher = Bot("42:TOKEN", session=session), Dispatcher()
    found, model = service()
    listen(dispatcher, bot, found)
    edited = recorded("telegram_message")
    edited["update_id"] = 10009
    edited["edited_message"] = {**edited.pop("message"), "edit_date": 1732730009, "text": "Outside"}
    again = recorded("telegram_message")
    for payload in (again, again, recorded("telegram_sticker"), edited):
        update = Update.model_validate(payload, context={"bot": bot})
        await dispatcher.feed_update(bot, update)
    assert [one.text for one in session.sent] == ["Inside or outside?", "Outside it is."]
    keys = session.sent[0].reply_markup.keyboard
    assert [[key.text for key in row] for row in keys] == [["Inside"], ["Outside"]]
    assert asked(model) == 1
