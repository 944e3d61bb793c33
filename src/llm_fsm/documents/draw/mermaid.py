"""Write a picture as a Mermaid state diagram (stateDiagram-v2), which GitHub, GitLab and many
editors show.

Every character of a label that has a meaning in Mermaid is written as an entity (`#58;`). Ids that
its lexer refuses get a substitute, which a comment explains (`%% s1_a_b stands for a-b`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from llm_fsm._json import TextMap
from llm_fsm.documents.draw.extract import EVERYWHERE, SIGNS, DrawnState, Edge, Picture

STANDS_FOR = re.compile(r"%% (\w+) stands for (.+)")
"""The comment with the state id of a substitute."""
MACHINE = re.compile(r"%% machine (.*)")
"""The comment with the machine's name."""
EVERYWHERE_ID = "in_any_state"
"""The node from which global transitions start. Its class is `everywhere`."""

_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = re.compile(
    r"(?:click|href|default|class|classdef|style|state|note|scale|end|as|hide|title"
    r"|acctitle|accdescr|fork|join|choice"
    r"|statediagram|concurrent|root.*|.*direction|divider.*|constructor|prototype|tostring|valueof"
    rf"|hasownproperty|{EVERYWHERE_ID})",
    re.IGNORECASE,
)
_PLAIN = frozenset(" .,?!()'+=/-_*&")
_ENTITY = re.compile(r"#(\w{1,12});")
_DIRECTION = re.compile("d(?=irection)", re.IGNORECASE)
_STYLES: TextMap = {
    "decide": "fill:#fff3cd,stroke:#8a6d00",
    "task": "fill:#e2ecff,stroke:#2f5fb3",
    "wait": "fill:#f1e6ff,stroke:#6b3fa0",
    "subflow": "fill:#e0f5f2,stroke:#1d7a6b",
    "final": "fill:#e6f4e6,stroke:#2e7d32",
    "unknown": "fill:#ffffff,stroke:#999999,stroke-dasharray:4 3",
    "everywhere": "fill:#ffffff,stroke:#777777,stroke-dasharray:4 3",
    "lit": "fill:#ffe08a,stroke:#b36b00,stroke-width:3px",
    "info": "stroke:#2f5fb3,stroke-width:3px",
    "warning": "fill:#ffe9c7,stroke:#d97700,stroke-width:3px",
    "error": "fill:#ffd9d6,stroke:#c62828,stroke-width:3px",
    "covered": "fill:#dff2df,stroke:#2e7d32,stroke-width:3px",
    "missed": "fill:#ffd9d6,stroke:#c62828,stroke-width:3px",
}


def mermaid(picture: Picture) -> str:
    """Return the text of the diagram, with a line break at its end."""
    ids = _ids(node.id for node in picture.nodes)
    lines = ["stateDiagram-v2"]
    if picture.name:
        lines.append(f"    %% machine {label(picture.name)}")
    lines += [
        f"    %% {short} stands for {label(name)}" for name, short in ids.items() if name != short
    ]
    for node in picture.nodes:
        lines += _node(node, ids[node.id])
    if picture.shared:
        lines.append(f"    {EVERYWHERE_ID} : in every state that waits for the user")
    if picture.initial is not None:
        lines.append(f"    [*] --> {ids[picture.initial]}")
    lines += [_edge(edge, ids) for edge in picture.edges]
    lines += [f"    {ids[node.id]} --> [*]" for node in picture.nodes if node.kind == "final"]
    lines += _classes(picture, ids)
    return "\n".join(lines) + "\n"


def label(text: str) -> str:
    """Return a text in which Mermaid finds no syntax, and which decodes to the same text."""
    written = "".join(
        char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text
    )
    return _DIRECTION.sub(lambda found: f"#{ord(found[0])};", written).strip()


def unlabelled(text: str) -> str:
    """Return the text of a label, with its entities (`#58;`, `#quot;`) decoded."""
    return _ENTITY.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    name = found[1]
    if name.isdecimal():
        code = int(name)
        if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return chr(code)
        return found[0]
    named = html.unescape(f"&{name};")
    if named.startswith("&") and name != "amp":
        return found[0]
    return named


def _ids(names: Iterable[str]) -> dict[str, str]:
    """Return state id to a unique name that Mermaid accepts."""
    given = list(names)
    ids = {name: name for name in given if _PLAIN_ID.fullmatch(name) and not _TAKEN.fullmatch(name)}
    taken = set(ids)
    for number, name in enumerate(given, start=1):
        if name not in ids:
            short = f"s{number}_" + re.sub(r"\W", "_", name, flags=re.ASCII)[:64]
            while short in taken or _TAKEN.fullmatch(short):
                short += "_"
            taken.add(short)
            ids[name] = short
    return ids


def _node(node: DrawnState, name: str) -> Iterator[str]:
    """Yield a title, which is the id, and the lines below it."""
    yield f"    {name} : {SIGNS[node.level]}{label(node.id)}"
    yield from (f"    {name} : {label(part)}" for part in node.lines(node.label))


def _edge(edge: Edge, ids: TextMap) -> str:
    source = EVERYWHERE_ID if edge.source == EVERYWHERE else ids[edge.source]
    lit = "▶ " if edge.lit else ""
    auto = "auto " if edge.how == "auto" else ""
    words = _said(edge)
    guards = f"[{label(edge.words)}]" if edge.guards else ""
    text = " ".join(filter(None, (words, guards)))
    shown = f"{SIGNS[edge.level]}{lit}{auto}{text}".rstrip()
    return f"    {source} --> {ids[edge.target]}" + (f" : {shown}" if shown else "")


def _said(edge: Edge) -> str:
    """Return the label. Its first letter is an entity if it looks like the mark of an automatic
    move.
    """
    words = label(edge.label)
    if words.startswith("auto") and edge.how != "auto":
        return f"#97;{words[1:]}"
    return words


def _classes(picture: Picture, ids: TextMap) -> Iterator[str]:
    """Yield classes of nodes. A later one is drawn over an earlier one."""
    used: dict[str, list[str]] = {}
    for node in picture.nodes:
        if node.kind in _STYLES:
            used.setdefault(node.kind, []).append(ids[node.id])
    if picture.shared:
        used["everywhere"] = [EVERYWHERE_ID]
    for node in picture.nodes:
        for name in ("lit" if node.lit else None, node.level):
            if name is not None:
                used.setdefault(name, []).append(ids[node.id])
    for name in (style for style in _STYLES if style in used):
        yield f"    classDef {name} {_STYLES[name]}"
    for name in (style for style in _STYLES if style in used):
        yield from (f"    class {node} {name}" for node in used[name])
