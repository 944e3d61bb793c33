"""The commits of a file, read by git.

The folder may come from anybody, and its repository may name commands: hooks, filters, monitors,
remote helpers. So git reads one object, and none of that runs.
"""

from __future__ import annotations

import os
import subprocess

from llm_fsm.editor.models import GitCommit

MOST = 100
"""Commits that are listed."""
SECONDS = 20
"""The longest time of one call of git."""
_SAFE = (
    "--no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c credential.helper= "
    "-c protocol.allow=never -c safe.bareRepository=explicit"
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",  # counts before any protocol.NAME.allow of the repository
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}


def repository_of(folder: str) -> str | None:
    """Return the top folder of the git repository of a folder; None if there is none, or no git."""
    found = _git(folder, "rev-parse", "--show-toplevel")
    return None if found is None else found.decode(errors="surrogateescape").strip() or None


def commits(place: str) -> list[GitCommit]:
    """Return the commits that changed the file at an absolute path, the newest first."""
    folder, name = os.path.split(place)
    form = ("--format=%H%x09%ct%x09%s", f"--max-count={MOST}")
    found = _git(folder, "--literal-pathspecs", "rev-list", *form, "HEAD", "--", name) or b""
    lines = [line.split("\t", 2) for line in found.decode("utf-8", "replace").splitlines()]
    rows = [line for line in lines if len(line) == 3]  # a line without tabs comes before each
    return [GitCommit(id=name, time=float(time), words=words) for name, time, words in rows]


def committed(place: str, commit: str = "HEAD") -> str | None:
    """Return the text of a file in a commit; None if it has none.

    Args:
        place: The absolute path of the file.
        commit: The whole id of the commit.

    Returns:
        The text, without a byte order mark.
    """
    folder, name = os.path.split(place)
    found = _git(folder, "cat-file", "blob", f"{commit}:./{name}")  # `show` would convert and sign
    return None if found is None else found.decode("utf-8-sig", "replace")


def _git(folder: str, *arguments: str) -> bytes | None:
    """Run git in a folder without network, and without the commands that a repository may name."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *_SAFE.split(), "-C", folder, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**kept, **_ENVIRONMENT},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
