"""A client of pywa that a machine answers: pywa receives and sends, the channel does the rest.

Run:  pip install '.[server,whatsapp]'
      WHATSAPP_APP_SECRET=… WHATSAPP_VERIFY_TOKEN=… WHATSAPP_TOKEN=… WHATSAPP_PHONE_ID=… \
          FLOW=flow.json uvicorn --factory --app-dir examples/whatsapp with_pywa:app
"""

import os
from typing import Any

from fastapi import FastAPI
from pywa_async import WhatsApp

from llm_fsm import AsyncMachine
from llm_fsm.channels.door import Door
from llm_fsm.channels.whatsapp import WHATSAPP
from llm_fsm.server import create_app
from llm_fsm.server.service import Service


def listen(client: WhatsApp, service: Service) -> None:
    """Answer the messages and clicks that a client receives."""

    async def post(path: str, body: dict[str, Any]) -> None:
        await client.api.send_raw_request("POST", f"/{path}", json=body)

    door = Door(service, WHATSAPP, post)

    async def take(_: Any, update: dict[str, Any]) -> None:
        await door.take(update)

    client.on_raw_update(take)


def app() -> FastAPI:
    """Make the application for uvicorn."""
    found = create_app(AsyncMachine.from_file(os.environ["FLOW"]), closes=True)
    client = WhatsApp(
        phone_id=os.environ["WHATSAPP_PHONE_ID"],
        token=os.environ["WHATSAPP_TOKEN"],
        server=found,
        webhook_endpoint="/channels/whatsapp",
        verify_token=os.environ["WHATSAPP_VERIFY_TOKEN"],
        app_secret=os.environ["WHATSAPP_APP_SECRET"],
    )
    listen(client, found.service)
    return found
