"""The events of a conversation, under their public name. `llm_fsm.session.events` describes each
one.
"""

from llm_fsm.session.events import *  # noqa: F403
