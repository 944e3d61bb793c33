"""The systems that are measured, and the environments they are installed into."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".bench"
"""Made by `install`, ignored by git."""

PACKAGES = {
    "server": ("uvloop", "orjson", "tiktoken", "litellm", "httptools", "psutil", "matplotlib"),
    "ours": ("psutil", str(ROOT)),
    "fsm_llm": ("psutil", "fsm-llm"),
    "seed_era": ("psutil", "llm-fsm==0.1.1"),
    "fsm_agent_flow": ("psutil", "fsm-agent-flow", "openai"),
    "langgraph": ("psutil", "langgraph", "langgraph-checkpoint-sqlite", "openai"),
    "burr": ("psutil", "burr[start]", "openai"),
    "pydantic_ai": ("psutil", "pydantic-ai-slim[openai]", "pydantic-graph"),
    "raw": ("psutil", "litellm", "openai", "httpx", "aiohttp"),
}
"""Environment to what pip installs into it; one each, so that imports, memory and dependencies do
not mix.
"""


@dataclass(frozen=True, slots=True)
class System:
    """One row of the tables. `peer`: module and class of its adapter; `shown`: the package whose
    version counts.
    """

    name: str
    environment: str
    peer: str
    shown: str
    stubbed: bool = True
    """Can be measured without HTTP."""
    durable: bool = False
    """Brings a store on disk."""
    converses: bool = True
    """Takes one message after another."""


SYSTEMS = (
    System("llm_fsm", "ours", "ours:Async", "llm-fsm-runtime", durable=True),
    System("llm_fsm, sync", "ours", "ours:Sync", "llm-fsm-runtime"),
    System("llm_fsm, by litellm", "ours", "ours:ByLitellm", "llm-fsm-runtime", stubbed=False),
    System("fsm-llm", "fsm_llm", "fsm_llm_form:Peer", "fsm-llm", stubbed=False),
    System("llm-fsm 0.1.1 (seed era)", "seed_era", "seed_era:Peer", "llm-fsm"),
    System(
        "fsm-agent-flow",
        "fsm_agent_flow",
        "fsm_agent_flow_form:Peer",
        "fsm-agent-flow",
        converses=False,
    ),
    System("LangGraph", "langgraph", "langgraph_form:Sync", "langgraph", durable=True),
    System("LangGraph, async", "langgraph", "langgraph_form:Async", "langgraph"),
    System("Burr", "burr", "burr_form:Sync", "burr", durable=True),
    System("Burr, async", "burr", "burr_form:Async", "burr"),
    System("pydantic-ai", "pydantic_ai", "pydantic_ai_form:Peer", "pydantic-ai-slim"),
    System("raw aiohttp", "raw", "raw:Aiohttp", "aiohttp", stubbed=False),
    System("raw httpx", "raw", "raw:Httpx", "httpx", stubbed=False),
    System("raw openai", "raw", "raw:OpenAI", "openai"),
    System("raw openai, async", "raw", "raw:AsyncOpenAI", "openai"),
    System("raw litellm", "raw", "raw:Litellm", "litellm", stubbed=False),
    System("raw litellm, async", "raw", "raw:AsyncLitellm", "litellm", stubbed=False),
)


def python(environment: str) -> str:
    """The interpreter of an environment."""
    return str(ENVIRONMENTS / environment / "bin" / "python")


def _pip(environment: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python(environment), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def why(made: subprocess.CompletedProcess[str]) -> str:
    """Why a program failed: the last line that it said, else its exit code."""
    said = (made.stderr.strip() or made.stdout.strip()).splitlines()
    return said[-1] if said else f"exit {made.returncode} without a word"


def install(environment: str) -> str | None:
    """Make an environment; the reason when that fails. One that is whole stays, but for ours, which
    is made anew.
    """
    done = ENVIRONMENTS / environment / "installed"
    if done.exists() and environment != "ours":
        return None
    if not done.exists():
        command = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENTS / environment)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            return why(made)
    packages = PACKAGES[environment]
    if environment == "ours" and done.exists():
        packages = ("--no-deps", "--force-reinstall", str(ROOT))
    made = _pip(environment, "install", "--quiet", *packages)
    if made.returncode:
        return why(made)
    done.touch()
    return None


def version(system: System) -> str:
    """The version that is installed."""
    shown = _pip(system.environment, "show", system.shown).stdout
    return next(
        (line.split()[1] for line in shown.splitlines() if line.startswith("Version:")), "?"
    )
