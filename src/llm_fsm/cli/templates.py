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
            "purpose": "Who would like to come, and on which day?",
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
            "purpose": "Shall I book it like this?",
            "required_context_keys": ["agreed"],
            "instructions": "Read name and day back. If the user corrects something, store that and read back again.",
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
        "booked": {"purpose": "It is booked. See you then!"},
        "cancelled": {"purpose": "All right, nothing was booked."},
    },
}

_TESTS: dict[str, Any] = {
    "cases": [
        {
            "name": "a booking with a correction",
            "start": {
                "reply": {"message": "Hello! Who is the booking for, and which day suits you?"},
                "expect": "collect",
            },
            "steps": [
                {
                    "say": "Ada, on Friday the 17th of May 2030",
                    "reply": {
                        "to": "confirm",
                        "set": {"name": "Ada", "day": "2030-05-17"},
                        "message": "Ada on Friday, 17 May. Is that right?",
                    },
                    "expect": {"state": "confirm", "context": {"name": "Ada", "day": "2030-05-17"}},
                },
                {
                    "say": "Saturday would be better",
                    "reply": {
                        "to": "confirm",
                        "set": {"day": "2030-05-18"},
                        "message": "Saturday, 18 May then, for Ada. Is that right?",
                    },
                    "expect": {"state": "confirm", "context": {"day": "2030-05-18"}},
                },
                {
                    "say": "yes",
                    "reply": {
                        "to": "booked",
                        "set": {"agreed": True},
                        "message": "Booked. See you then, Ada!",
                    },
                    "expect": {"state": "booked", "text": "Ada", "ended": True},
                },
            ],
        },
        {
            "name": "nothing is booked without a yes",
            "context": {"name": "Ada", "day": "2030-05-17"},
            "state": "confirm",
            "steps": [
                {
                    "say": "hm",
                    "replies": [
                        {"to": "booked", "message": "Booked!"},
                        {"message": "Shall I book it?"},
                    ],
                    "expect": {"state": "confirm", "calls": 2, "not": {"text": "Booked"}},
                },
                {
                    "say": "no, forget it",
                    "reply": {"to": "cancelled", "message": "As you wish."},
                    "expect": "cancelled",
                },
            ],
        },
        {
            "name": "somebody leaves at once",
            "steps": [
                {
                    "say": "never mind",
                    "reply": {"to": "cancelled", "message": "Goodbye."},
                    "expect": "cancelled",
                }
            ],
        },
    ],
}

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
      - run: python -m pip install "$LLM_FSM"
      - run: llm-fsm validate @NAME@.json
      - run: llm-fsm test .
"""


def files(name: str) -> dict[str, str]:
    """Path below the new folder to text."""
    return {
        f"{name}.json": _json({"name": name, **_DEFINITION}),
        f"{name}.test.json": _json({"definition": f"{name}.json", **_TESTS}),
        ".github/workflows/llm-fsm.yml": _WORKFLOW.replace("@NAME@", name),
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
            "  llm-fsm test .                 play its test conversations, which need no model either",
            "The CI file works where this folder is the root of a repository; else move .github there and set paths.",
        ]
    )


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
