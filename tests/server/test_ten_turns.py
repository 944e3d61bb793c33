"""The ten turns over REST, by curl; the other doors' tests hold the same conversation."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

import ten_turns
from llm_fsm.server import create_app
from served import served


def curl(url: str, body: dict[str, Any], *options: str) -> str:
    command = (
        "curl",
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--json",
        json.dumps(body),
        *options,
        url,
    )
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("streamed", [False, True])
def test_ten_turns_by_curl(streamed: bool) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: apt-get install curl")
    found = []
    with served(create_app(ten_turns.machine(), closes=True, due_seconds=None)) as url:
        begun = json.loads(curl(f"{url}/conversations", {"definition": "ten", "greet": False}))
        for message in ten_turns.MESSAGES:
            said = isinstance(message, str)
            place = f"{url}/conversations/{begun['id']}/{'messages' if said else 'answer'}"
            body = {"text": message} if said else {"value": message}
            if streamed:
                text = curl(place, body, "--no-buffer", "-H", "Accept: text/event-stream")
                lines = [line for line in text.splitlines() if line.startswith("data: ")]
                turn = json.loads(lines[-1].removeprefix("data: "))
            else:
                turn = json.loads(curl(place, body))
            found.append((turn["state"], turn["context"]))
    assert found == ten_turns.reference()
