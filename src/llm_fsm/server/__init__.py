"""Serve one definition by several APIs: REST, the OpenAI API, AG-UI, MCP, and a chat page.

Machines (`AsyncMachine`) and tokens enter. An ASGI application leaves, from `create_app`. Every API
is a *door*: it turns its protocol's request into a call of `AsyncMachine` or `AsyncConversation`,
and the turn into its protocol's answer. Doors do not know each other. Open `app.py` first: it joins
all parts. `guard.py` is in front of all doors. `connections.py` bounds connections, and `pool.py`
keeps the work of authors out of the process. `machines.py` finds the conversation of a request.
`turns.py` continues turns whose client has left. Needs the extra
`server`: `pip install 'llm-fsm-runtime[server]'`.
"""

from llm_fsm.server.app import create_app
from llm_fsm.server.limits import Limits
from llm_fsm.server.tokens import Token, Tokens

__all__ = ["Limits", "Token", "Tokens", "create_app"]
