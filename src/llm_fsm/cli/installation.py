"""The installed packages: a distribution that shares our files, and packages that are missing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

DISTRIBUTION = "llm-fsm-runtime"

_FOREIGN = re.compile(r"llm[-_.]fsm-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")
"""Folder in which pip describes the distribution `llm-fsm`: another project, or this one by its
former name.
"""

MODULES: Mapping[str, tuple[str, ...]] = {
    "adk": ("google",),
    "jwt": ("jwt",),
    "mcp": ("mcp",),
    "mongo": ("pymongo", "bson"),
    "openai": ("openai",),
    "otel": ("opentelemetry",),
    "postgres": ("psycopg",),
    "redis": ("redis",),
    "server": (
        "ag_ui",
        "fastapi",
        "httptools",
        "prometheus_client",
        "sse_starlette",
        "starlette",
        "uvicorn",
    ),
    "slack": ("slack_bolt",),
    "smolagents": ("smolagents",),
    "statemachine": ("statemachine",),
    "telegram": ("aiogram",),
    "temporal": ("temporalio",),
    "whatsapp": ("pywa",),
}
"""Extra to the modules that it brings."""


def foreign_version(folders: Iterable[str]) -> str | None:
    """Return the version of the distribution `llm-fsm` in one of these folders; None if there is
    none.

    Names of files are enough: `importlib.metadata` would take longer to import than all of
    `--help`.
    """
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # an archive, or a folder that is not there
            continue
        for name in names:
            found = _FOREIGN.fullmatch(name)
            if found is not None:
                return found[1]
    return None


def foreign_warning(version: str) -> str:
    """Return the sentence that names the foreign distribution and the cure."""
    return (
        f"warning: llm-fsm {version} is installed too. It is another project, or an older version of this one, "
        f"and has the same files. Run `pip uninstall llm-fsm`, then install {DISTRIBUTION} again: "
        "`pip install --force-reinstall --no-deps` and its address or folder"
    )


def missing_module(error: BaseException) -> str | None:
    """Return the name of the package that `error` misses; None if it is another error or a bug of
    ours.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return None if package == "llm_fsm" else package


def cure(package: str) -> str:
    """Return the sentence that says how a missing package is installed."""
    brought = [extra for extra, modules in MODULES.items() if package in modules]
    wanted = f"{DISTRIBUTION}[{brought[0]}]" if brought else DISTRIBUTION
    return f"this needs the package {package}, which is not installed: pip install '{wanted}'"
