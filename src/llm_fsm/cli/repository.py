"""Names of files as a code host takes them: from the root of the repository, wherever a command
runs.
"""

from __future__ import annotations

import os
from pathlib import Path


def from_root(file: str) -> str:
    """Return the path of a file from the root of its repository, with slashes.

    A file outside a repository keeps its path as given. The root is GITHUB_WORKSPACE, or else the
    nearest folder around the file that holds `.git`.
    """
    path = Path(os.path.abspath(file))
    workspace = os.environ.get("GITHUB_WORKSPACE")
    roots = [Path(os.path.abspath(workspace))] if workspace else []
    roots += [folder for folder in path.parents if (folder / ".git").exists()][:1]
    root = next((root for root in roots if path.is_relative_to(root)), None)
    return file if root is None else path.relative_to(root).as_posix()
