"""The front door: every name opens, lists agree, and type checkers see what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import llm_fsm


def test_every_public_name_opens_and_the_lists_agree() -> None:
    assert sorted(llm_fsm.__all__) == sorted(["__version__", *llm_fsm._MODULE_OF])
    for name in llm_fsm.__all__:
        assert getattr(llm_fsm, name) is not None
    assert dir(llm_fsm) == sorted(llm_fsm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Machin'"):
        _ = llm_fsm.Machin


def test_type_checkers_see_the_public_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    names = ", ".join(name for name in llm_fsm.__all__ if name != "__version__")
    program.write_text(f"from llm_fsm import {names}\n", encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(tmp_path / "cache"),
            str(program),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout
