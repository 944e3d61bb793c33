"""The installed packages: the other project beside ours is named with its cure, and so is a missing
package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from llm_fsm.cli import exit_codes as exits
from llm_fsm.cli import installation
from paths import ROOT

# Hides packages from a command as if they were not installed.
WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in {names!r}
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
from llm_fsm.cli import main
sys.exit(main({arguments!r}))
"""


def run(*arguments: str, site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that has `site` on its path."""
    return subprocess.run(
        (sys.executable, "-m", "llm_fsm", *arguments),
        env={**os.environ, "PYTHONPATH": str(site), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def run_without(names: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process in which the packages `names` are not installed."""
    program = WITHOUT.format(names=names, arguments=list(arguments))
    return subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "folder",
    ["llm_fsm-0.1.1.dist-info", "llm-fsm-0.1.1.dist-info", "llm_fsm-0.1.1-py3.11.egg-info"],
)
def test_the_other_project_beside_ours_is_named_once_with_its_cure(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    done = run("--version", site=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("llm-fsm 0.1.1 is installed too") == 1
    assert "pip uninstall llm-fsm" in done.stderr
    assert "install llm-fsm-runtime again" in " ".join(done.stderr.split())
    assert "0.1.1" not in done.stdout


@pytest.mark.parametrize(
    "folder",
    ["llm_fsm_runtime-0.2.0.dist-info", "llm_fsm_extra-1.dist-info", "fsm_llm-1.0.dist-info"],
)
def test_our_own_distribution_and_those_of_like_names_are_not_named(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    assert run("--version", site=tmp_path).stderr == ""


def test_a_shell_that_completes_is_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "llm_fsm-0.1.1.dist-info").mkdir()
    done = run(
        site=tmp_path, _LLM_FSM_COMPLETE="bash_complete", COMP_WORDS="llm-fsm ch", COMP_CWORD="1"
    )
    assert (done.stdout, done.stderr) == ("plain,chat\n", "")


@pytest.mark.parametrize(
    ("missing", "arguments", "cure"),
    [
        ("pydantic", ("show", "greeting"), "pip install 'llm-fsm-runtime'"),
        ("pydantic", ("chat", "greeting", "--model", "offline"), "pip install 'llm-fsm-runtime'"),
        ("jinja2", ("chat", "greeting", "--model", "offline"), "pip install 'llm-fsm-runtime'"),
        ("pytest", ("test", "."), "pip install 'llm-fsm-runtime'"),
        ("rich", ("show", "greeting"), "pip install 'llm-fsm-runtime'"),
        ("fastapi", ("serve", "greeting"), "pip install 'llm-fsm-runtime[server]'"),
        ("mcp", ("mcp", "greeting"), "pip install 'llm-fsm-runtime[mcp,server]'"),
        ("opentelemetry", ("serve", "greeting", "--otel"), "pip install 'llm-fsm-runtime[otel]'"),
        (
            "jwt",
            ("serve", "greeting", "--jwt-secret-file", "x"),
            "pip install 'llm-fsm-runtime[jwt]'",
        ),
        (
            "psycopg",
            ("serve", "greeting", "--db", "postgresql://x@y/z"),
            'pip install "llm-fsm-runtime[postgres]"',
        ),
    ],
)
def test_a_missing_package_is_one_sentence_with_its_install_line(
    missing: str, arguments: tuple[str, ...], cure: str
) -> None:
    done = run_without({missing}, *arguments)
    said = " ".join(done.stderr.split())
    assert cure in said
    assert missing in said
    assert "Traceback" not in said
    assert "internal error" not in said
    assert done.returncode in (exits.USAGE, exits.MODEL)


def test_a_module_of_ours_that_is_missing_is_a_bug() -> None:
    assert installation.missing_module(ModuleNotFoundError("x", name="llm_fsm.engine.gone")) is None
    assert exits.code_of(ModuleNotFoundError("x", name="llm_fsm.engine.gone")) == exits.INTERNAL


def test_each_extra_that_brings_packages_is_known_by_its_modules() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    bring = {name for name, packages in extras.items() if packages} - {"all"}
    assert set(installation.MODULES) == bring
