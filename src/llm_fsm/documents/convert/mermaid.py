"""Read Mermaid state diagrams, `stateDiagram` and `stateDiagram-v2`, line by line.

It reads composite states, notes, fork, join and choice, `[*]`, `state "text" as id` and classes. An
arrow's label has the form `label [guard]`. A state's class that names a kind (`decide`, `task`) is
its kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llm_fsm.documents.convert.chart import (
    MAX_DEPTH,
    Arrow,
    Chart,
    ConversionError,
    Vertex,
    conditions_of,
    read_choices,
    split_label,
)
from llm_fsm.documents.draw.mermaid import EVERYWHERE_ID, MACHINE, STANDS_FOR, unlabelled

_HEAD = re.compile(r"\s*stateDiagram(-v2)?\b", re.IGNORECASE)
_NAME = r"(?P<{0}>\[\*\]|(?:(?!-->)[^\s:{{}}\"])+?)(?::::(?P<{0}_class>\w+))?"
_ARROW = re.compile(
    rf"{_NAME.format('source')}\s*-->\s*{_NAME.format('target')}\s*(?::(?!:)\s*(?P<label>.*))?"
)
_STATE = re.compile(
    r"state\s+(?:\"(?P<text>[^\"]*)\"\s+as\s+)?(?P<name>[^\s:{}\"<\[]+)(?::::(?P<class>\w+))?"
    r"\s*(?:<<(?P<pseudo>\w+)>>|\[\[(?P<pseudo2>\w+)\]\]|:(?!:)\s*(?P<says>.*?))?\s*(?P<opens>\{)?",
    re.IGNORECASE,
)
_SAYS = re.compile(rf"{_NAME.format('name')}\s*:(?!:)\s*(?P<text>.*)")
_ALONE = re.compile(_NAME.format("name"))
_NOTE = re.compile(
    r"note\s+(?:left|right)\s+of\s+(?P<name>[^\s:]+)\s*(?::\s*(?P<text>.*))?", re.IGNORECASE
)
_FLOATING = re.compile(r"note\s+\"(?P<text>[^\"]*)\"\s+as\s+\S+", re.IGNORECASE)
_CLASS = re.compile(
    r"class\s+(?P<names>[^\s,]+(?:\s*,\s*[^\s,]+)*)\s+(?P<class>\w+)\s*;?", re.IGNORECASE
)
_COMMENT = re.compile(r"^((?:[^\":%]|%(?!%)|\"[^\"]*\"|:::)*?)\s*%%.*")
"""A comment, which ends a line; behind a colon it is a part of the words."""
_IGNORED = re.compile(
    r"(?:direction\s|classDef\s|style\s|click\s|linkStyle\s"
    r"|hide\s+empty|scale\s|accTitle|accDescr|title\s).*",
    re.IGNORECASE,
)
_PSEUDO = {"fork": "fork", "join": "join", "choice": "decide"}
_KINDS = frozenset({"decide", "task"})


def read(text: str) -> Chart:
    """Return the chart of a diagram. Raises ConversionError."""
    reader = _MermaidReader()
    lines = re.split(r"\r\n|\n|\r", text)
    at = reader.head(lines)
    while at < len(lines):
        at = reader.line(lines, at)
    return reader.end()


@dataclass(slots=True)
class _MermaidReader:
    chart: Chart = field(default_factory=lambda: Chart(titled=True))
    scopes: list[str] = field(default_factory=list)
    regions: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """State or "" to the line of an arrow from inside it to its `[*]`."""
    names: dict[str, str] = field(default_factory=dict)
    ours: bool = False

    @property
    def scope(self) -> str | None:
        """The innermost composite state that is open."""
        return self.scopes[-1] if self.scopes else None

    def head(self, lines: list[str]) -> int:
        """Skip the lines before the diagram, and return the number of the line after its name."""
        at = 0
        if lines and lines[0].strip() == "---":
            at = next(
                (number for number, line in enumerate(lines[1:], 2) if line.strip() == "---"),
                len(lines),
            )
        for number in range(at, len(lines)):
            if _HEAD.match(lines[number]):
                self.comments(lines)
                return number + 1
            if lines[number].strip() and not lines[number].lstrip().startswith("%%"):
                break
        raise ConversionError(
            'a Mermaid state diagram begins with "stateDiagram-v2"', min(at + 1, len(lines)) or 1
        )

    def comments(self, lines: list[str]) -> None:
        """Read comments of our own writer: the machine's name, and substitutes for ids."""
        for line in lines:
            if found := MACHINE.fullmatch(line.strip()):
                self.ours = True
                self.chart.name = unlabelled(found[1])
            elif found := STANDS_FOR.fullmatch(line.strip()):
                self.names[found[1]] = unlabelled(found[2])

    def line(self, lines: list[str], at: int) -> int:
        """Read one statement, and return the number of the next line, counted from 0."""
        text = _COMMENT.sub(r"\1", lines[at].strip())
        number = at + 1
        if not text:
            return number
        if found := _NOTE.fullmatch(text):
            return self.note(found, lines, at)
        if text.lower().startswith("accdescr") and text.endswith("{"):
            return next((n for n, line in enumerate(lines[at:], number) if "}" in line), len(lines))
        for form, act in _STATEMENTS:
            if found := form.fullmatch(text):
                act(self, found, number)
                return number
        self.chart.lost(f"not understood: {text[:60]}", number)
        return number

    def styled(self, found: re.Match[str], line: int) -> None:
        for name in found["names"].split(","):
            self.classed(self.name(name.strip()), found["class"], line)

    def floating(self, _: re.Match[str], line: int) -> None:
        self.chart.lost("a note that belongs to no state", line)

    def ignored(self, _: re.Match[str], __: int) -> None:
        """Skip a line of style."""

    def alone(self, found: re.Match[str], line: int) -> None:
        self.classed(self.name(found["name"]), found["name_class"], line)

    def says(self, found: re.Match[str], line: int) -> None:
        self.classed(self.name(found["name"]), found["name_class"], line).label.append(
            _words(found["text"])
        )

    def name(self, written: str) -> str:
        return self.names.get(written, written)

    def mention(self, name: str, line: int) -> Vertex:
        """Return the state, and put it into the innermost composite state that mentions it."""
        scope = self.scope
        vertex = self.chart.vertex(name, scope, line)
        inside = scope is not None and scope != name and name not in self.chart.above(scope)
        if inside and (vertex.parent is None or vertex.parent in self.chart.above(scope)):
            vertex.parent = scope
        return vertex

    def classed(self, name: str, style: str | None, line: int) -> Vertex:
        vertex = (
            self.chart.vertices[name] if name in self.chart.vertices else self.mention(name, line)
        )
        self.mention(name, line)
        if style in _KINDS and not vertex.kind:
            vertex.kind = style or ""
        return vertex

    def state(self, found: re.Match[str], line: int) -> None:
        name = self.name(found["name"])
        vertex = self.classed(name, found["class"], line)
        if found["text"] is not None:
            vertex.label.append(_words(found["text"]))
        if found["says"]:
            vertex.label.append(_words(found["says"]))
        pseudo = (found["pseudo"] or found["pseudo2"] or "").lower()
        if pseudo in _PSEUDO:
            vertex.kind = _PSEUDO[pseudo]
            self.chart.mapped(f'{pseudo} "{name}" becomes a state that decides', line)
        elif pseudo:
            self.chart.lost(f'"{pseudo}" of "{name}"', line)
        if found["opens"]:
            if len(self.scopes) >= MAX_DEPTH:
                raise ConversionError(f"states are nested deeper than {MAX_DEPTH} levels", line)
            self.scopes.append(name)

    def closed(self, _: re.Match[str], line: int) -> None:
        if not self.scopes:
            raise ConversionError('"}" closes nothing here', line)
        self.scopes.pop()

    def region(self, _: re.Match[str], line: int) -> None:
        if not self.scopes:
            raise ConversionError(
                '"--" parts the regions of a composite state, and here is none', line
            )
        if self.scopes[-1] not in self.regions:
            self.chart.lost(
                f'"{self.scopes[-1]}" runs regions side by side: only the first one is entered',
                line,
            )
        self.regions[self.scopes[-1]] = line

    def note(self, found: re.Match[str], lines: list[str], at: int) -> int:
        name = self.name(found["name"])
        vertex = self.mention(name, at + 1)
        self.chart.mapped(f'the note beside "{name}" becomes its description', at + 1)
        if found["text"] is not None:
            vertex.remarks.append(_words(found["text"]))
            return at + 1
        for number in range(at + 1, len(lines)):
            if lines[number].strip().lower() == "end note":
                return number + 1
            vertex.remarks.append(_words(lines[number]))
        raise ConversionError('a note has no "end note"', at + 1)

    def arrow(self, found: re.Match[str], line: int) -> None:
        label, guard, action = split_label(found["label"] or "")
        if action:
            self.chart.lost(f'the action "{action[:60]}" of an arrow', line)
        source = found["source"]
        target = found["target"]
        if source == "[*]":
            self.begin(target, label or guard, line)
            return
        auto = self.ours and (label == "auto" or label.startswith("auto "))
        arrow = Arrow(
            source=None if self.name(source) == EVERYWHERE_ID else self.name(source),
            target=self.name(target),
            label=_words(label[4:] if auto else label),
            conditions=conditions_of(_words(guard)),
            auto=auto,
            line=line,
        )
        if arrow.source is not None:
            self.classed(arrow.source, found["source_class"], line)
        if target == "[*]":
            self.finish(arrow, line)
            return
        self.classed(arrow.target, found["target_class"], line)
        self.chart.arrows.append(arrow)

    def begin(self, target: str, words: str, line: int) -> None:
        if target == "[*]":
            self.chart.lost("an arrow from [*] to [*]", line)
            return
        name = self.name(target)
        self.mention(name, line)
        if words:
            self.chart.lost("the label of the arrow to an initial state", line)
        scope = self.scope
        if scope is None:
            if self.chart.initial is None:
                self.chart.initial = name
            elif self.chart.initial != name:
                self.chart.lost(f'a second initial state, "{name}"', line)
        elif self.chart.vertices[scope].initial is None:
            self.chart.vertices[scope].initial = name
        elif scope not in self.regions:
            self.chart.lost(f'a second initial state, "{name}"', line)

    def finish(self, arrow: Arrow, line: int) -> None:
        """Keep an arrow to `[*]` under a name that no diagram can have, until all arrows are
        known.
        """
        scope = self.scope or ""
        self.ends.setdefault(scope, line)
        self.chart.arrows.append(replace(arrow, target=_end_of(scope)))

    def end(self) -> Chart:
        if self.scopes:
            raise ConversionError(f'the composite state "{self.scopes[-1]}" is not closed by "}}"')
        self.chart.vertices.pop(EVERYWHERE_ID, None)
        self.chart.arrows = [arrow for arrow in self.chart.arrows if arrow.target != EVERYWHERE_ID]
        self.resolve()
        read_choices(self.chart)
        return self.chart

    def passed_on(self, scope: str) -> None:
        """Redirect an arrow to the end of a composite state to the state that follows when it is
        done.

        That is the target of its own arrows without text. Without such an arrow, the state around
        it is done too.
        """
        end = _end_of(scope)
        done = []
        kept = []
        for arrow in self.chart.arrows:
            leaves = arrow.source == scope and arrow.target != end
            if leaves and not arrow.label and not arrow.conditions:
                done.append(arrow)
            else:
                kept.append(arrow)
        parent = self.chart.vertices[scope].parent or ""
        targets = [arrow.target for arrow in done] or [_end_of(parent)]
        if not done:
            self.ends.setdefault(parent, self.ends[scope])
        arrows = []
        for arrow in kept:
            if arrow.target == end:
                arrows += [replace(arrow, target=target) for target in targets]
            else:
                arrows.append(arrow)
        self.chart.arrows = arrows

    def resolve(self) -> None:
        """Mark a state as final if its only arrow leads, without text, to the end of the diagram.
        Otherwise add an end.
        """
        composite = {vertex.parent for vertex in self.chart.vertices.values()} - {None}
        scopes = sorted(filter(None, composite | set(self.ends)), key=self.depth, reverse=True)
        for scope in scopes:
            if scope in self.ends:
                self.passed_on(scope)
        if "" not in self.ends:
            return
        leaving = Counter(arrow.source for arrow in self.chart.arrows)
        kept = []
        for arrow in self.chart.arrows:
            plain = not (arrow.label or arrow.conditions) and leaving[arrow.source] == 1
            if (
                arrow.target == _end_of("")
                and arrow.source is not None
                and plain
                and arrow.source not in composite
            ):
                vertex = self.chart.vertices[arrow.source]
                vertex.kind, vertex.parent = "final", None
            else:
                kept.append(arrow)
        self.chart.arrows = kept
        if any(arrow.target == _end_of("") for arrow in kept):
            self.add_end()

    def depth(self, name: str) -> int:
        return sum(1 for _ in self.chart.above(name))

    def add_end(self) -> None:
        """Add the end of the diagram as its own state."""
        name = "end"
        while name in self.chart.vertices:
            name += "_"
        self.chart.vertices[name] = Vertex(name, None, "final")
        self.chart.arrows = [
            replace(arrow, target=name) if arrow.target == _end_of("") else arrow
            for arrow in self.chart.arrows
        ]
        self.chart.mapped(f'[*] becomes the final state "{name}"', self.ends[""])


_STATEMENTS: tuple[
    tuple[re.Pattern[str], Callable[[_MermaidReader, re.Match[str], int], None]], ...
] = (
    (re.compile(r"\}"), _MermaidReader.closed),
    (re.compile("--"), _MermaidReader.region),
    (_ARROW, _MermaidReader.arrow),
    (_CLASS, _MermaidReader.styled),
    (_IGNORED, _MermaidReader.ignored),
    (_FLOATING, _MermaidReader.floating),
    (_STATE, _MermaidReader.state),
    (_SAYS, _MermaidReader.says),
    (_ALONE, _MermaidReader.alone),
)
_BREAK = re.compile(r"<br\s*/?>|\\n", re.IGNORECASE)


def _words(text: str) -> str:
    """Return a text as it is shown, with blanks for line breaks."""
    return unlabelled(_BREAK.sub(" ", text)).strip()


def _end_of(scope: str) -> str:
    return f"[*] {scope}"
