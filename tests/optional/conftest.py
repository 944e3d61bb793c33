"""Tests with packages that are too big for everybody: collected only where they are installed, as `.ci/run` does."""

from __future__ import annotations

import os
from importlib.util import find_spec

NEEDS = {
    "adk": "google.adk",
    "livekit": "livekit.agents",
    "pipecat": "pipecat",
    "small_model": "xllamacpp",
    "smolagents": "smolagents",
}


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


MISSING = [name for name, module in NEEDS.items() if not _installed(module)]
if MISSING and os.environ.get("OPTIONAL_TESTS") == "all":
    raise RuntimeError(f"not installed: {', '.join(MISSING)}; run make optional")
collect_ignore_glob = [f"*_{name}.py" for name in MISSING]
