"""The distribution is `llm-fsm-runtime`: no line of the repository installs another project by our
import's name.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paths import ROOT

# The benchmarks measure the other project too, in an environment of its own.
MEASURED = {"benchmarks/beside/systems.py"}

FOREIGN = r"(?<![\w./$-])[\"'`]?llm[-_.]fsm(?![\w-])(?!/)(?!\.\w)"
INSTALLS = (
    r"\bpip3?[\w.]* (?:\S+ )*?install\b",
    r"\bpipx? (?:install|inject|run)\b",
    r"\buv (?:\S+ )*?(?:add|install)\b",
    r"\buvx\b",
    r"\b(?:poetry|pdm|rye|pixi) add\b",
    r"\bconda install\b",
)
COMMAND = re.compile(rf"(?:{'|'.join(INSTALLS)})(?P<arguments>[^#;&|`)\n]*)")
REQUIREMENT = re.compile(
    rf"{FOREIGN}(?:\[[\w, .-]*\]|\s*(?:===?|~=|>=|<=|!=)\s*\d|\s+@\s+\S)", re.IGNORECASE
)
# poetry's table, and a requirement alone on its line or in a list of them
TABLE = re.compile(r"^\s*llm[-_.]fsm\s*=\s*(?:\{|\"[\^~<>=*\d])", re.IGNORECASE)
LIST = re.compile(
    r"(?:requirements|dependencies|packages)\w*[\"']?\s*[=:]\s*\[[^\]]*[\"']llm[-_.]fsm[\"']",
    re.IGNORECASE,
)


def installs_foreign(line: str) -> bool:
    """Return true if `line` installs the distribution `llm-fsm` or requires it."""
    for command in COMMAND.finditer(line):
        if re.search(FOREIGN, command["arguments"], re.IGNORECASE):
            return True
    return any(pattern.search(line) for pattern in (REQUIREMENT, TABLE, LIST))


def tracked() -> Iterator[str]:
    """Yield the paths of all files of the repository; of an unpacked archive, those outside of
    hidden folders.
    """
    if not (ROOT / ".git").exists():
        names = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        yield from (name.as_posix() for name in names if not name.parts[0].startswith("."))
        return
    listed = subprocess.run(
        ("git", "ls-files", "-z"), cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    yield from filter(None, listed.split("\0"))


def lines(name: str) -> list[str]:
    path = ROOT / name
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError):
        return []
    if path.name.startswith("requirements"):
        text = re.sub(r"(?m)^(?=llm)", "pip install ", text)
    return text.replace("\\\n", " ").splitlines()


def test_no_line_of_the_repository_installs_the_foreign_distribution() -> None:
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{name}: {line.strip()}"
        for name in tracked()
        if name not in {*MEASURED, own}
        for line in lines(name)
        if installs_foreign(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install llm-fsm",
        "pip install -U 'llm-fsm[redis]'",
        'python -m pip install --quiet "llm_fsm"',
        "    - /opt/x/bin/pip install --no-cache-dir LLM-FSM==0.1.1",
        "RUN pip install fastapi llm-fsm",
        "uv add llm-fsm",
        "uv pip install 'llm-fsm>=0.1'",
        "uvx llm-fsm",
        "poetry add llm-fsm",
        "pipx install llm-fsm",
        "llm-fsm[postgres]",
        "llm-fsm == 0.1.1",
        "llm-fsm @ git+https://example.org/llm-fsm",
        'llm-fsm = "^0.1"',
        'dependencies = ["llm-fsm"]',
        "the extra `llm-fsm[redis]`",
    ],
)
def test_each_way_to_install_the_foreign_distribution_is_found(line: str) -> None:
    assert installs_foreign(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'llm-fsm-runtime[redis]'",
        "pip install '.[redis]'   # the command llm-fsm",
        "pip install ./llm-fsm",
        "pip install git+https://example.org/you/llm-fsm.git",
        "pip install . && llm-fsm validate",
        "pip uninstall llm-fsm",
        'llm-fsm = "llm_fsm.cli:main"',
        'llm-fsm-runtime = "^0.2"',
        "llm-fsm validate bots",
    ],
)
def test_our_own_distribution_and_the_command_are_not_taken_for_it(line: str) -> None:
    assert not installs_foreign(line)
