"""Mermaid's own parser, for tests: it is installed once into the user's cache and runs in one node
process.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("mermaid@11.17.2", "jsdom@26.1.0")
SCRIPT = """
import { createInterface } from 'node:readline';
import { JSDOM } from 'jsdom';
const dom = new JSDOM('');
globalThis.window = dom.window;
globalThis.document = dom.window.document;
const mermaid = (await import('mermaid')).default;
mermaid.initialize({ startOnLoad: false });
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(JSON.parse(line));
    answer = {
      states: Object.fromEntries([...db.getStates()].map(([id, state]) => [id, state.descriptions])),
      classes: Object.fromEntries([...db.getStates()].map(([id, state]) => [id, state.classes])),
      moves: db.getRelations().map((move) => [move.id1, move.id2, move.relationTitle ?? '']),
    };
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
"""


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "llm-fsm-tests" / "-".join(name.replace("@", "-") for name in PACKAGES)


def _installed() -> Path:
    """The folder with the packages. Several processes may ask at once: the one that is first ready
    counts.
    """
    target = _folder()
    if (target / "parse.mjs").exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as fresh:
        place = Path(fresh, "tree")
        place.mkdir()
        (place / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=100, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"npm cannot install Mermaid's parser: {done.stderr[-500:]}")
        (place / "parse.mjs").write_text(SCRIPT)
        try:
            place.rename(target)
        except OSError:
            assert (target / "parse.mjs").exists()
    return target


class MermaidParser:
    """Asks Mermaid what it makes of a text."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def parse(self, text: str) -> dict[str, Any]:
        """States with their descriptions and classes, and moves. Fails with Mermaid's message."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in answer, f"{answer['error']}\n{text}"
        return answer


def decoded(text: str) -> str:
    """A label as Mermaid shows it: it keeps entities in a form of its own until it draws."""
    return re.sub("ﬂ°°(\\d+)¶ß", lambda found: chr(int(found[1])), html.unescape(text))


@contextmanager
def mermaid_parser() -> Iterator[MermaidParser]:
    """Skips where node is missing, which in CI is a failure."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed; Mermaid's parser needs them")
    place = _installed()
    with subprocess.Popen(
        ["node", "parse.mjs"],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        yield MermaidParser(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=20)
