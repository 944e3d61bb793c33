"""The events of a conversation: import them from here."""

from llm_fsm.session.events import *  # noqa: F403
from llm_fsm.session.flow_events import *  # noqa: F403
