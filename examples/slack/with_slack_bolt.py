"""An app of slack-bolt that a machine answers: bolt receives and posts, the channel does the rest.

Run:  pip install '.[server,slack]'
      SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… python examples/slack/with_slack_bolt.py flow.json

With `process_before_response=True`, Slack repeats what was not played.
"""

import asyncio
import re
import sys
from typing import Any

from slack_bolt.async_app import AsyncApp

from llm_fsm import AsyncMachine
from llm_fsm.channels.door import Door
from llm_fsm.channels.slack import SLACK
from llm_fsm.server import create_app
from llm_fsm.server.service import Service


def listen(app: AsyncApp, service: Service) -> None:
    """Answer the messages and clicks that an app receives."""

    async def post(path: str, body: dict[str, Any]) -> None:
        await app.client.api_call(path, json=body)

    door = Door(service, SLACK, post)

    async def take(ack: Any, body: dict[str, Any]) -> None:
        await door.take(body)
        await ack()

    app.event("message")(take)
    app.action(re.compile(""))(take)


async def main(file: str) -> None:
    async with AsyncMachine.from_file(file) as machine:
        app = AsyncApp(process_before_response=True)
        listen(app, create_app(machine).service)
        await app.server().start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
