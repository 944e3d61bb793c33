"""A small file that is read again when it changes, on the way to its next use."""

from __future__ import annotations

import os
import time
from pathlib import Path

from llm_fsm.documents.files import FilePath

LOOK_SECONDS = 0.5
"""Seconds between two looks at a file, so that a change counts soon, and a request seldom waits for
the disk.
"""
_FRESH_SECONDS = 1.0
"""Seconds for which a changed file is read at every look: two changes may have one time of
modification.
"""


class WatchedFile:
    """A file and its content when it was last read.

    Args:
        path: The file.
    """

    def __init__(self, path: FilePath) -> None:
        self.path = Path(path)
        self._content: bytes | None = None
        self._mark: tuple[int, ...] | None = None
        self._looked = float("-inf")

    def news(self) -> bytes | None:
        """Return the content of the file if it is new.

        Returns:
            The content; None if it is what it was, or if the last look was a moment ago.

        Raises:
            OSError: The file cannot be read. It is raised again only after another change.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return None
        self._looked = now
        mark = self._marked()
        if mark == self._mark:
            return None
        self._mark = mark
        content = self.path.read_bytes()
        if content == self._content:
            return None
        self._content = content
        return content

    def _marked(self) -> tuple[int, ...]:
        """Return what tells one content from another without reading it; () for a file that is
        away.
        """
        try:
            found = os.stat(self.path)
        except OSError:
            return ()
        age = time.time() - found.st_mtime
        fresh = time.monotonic_ns() if 0 <= age < _FRESH_SECONDS else 0
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, fresh)
