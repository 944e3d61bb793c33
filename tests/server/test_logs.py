"""With JSON logs, no line is plain, whoever writes it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SOURCES = {
    "another library": "logging.getLogger('httpx').warning('odd %s', 'thing')",
    "the root": "logging.error('odd\\nthing')",
    "a traceback": "logging.getLogger('asyncio').error('odd thing', exc_info=ValueError('x'))",
    "a warning of Python": "import warnings; warnings.warn('odd thing')",
    "this server": "logging.getLogger('llm_fsm.server').error('odd thing')",
    "the end of the process": "raise ValueError('odd\\nthing')",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_no_line_is_plain(source: str) -> None:
    code = f"import logging; from llm_fsm.server.logs import log_json; log_json(); {source}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(lines) == 1
    assert "odd" in lines[0]["message"]
    assert done.stdout == ""
