"""Tests with packages that are too big for everybody: collected only where they are installed, as
`.ci/run` does.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

AGENTS = {"adk": "google.adk", "small_model": "xllamacpp", "smolagents": "smolagents"}
VOICE = {"livekit": "livekit.agents", "pipecat": "pipecat"}
"""They need older versions of what Google's ADK needs, so that they have an environment of their
own.
"""
MESSENGERS = {"aiogram": "aiogram", "pywa": "pywa_async", "slack_bolt": "slack_bolt"}
NEEDS = {**AGENTS, **VOICE, **MESSENGERS}


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


MISSING = [name for name, module in NEEDS.items() if not _installed(module)]
WANTED = {"agents": AGENTS, "voice": VOICE, "messengers": MESSENGERS}.get(
    os.environ.get("OPTIONAL_TESTS", ""), {}
)
LACKING = sorted(WANTED.keys() & set(MISSING))
if LACKING:
    raise RuntimeError(f"not installed: {', '.join(LACKING)}; run make optional")
collect_ignore_glob = [f"*_{name}.py" for name in MISSING]
