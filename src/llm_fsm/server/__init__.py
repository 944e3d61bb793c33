"""One definition behind every door: REST, the OpenAI form, AG-UI, MCP, and a page to talk to.

In: machines (`AsyncMachine`), and who may use them. Out: an ASGI application, from `create_app`. Every door turns its
protocol's request into a call of `AsyncMachine` or `AsyncConversation`. It gives the turn as its protocol's answer. No
door knows another one. Open `app.py` first: it says which parts there are. `guard.py` is in front of all doors.
`machines.py` finds the conversation that is meant. `turns.py` keeps turns going whose client has left. Needs the extra
`server`: `pip install 'llm-fsm[server]'`.
"""

from llm_fsm.server.app import create_app
from llm_fsm.server.limits import Limits
from llm_fsm.server.tokens import Token, Tokens

__all__ = ["Limits", "Token", "Tokens", "create_app"]
