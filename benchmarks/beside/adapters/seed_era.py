"""llm-fsm 0.1.1 as it is on PyPI: the JSON machine of `machine.json`, litellm, one prompt per
state.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from adapters.common import MODEL, environment

_MACHINE = Path(__file__).parents[1] / "machine.json"
_KEPT = ("id", "description", "purpose", "instructions", "required_context_keys", "transitions")


def _older_form() -> dict[str, Any]:
    """The machine in the form of that version: it knows neither a schema nor kinds of states."""
    machine = json.loads(_MACHINE.read_text())
    states = {}
    for name, state in machine["states"].items():
        kept = {key: value for key, value in state.items() if key in _KEPT}
        for transition in kept.setdefault("transitions", []):
            for condition in transition.get("conditions", []):
                condition.setdefault("description", "the keys are known")
        states[name] = {"id": name, "description": name, **kept}
    return {
        "name": machine["name"],
        "description": machine["description"],
        "persona": machine["persona"],
        "initial_state": machine["initial_state"],
        "version": "3.0",
        "states": states,
    }


class Peer:
    """One manager, one machine, as its command line uses them."""

    is_async = False

    def __init__(self, base_url: str, stub: bool = False, store: str | None = None) -> None:
        environment(base_url)
        from loguru import logger

        from llm_fsm import FSMDefinition, FSMManager, LiteLLMInterface

        logger.remove()
        logger.add(sys.stderr, level="ERROR")
        if stub:
            import litellm
            from stub import completion_object

            import llm_fsm.llm

            litellm.completion = completion_object
            llm_fsm.llm.completion = completion_object
        definition = FSMDefinition(**_older_form())
        model = LiteLLMInterface(model=MODEL, api_key="sk-fake")
        self.manager = FSMManager(fsm_loader=lambda _: definition, llm_interface=model)

    def open(self, _id: str) -> dict[str, Any]:
        return {}

    def start(self, conversation: Any) -> str:
        conversation["id"], words = self.manager.start_conversation("form")
        return words

    def turn(self, conversation: Any, text: str) -> str:
        return self.manager.process_message(conversation["id"], text)

    def state(self, conversation: Any) -> str:
        return self.manager.get_conversation_state(conversation["id"])

    def data(self, conversation: Any) -> dict[str, Any]:
        return self.manager.get_conversation_data(conversation["id"])
