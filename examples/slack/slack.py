"""A Slack app over the service of `llm-fsm serve`: the channel of the package, as a file of yours.

Run:  SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… llm-fsm serve flow.json \
          --mount examples/slack/slack.py --allow-host bot.example.org

`--channel slack` does the same. Give https://bot.example.org/channels/slack as the request URL of
events (message.im) and of interactivity.
"""

from typing import Any

from llm_fsm.channels.slack import heard, payload_of, routes

__all__ = ["meant", "routes"]


def meant(body: bytes) -> dict[str, Any] | None:
    """Return what the user said in a request; None if it is no message and no click."""
    for said in heard(payload_of(body)):
        return said._asdict()
    return None
