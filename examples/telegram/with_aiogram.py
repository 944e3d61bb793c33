"""A bot of aiogram that a machine answers: aiogram receives and sends, the channel does the rest.

Run:  pip install '.[server,telegram]'
      TELEGRAM_TOKEN=… python examples/telegram/with_aiogram.py flow.json

It asks Telegram for updates, so it needs no address.
"""

import asyncio
import os
import sys
from typing import Any

from aiogram import Bot, Dispatcher

from llm_fsm import AsyncMachine
from llm_fsm.channels.door import Door
from llm_fsm.channels.telegram import TELEGRAM
from llm_fsm.server import create_app
from llm_fsm.server.service import Service


def listen(dispatcher: Dispatcher, bot: Bot, service: Service) -> None:
    """Answer the messages that a dispatcher receives."""

    async def post(_: str, body: dict[str, Any]) -> None:
        await bot.send_message(**body)

    door = Door(service, TELEGRAM, post)

    async def take(_: Any, event_update: Any) -> None:
        await door.take(event_update.model_dump(mode="json", by_alias=True, exclude_none=True))

    dispatcher.message()(take)
    dispatcher.edited_message()(take)


async def main(file: str) -> None:
    async with AsyncMachine.from_file(file) as machine:
        dispatcher, bot = Dispatcher(), Bot(os.environ["TELEGRAM_TOKEN"])
        listen(dispatcher, bot, create_app(machine).service)
        await dispatcher.start_polling(bot)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
