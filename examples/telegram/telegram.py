"""A Telegram bot over the service of `llm-fsm serve`: the channel of the package, as a file of yours.

Run:  TELEGRAM_SECRET=… llm-fsm serve flow.json --mount examples/telegram/telegram.py --allow-host
    bot.example.org

`--channel telegram` does the same. Tell Telegram once: setWebhook with
url=https://bot.example.org/channels/telegram and secret_token=….
"""

from llm_fsm.channels.telegram import heard, message, routes, words

__all__ = ["heard", "message", "routes", "words"]
