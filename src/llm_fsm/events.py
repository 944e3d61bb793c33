"""The events of a conversation, under their public name; `llm_fsm.session.events` says what each one means."""

from llm_fsm.session.events import *  # noqa: F403
