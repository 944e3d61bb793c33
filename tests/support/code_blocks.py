"""Code blocks of a Markdown file by the headings above them."""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"^## (?P<name>[^\n]+)\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(path: Path) -> dict[str, str]:
    """Heading to the Python code under it."""
    return {
        found["name"]: found["code"] for found in BLOCK.finditer(path.read_text(encoding="utf-8"))
    }


class Blocks:
    """Runs blocks of one file, and knows which of them ran."""

    def __init__(self, path: Path) -> None:
        self.code = blocks_of(path)
        self.ran: set[str] = set()

    def run(self, name: str, names: dict, **replaced: str) -> dict:
        """Run a block with these names; `replaced`: its placeholders, by what stands for them."""
        code = self.code[name]
        for placeholder, text in replaced.items():
            code = code.replace(
                {"state": "<state>", "dots": "..."}.get(placeholder, placeholder), text
            )
        names.setdefault("__name__", "a_users_module")
        self.ran.add(name)
        exec(compile(code, f"<{name}>", "exec"), names)
        return names
