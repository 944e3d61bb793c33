"""What CI runs: the script of the action with its inputs, the hooks' commands, and the snippets of
the page on CI.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_fsm.cli.commands.validate import validate
from paths import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
)
SNIPPETS = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "ci.md").read_text(encoding="utf-8"), re.M | re.S
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
        (
            {**GOOD, "colour": 1},
            {"paths": " \r\n  bots/a b.json\t\r\n"},
            0,
            "::warning file=bots/a b.json,",
        ),
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


TALKS = {
    "name": "n",
    "initial_state": "a",
    "tools": {"stock": {"registered": "stock"}},
    "states": {
        "a": {"purpose": "Help", "tools": ["stock"], "transitions": [{"target_state": "b"}]},
        "b": {"reply": "Bye."},
    },
}
ASKS = {
    "name": "asks",
    "steps": [
        {
            "say": "mugs?",
            "replies": [{"calls": [{"name": "stock", "arguments": {}}]}, {"to": "b"}],
            "expect": {"tools": [{"name": "stock", "error": False}]},
        }
    ],
}


@pytest.mark.parametrize(
    ("inputs", "code", "printed"),
    [
        ({"tests": "bots\n"}, 1, "--tools FILE.py"),
        ({"tests": "bots", "tools": "my tools.py"}, 0, "1 passed"),
        ({"tests": "bots", "tools": "my tools.py", "fail_under": "100"}, 0, "1 passed"),
        (
            {"tests": "bots/a.test.json\r\n", "tools": "other.py"},
            4,
            "other.py: there is no such file",
        ),
        ({"tests": "$(touch hacked)"}, 4, "hacked"),
    ],
)
def test_the_action_runs_the_tests_it_is_told(
    tmp_path: Path, inputs: dict[str, str], code: int, printed: str
) -> None:
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "a.json").write_text(json.dumps(TALKS), encoding="utf-8")
    suite = {"definition": "a.json", "cases": [ASKS]}
    (tmp_path / "bots" / "a.test.json").write_text(json.dumps(suite), encoding="utf-8")
    (tmp_path / "my tools.py").write_text(
        "def stock() -> int:\n    return 7\n\n\nTOOLS = [stock]\n"
    )
    done = run_step("Test", tmp_path, **inputs)
    assert done.returncode == code, done.stdout + done.stderr
    assert printed in done.stdout + done.stderr
    assert not (tmp_path / "hacked").exists()


def test_the_tests_of_the_action_run_only_if_asked() -> None:
    [step] = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Test"]
    assert step["if"] == "inputs.tests != ''"
    assert ACTION["inputs"]["tests"]["default"] == ""


def test_action_hooks_and_page_install_what_checking_needs(tmp_path: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        needed = tomllib.load(file)["dependency-groups"]["lint"]
    for hook in HOOKS:
        assert hook["additional_dependencies"] == ["--no-deps", *needed]
    pip = tmp_path / "python"
    pip.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    pip.chmod(0o755)
    [step] = [step for step in ACTION["runs"]["steps"] if step.get("name") == "Install"]
    for tests, packages in (("", ["--no-deps", *needed]), ("bots", [])):
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            env={
                "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
                "ACTION_PATH": "/a b",
                "TESTS": tests,
            },
            capture_output=True,
            text=True,
            check=True,
        )
        given = done.stdout.splitlines()
        assert given[given.index("/a b") + 1 :] == packages
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    names = [re.split(r"[<>=]", package)[0] for package in needed]
    assert f"--no-deps llm-fsm-runtime*.whl {' '.join(names)}" in page


# Imports of what is not in the group `lint` fail as if it were not installed.
CHECKER_ALONE = """
import sys
from importlib.metadata import packages_distributions

allowed = {names!r}
brought = packages_distributions()

