"""The last commit of a file, read by git."""

from __future__ import annotations

import os
import subprocess

SECONDS = 20
"""The longest time of one call of git."""


def repository_of(folder: str) -> str | None:
    """Return the top folder of the git repository of a folder; None if there is none, or no git."""
    found = _git(folder, "rev-parse", "--show-toplevel")
    return None if found is None else found.decode(errors="surrogateescape").strip() or None


def committed(place: str) -> str | None:
    """Return the text of a file in the last commit; None if it has none.

    Args:
        place: The absolute path of the file.

    Returns:
        The text, without a byte order mark.
    """
    folder, name = os.path.split(place)
    found = _git(folder, "show", f"HEAD:./{name}")
    return None if found is None else found.decode("utf-8-sig", "replace")


def _git(folder: str, *arguments: str) -> bytes | None:
    """Run git in a folder without the hooks, filters and pagers that a repository may set."""
    safe = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", *safe, "-C", folder, *arguments],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
