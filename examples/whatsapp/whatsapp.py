"""A WhatsApp number over the service of `llm-fsm serve`: the channel of the package, as a file of
yours.

Run:  WHATSAPP_APP_SECRET=… WHATSAPP_VERIFY_TOKEN=… WHATSAPP_TOKEN=… llm-fsm serve flow.json \
          --mount examples/whatsapp/whatsapp.py --allow-host bot.example.org

`--channel whatsapp` does the same. Give Meta https://bot.example.org/channels/whatsapp as the
callback URL, with the verify token. Subscribe to `messages`.
"""

from typing import Any

from llm_fsm import Choice
from llm_fsm.channels import whatsapp
from llm_fsm.channels.fit import fit
from llm_fsm.channels.whatsapp import routes, said_in

__all__ = ["content", "routes", "said_in"]


def content(text: str, choices: tuple[Choice, ...] = ()) -> dict[str, Any] | None:
    """Return the last message of an answer, which has the buttons; None without words."""
    parts = fit(text, choices, whatsapp.LIMITS)
    return whatsapp.content(*parts[-1]) if parts else None
