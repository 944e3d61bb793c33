"""The examples as modules, for their tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paths import ROOT

EXAMPLES = ROOT / "examples"


def file_of(name: str) -> Path:
    """Return the file of an example, which is in the folder of its topic."""
    [found] = EXAMPLES.glob(f"*/{name}.py")
    return found


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import an example by its name."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"example_{name}", file_of(name))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load
