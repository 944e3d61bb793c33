"""What really happened, written by whoever did it: one JSON line each, appended by a single write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Ledger:
    """A file that several processes append to; a line that was written survives its writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, **facts: Any) -> None:
        """Append one line."""
        os.write(self._file, f"{json.dumps({'what': what, **facts})}\n".encode("ascii"))

    def lines(self, what: str = "") -> Iterator[dict[str, Any]]:
        """All lines so far, or those of one kind."""
        with self.path.open(encoding="ascii") as file:
            for text in file:
                # the longest part of a run is reading this file
                if not what or f'"{what}"' in text:
                    line = json.loads(text)
                    if not what or line["what"] == what:
                        yield line
