"""What CI runs: the script of the action with its inputs, the hooks' commands, and the snippets of the page on CI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_fsm.cli.commands.validate import validate
from paths import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
SNIPPETS = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "reference" / "ci.md").read_text(encoding="utf-8"), re.M | re.S
)
GOOD: dict[str, Any] = {"name": "n", "initial_state": "a", "states": {"a": {"purpose": "Greet"}}}
OPTIONS = {option for parameter in validate.params for option in parameter.opts}


def run_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step of the action as the runner does it: inputs by environment, `bash -e`."""
    [step] = [step for step in ACTION["runs"]["steps"] if step.get("name") == name]
    values = {key: entry["default"] for key, entry in ACTION["inputs"].items()} | {
        key.replace("_", "-"): value for key, value in inputs.items()
    }
    environment = {
        key: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: values[m[1]], text)
        for key, text in step["env"].items()
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("document", "inputs", "code", "printed"),
    [
        (GOOD, {}, 0, ""),
        ({**GOOD, "initial_state": "b"}, {}, 1, "::error file=./bots/a b.json,"),
        ({**GOOD, "colour": 1}, {"paths": "bots/a b.json\n\n"}, 0, "::warning file=bots/a b.json,"),
        ({**GOOD, "colour": 1}, {"paths": " \r\n  bots/a b.json\t\r\n"}, 0, "::warning file=bots/a b.json,"),
        ({**GOOD, "colour": 1}, {"fail_on": "warning"}, 1, "::warning "),
        ({**GOOD, "colour": 1}, {"fail_on": "warning", "ignore": "S101,W4"}, 0, ""),
        ({**GOOD, "colour": 1}, {"fail_on": "warning", "select": "F", "format": "text"}, 0, ""),
        (GOOD, {"paths": "$(touch hacked); missing.json"}, 2, "::error "),
        (GOOD, {"paths": "--rules"}, 2, "::error "),
    ],
)
def test_the_action_checks_what_it_is_told(
    tmp_path: Path, document: dict[str, Any], inputs: dict[str, str], code: int, printed: str
) -> None:
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "a b.json").write_text(json.dumps(document), encoding="utf-8")
    done = run_step("Check", tmp_path, **inputs)
    assert (done.returncode, done.stdout[: len(printed)]) == (code, printed), done.stderr
    assert not (tmp_path / "hacked").exists()


def test_the_action_writes_a_report_for_code_scanning(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**GOOD, "colour": 1}), encoding="utf-8")
    done = run_step("Check", tmp_path, format="sarif", output="out.sarif", fail_on="never")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_no_input_of_the_action_is_pasted_into_a_script() -> None:
    assert all("${{" not in step.get("run", "") for step in ACTION["runs"]["steps"])


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_the_hooks_run_on_the_files_they_are_given(tmp_path: Path, hook: dict[str, Any]) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({**GOOD, "persna": "x"}), encoding="utf-8")
    program, *arguments = hook["entry"].split()
    command = [str(Path(sys.executable).with_name(program)), *arguments, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("--fix" in arguments) is ("persona" in file.read_text(encoding="utf-8"))
    assert re.search(hook["files"], "my/bots/deep/a.json")
    assert not re.search(hook["files"], "package.json")
    assert re.search(hook["exclude"], "bots/a.test.json")  # which a folder of definitions holds too, and is none
    assert not re.search(hook["exclude"], "bots/test.json")


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippets_use_what_there_is(snippet: str) -> None:
    document = yaml.safe_load(snippet)
    text = json.dumps(document)
    assert set(re.findall(r"(?<= )--[a-z-]+", text)) - {"--quiet"} <= OPTIONS
    for job in (document.get("jobs") or {}).values():
        for step in job["steps"]:
            if "llm-fsm@" in step["uses"]:
                assert set(step["with"]) <= set(ACTION["inputs"])
    for repository in document.get("repos", ()):
        assert {hook["id"] for hook in repository["hooks"]} <= {hook["id"] for hook in HOOKS}