class Only:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        owners = brought.get(name.partition(".")[0], [])
        hidden = owners and not allowed & {{owner.lower().replace("_", "-") for owner in owners}}
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Only, sys.meta_path)
from llm_fsm.cli import main
sys.exit(main({arguments!r}))
"""


def checker_packages() -> set[str]:
    """The names of the packages of the group `lint`, and ours."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        needed = tomllib.load(file)["dependency-groups"]["lint"]
    return {re.split(r"[<>=]", package)[0] for package in needed} | {"llm-fsm-runtime"}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--format", "sarif"),
        ("--format", "junit"),
        ("--fix",),
        ("--fail-on", "warning"),
        ("--rules",),
    ],
)
def test_checking_needs_the_packages_of_its_group_alone(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    names = checker_packages()
    folder = tmp_path / "bots"
    shutil.copytree(ROOT / "fsm_definitions", folder)
    arguments = ["validate", *options, *([] if options == ("--rules",) else [str(folder)])]
    program = CHECKER_ALONE.format(names=names, arguments=arguments)
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_command_beyond_the_group_names_the_package_that_it_needs() -> None:
    refused = CHECKER_ALONE.format(names=checker_packages(), arguments=["show", "greeting"])
    done = subprocess.run(
        (sys.executable, "-c", refused), capture_output=True, text=True, check=False
    )
    assert "this needs the package pydantic" in done.stderr


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_the_checker_alone_prints_its_findings(tmp_path: Path, *, terminal: bool) -> None:
    names = checker_packages()
    wrong = {**GOOD, "persna": "x", "initial_state": "nowhere"}
    (tmp_path / "a.json").write_text(json.dumps(wrong), encoding="utf-8")
    program = CHECKER_ALONE.format(names=names, arguments=["validate", "a.json"])
    status, shown = _run(program, tmp_path, terminal=terminal)
    assert status == 1, shown
    assert "nowhere" in shown
    assert "persna" in shown
    assert "Traceback" not in shown


def _run(program: str, folder: Path, *, terminal: bool) -> tuple[int, str]:
    """Return the exit status of a program and all that it wrote, on a terminal or into a file."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    command = (sys.executable, "-c", program)
    process = subprocess.Popen(command, cwd=folder, stdout=writer, stderr=writer)
    os.close(writer)
    shown = b""
    # The end of a terminal is an error to its reader, that of a pipe an empty read.
    with suppress(OSError):
        while part := os.read(reader, 65_536):
            shown += part
    os.close(reader)
    return process.wait(), shown.decode()


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
    # which a folder of definitions holds too, and is none
    assert re.search(hook["exclude"], "bots/a.test.json")
    assert not re.search(hook["exclude"], "bots/test.json")


PINS = re.findall(r"llm-fsm@([\w.]+)|^    rev: (\S+)", (ROOT / "docs" / "ci.md").read_text(), re.M)


def test_the_page_pins_a_commit_that_there_is() -> None:
    [pin] = {action or hook for action, hook in PINS}
    assert re.fullmatch(r"[0-9a-f]{40}", pin)
    ask = ("git", "rev-parse", "--is-shallow-repository")
    shallow = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False)
    if shallow.stdout.strip() == "false":  # an archive or a shallow clone knows no older commit
        subprocess.run(("git", "merge-base", "--is-ancestor", pin, "HEAD"), cwd=ROOT, check=True)
        text = subprocess.run(
            ("git", "show", f"{pin}:.pre-commit-hooks.yaml"),
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert yaml.safe_load(text) == HOOKS


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippets_use_what_there_is(snippet: str) -> None:
    document = yaml.safe_load(snippet)
    text = json.dumps(document)
    assert set(re.findall(r"(?<= )--[a-z-]+", text)) - {"--quiet", "--no-deps"} <= OPTIONS
    for job in (document.get("jobs") or {}).values():
        for step in job["steps"]:
            if "llm-fsm@" in step["uses"]:
                assert set(step["with"]) <= set(ACTION["inputs"])
    for repository in document.get("repos", ()):
        assert {hook["id"] for hook in repository["hooks"]} <= {hook["id"] for hook in HOOKS}
