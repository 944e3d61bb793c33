"""The code blocks of docs/LLM_GUIDE.md and of the reference pages for authors, and their meaning
when they are played.

The info string of a block says what it is; readers see the block alone. All pages share one
namespace of definitions:

    json definition=NAME [findings=a,b] [runnable=no]   a definition; `check` finds exactly that
    json fragment=NAME as=OTHER [findings=a,b]          merged into the definition NAME, checked as
    OTHER json|text reply=ID definition=NAME …                what a model answered; see `Scene`
    text prompt=ID [call=N] [message=N]                 what it had read, exactly as rendered
         [section=a,b | section=a tail]                 … of it: sections, or all from a section on
    python run                                          runs from the repository's root
    json values                                         what the examples of a page's tables read
    bash|text|json example                              not checked, apart from being JSON

`python tests/support/guide_blocks.py` writes the prompt blocks anew after the prompts have changed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from llm_fsm import AsyncMachine, LLMRequest, Turn
from llm_fsm.engine.machine import AsyncConversation
from llm_fsm.llm.scripted import ScriptedLLM
from paths import ROOT

GUIDE = ROOT / "docs" / "LLM_GUIDE.md"
REFERENCE = ROOT / "docs" / "reference"
PAGES = (
    GUIDE,
    *(
        REFERENCE / f"{name}.md"
        for name in (
            "conditions",
            "context-keys",
            "states-and-transitions",
            "fixed-replies",
            "patterns",
            "prompts-and-replies",
            "offline-model",
        )
    ),
)
_BLOCK = re.compile(r"^(`{3,})(\w+) ?(.*?)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `page`, `line` and `start` (characters) are its place, `attributes` its info
    string.
    """

    page: Path
    language: str
    attributes: Mapping[str, str]
    text: str
    line: int
    start: int

    def listed(self, name: str) -> list[str]:
        """The values of an attribute that is a list."""
        return [item for item in self.attributes.get(name, "").split(",") if item]

    @property
    def value(self) -> Any:
        """The block's JSON."""
        return json.loads(self.text)


def _attributes(info: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in shlex.split(info))
    return {name: value for name, _, value in pairs}


def read_blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page that have a language, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            language=found[2],
            attributes=_attributes(found[3]),
            text=found[4],
            line=text.count("\n", 0, found.start()) + 1,
            start=found.start(4),
        )
        for found in _BLOCK.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    found: list[Block] = []
    for page in PAGES:
        found += read_blocks(page)
    return found


def merged(base: Any, over: Any) -> Any:
    """Objects merged key by key; anything else of `over` replaces what is in `base`."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over


def definitions(blocks: Sequence[Block]) -> dict[str, tuple[dict[str, Any], Block]]:
    """Name to definition, and the block that it comes from."""
    found: dict[str, tuple[dict[str, Any], Block]] = {}
    for block in blocks:
        if "definition" in block.attributes and "reply" not in block.attributes:
            found[block.attributes["definition"]] = (block.value, block)
    # A page may extend the definition of a later one.
    for block in blocks:
        if "fragment" in block.attributes:
            base, _ = found[block.attributes["fragment"]]
            found[block.attributes["as"]] = (merged(base, block.value), block)
    return found


@dataclass(frozen=True, slots=True)
class Played:
    """A scene after it was played."""

    chat: AsyncConversation
    machine: AsyncMachine
    requests: Sequence[LLMRequest]
    turn: Turn | None
    """None for a greeting."""

    @property
    def text(self) -> str:
        """What was said."""
        return self.chat.greeting if self.turn is None else self.turn.text


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn of the guide: all reply blocks of one id, in order of the calls.

    Attributes of the first block: `definition`; `said` (none: a greeting); `state` and `context`
    (JSON) to begin with, or `after`, the id of the scene that it goes on from. Expected: `to`
    (state), `calls` (1), `kept` (JSON), `absent`, `refused` (keys), `text` and `lacks` (words,
    parted by |), `ended`.
    """

    blocks: Sequence[Block]

    @property
    def expected(self) -> Mapping[str, str]:
        """The attributes of the first block."""
        return self.blocks[0].attributes

    @property
    def replies(self) -> list[str]:
        """The replies as the model sends them."""
        return [block.text.strip() for block in self.blocks]


def scenes(blocks: Sequence[Block]) -> dict[str, Scene]:
    """Id to scene."""
    found: dict[str, list[Block]] = {}
    for block in blocks:
        if "reply" in block.attributes:
            found.setdefault(block.attributes["reply"], []).append(block)
    return {name: Scene(group) for name, group in found.items()}


async def play(
    name: str, known: Mapping[str, Scene], machines: Mapping[str, tuple[dict[str, Any], Block]]
) -> Played:
    """Play a scene, and before it those that it goes on from."""
    scene = known[name]
    expected = scene.expected
    model = ScriptedLLM(scene.replies)
    if "after" in expected:
        before = await play(expected["after"], known, machines)
        machine, chat = before.machine, before.chat
        machine.llm = model
    else:
        document, _ = machines[expected["definition"]]
        machine = AsyncMachine.from_dict(document, model=model, store="memory")
        chat = await machine.start(
            context=json.loads(expected.get("context", "{}")),
            state=expected.get("state"),
            greet="said" not in expected,
        )
    turn = await chat.send(expected["said"]) if "said" in expected else None
    return Played(chat, machine, model.requests, turn)


TIMES = {
    "now": "2026-11-20T15:09 (UTC)",
    "today": "Friday, 2026-11-20",
    "next_days": "Sat 21, Sun 22, Mon 23, Tue 24, Wed 25, Thu 26, Fri 27",
}


def prompt_text(block: Block, requests: Sequence[LLMRequest]) -> str:
    """What a prompt block has to show."""
    call, message = int(block.attributes.get("call", 1)), int(block.attributes.get("message", 2))
    text = requests[call - 1].messages[message - 1].content
    for name, time in TIMES.items():
        text = re.sub(f"<{name}>[^<]*</{name}>", f"<{name}>{time}</{name}>", text)
    wanted = block.listed("section")
    if "tail" in block.attributes:
        text = text[text.index(f"<{wanted[0]}>") :]
    elif wanted:
        text = "\n".join(_section(text, name) for name in wanted)
    return text.rstrip("\n") + "\n"


def _section(text: str, name: str) -> str:
    found = re.search(rf"^<{name}>.*?</{name}>$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[0]


async def rewrite() -> None:
    """Put the prompts as they are rendered into every prompt block of the pages."""
    blocks = all_blocks()
    known, machines = scenes(blocks), definitions(blocks)
    for block in reversed([block for block in blocks if "prompt" in block.attributes]):
        played = await play(block.attributes["prompt"], known, machines)
        new = prompt_text(block, played.requests)
        text = block.page.read_text(encoding="utf-8")
        text = text[: block.start] + new + text[block.start + len(block.text) :]
        block.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    anyio.run(rewrite)
