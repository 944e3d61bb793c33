"""The files that a new definition starts with: a small booking that shows the format's best habits."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

_DEFINITION: dict[str, Any] = {
    "description": "Takes a booking: collects day and name, reads them back, and books on a yes.",
    "version": "1",
    "persona": "A friendly receptionist who keeps sentences short.",
    "initial_state": "collect",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Who the booking is for"},
            "day": {"type": "string", "format": "date", "description": "The day, as YYYY-MM-DD"},
            "agreed": {"type": "boolean", "description": "True when the user said yes to what was read back"},
        },
    },
    "states": {
        "collect": {
            "purpose": "Learn who wants to come, and on which day",
            "required_context_keys": ["name", "day"],
            "instructions": "Ask only for what is still missing.",
            "transitions": [
                {
                    "target_state": "confirm",
                    "description": "Name and day are known",
                    "conditions": [
                        {"description": "Both are known", "requires_context_keys": ["name", "day"]}
                    ],
                },
                {"target_state": "cancelled", "description": "The user does not want to book any more"},
            ],
        },
        "confirm": {
            "purpose": "Read name and day back and ask whether they are right",
            "required_context_keys": ["agreed"],
            "instructions": "If the user corrects something, store the correction and read it back again.",
            "transitions": [
                {
                    "target_state": "booked",
                    "description": "The user said yes",
                    "conditions": [
                        {"description": "The user agreed", "logic": {"==": [{"var": "agreed"}, True]}}
                    ],
                },
                {"target_state": "cancelled", "description": "The user does not want to book any more"},
            ],
        },
        "booked": {"purpose": "Say that it is booked, with name and day"},
        "cancelled": {"purpose": "Say that nothing was booked"},
    },
}

_REPLIES: list[dict[str, Any]] = [
    {"message": "Hello! Who is the booking for, and which day suits you?"},
    {
        "transition": {"target_state": "confirm", "context_update": {"name": "Ada", "day": "2030-05-17"}},
        "message": "Ada on Friday, 17 May. Is that right?",
    },
    {
        "transition": {"target_state": "confirm", "context_update": {"day": "2030-05-18"}},
        "message": "Saturday, 18 May then, for Ada. Is that right?",
    },
    {
        "transition": {"target_state": "booked", "context_update": {"agreed": True}},
        "message": "Booked: Ada, Saturday, 18 May. See you then!",
    },
]

_TEST = '''"""The booking, played with scripted replies: no model, no key, the same every time."""

from pathlib import Path

from llm_fsm import Machine, check

HERE = Path(__file__).parent
DEFINITION = HERE / "@NAME@.json"
REPLIES = HERE / "replies.json"


def test_the_definition_has_no_findings():
    assert check(DEFINITION) == []


def test_a_booking_with_a_correction():
    with Machine.from_file(DEFINITION, model=f"scripted:{REPLIES}") as machine:
        chat = machine.start()
        assert chat.state == "collect"

        turn = chat.send("Ada, on Friday the 17th of May 2030")
        assert turn.state == "confirm"
        assert turn.context == {"name": "Ada", "day": "2030-05-17"}

        turn = chat.send("Saturday would be better")
        assert turn.state == "confirm"
        assert turn.context["day"] == "2030-05-18"

        turn = chat.send("yes")
        assert turn.state == "booked"
        assert turn.ended
'''

_WORKFLOW = """name: llm-fsm

on: [push, pull_request]

jobs:
  check:
    runs-on: ubuntu-latest
    env:
      # What pip installs llm-fsm from: a git address, a wheel or a folder, kept in the repository's variable
      # LLM_FSM (Settings, Secrets and variables, Actions). The name llm-fsm on PyPI belongs to another project.
      LLM_FSM: ${{ vars.LLM_FSM }}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: test -n "$LLM_FSM" || { echo "set the repository variable LLM_FSM"; exit 1; }
      - run: python -m pip install "$LLM_FSM" pytest
      - run: llm-fsm validate @NAME@.json
      - run: python -m pytest test_@MODULE@.py
"""


def files(name: str) -> dict[str, str]:
    """Path below the new folder to text."""
    module = name.replace("-", "_")

    def filled(text: str) -> str:
        return text.replace("@NAME@", name).replace("@MODULE@", module)

    return {
        f"{name}.json": _json({"name": name, **_DEFINITION}),
        "replies.json": _json(_REPLIES),
        f"test_{module}.py": filled(_TEST),
        ".github/workflows/llm-fsm.yml": filled(_WORKFLOW),
    }


def hints(name: str, folder: Path) -> str:
    """What to do next, for the terminal."""
    place = shlex.quote(str(folder))
    return "\n".join(
        [
            "",
            "What to do next:",
            f"  cd {place}",
            f"  llm-fsm chat {name}.json --model offline      talk to it without a model, or name one",
            f"  llm-fsm validate {name}.json",
            f"  python -m pytest test_{name.replace('-', '_')}.py",
            "The CI file works where this folder is the root of a repository; else move .github there and set paths.",
        ]
    )


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
