"""A WhatsApp number over the service of `llm-fsm serve`: the channel of the package, as a file of
yours.

Run:  WHATSAPP_APP_SECRET=… WHATSAPP_VERIFY_TOKEN=… WHATSAPP_TOKEN=… llm-fsm serve flow.json \
          --mount examples/whatsapp/whatsapp.py --allow-host bot.example.org

`--channel whatsapp` does the same. Give Meta https://bot.example.org/channels/whatsapp as the
callback URL, with the verify token. Subscribe to `messages`.
"""

from llm_fsm.channels.whatsapp import content, heard, routes, said_in

__all__ = ["content", "heard", "routes", "said_in"]
