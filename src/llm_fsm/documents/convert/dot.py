"""Read DOT: digraphs and graphs, edge chains, defaults, subgraphs, ports, quoted and HTML ids, comments.

A state with a double border is final, and a diamond decides. A point or circle without text and incoming edges is the
start. An edge's label has the form `label [guard]`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llm_fsm.definition.json_source import Lines, lines_of
from llm_fsm.documents.convert.chart import (
    MAX_DEPTH,
    Arrow,
    Chart,
    ConversionError,
    conditions_of,
    read_choices,
    split_label,
)
from llm_fsm.documents.draw.dot import START_ID
from llm_fsm.documents.draw.extract import EVERYWHERE

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|(?:(?<=\n)|\A)#[^\n]*)"
    r"|(?P<arrow>->|--)"
    r"|(?P<sign>[{}\[\]=;,:+])"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>-?(?:\.\d+|\d+(?:\.\d*)?)|[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)"
    r"|(?P<html><)",
    re.DOTALL,
)
_HTML_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^>]*>")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BREAKS = {"n": "\n", "l": "\n", "r": "\n"}
_FINAL = frozenset({"doublecircle", "doubleoctagon", "tripleoctagon", "Msquare"})
_DECIDES = frozenset({"diamond", "Mdiamond"})
_BARE = frozenset({"none", "plaintext", "plain"})
_DOTS = frozenset({"", "circle", *_BARE})
_START = re.compile(r"_*(?:start|init|initial|begin|entry)\d*_*", re.IGNORECASE)
_MAX_EDGES = 100_000
_IDS = frozenset({"name", "quoted", "html"})
Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    word: str
    line: int


def read(text: str) -> Chart:
    """Return the chart of a graph. Raises ConversionError."""
    parser = _Parser(tuple(_tokens(text)))
    parser.graph()
    return _Reading(parser).chart()


def _tokens(text: str) -> list[_Token]:
    lines, at, found = lines_of(text), 0, []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unexpected(text, at, lines)
        kind, word = match.lastgroup or "", match[0]
        if kind == "html":
            word = _html(text, at, lines)
        line = lines.position(at).line
        at += len(word)
        if kind == "html":
            kind, word = "name", word[1:-1]
            found.append(_Token("html", word, line))
        elif kind == "text":
            found.append(_Token("quoted", _unquoted(word), line))
        elif kind != "skip":
            found.append(_Token(kind, word, line))
    return found


def _unexpected(text: str, at: int, lines: Lines) -> ConversionError:
    line = lines.position(at).line
    if text[at] == '"':
        return ConversionError("a quoted text has no end", line)
    if text.startswith("/*", at):
        return ConversionError("a comment has no end", line)
    return ConversionError(f"unexpected {text[at]!r} in a DOT graph", line)


def _html(text: str, at: int, lines: Lines) -> str:
    depth = 0
    for place in range(at, len(text)):
        depth += {"<": 1, ">": -1}.get(text[place], 0)
        if depth == 0:
            return text[at : place + 1]
    raise ConversionError("an HTML label has no end", lines.position(at).line)


def _unquoted(word: str) -> str:
    return re.sub(r'\\(["\n])', lambda found: '"' if found[1] == '"' else "", word[1:-1])


@dataclass(frozen=True, slots=True)
class _Edge:
    source: str
    target: str
    attributes: Attributes
    line: int


@dataclass(slots=True)
class _Parser:
    """Recursive descent over the grammar that Graphviz documents."""

    tokens: tuple[_Token, ...]
    at: int = 0
    name: str = ""
    directed: bool = True
    nodes: dict[str, Attributes] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    edges: list[_Edge] = field(default_factory=list)
    clusters: list[int] = field(default_factory=list)

    def peek(self) -> _Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _Token("end", "", self.last)

    @property
    def last(self) -> int:
        return self.tokens[-1].line if self.tokens else 1

    def take(self) -> _Token:
        token = self.peek()
        self.at += 1
        return token

    def sign(self, word: str) -> bool:
        token = self.peek()
        if token.kind == "sign" and token.word == word:
            self.at += 1
            return True
        return False

    def need(self, word: str) -> None:
        token = self.peek()
        if not self.sign(word):
            shown = token.word[:40] or "the end"
            raise ConversionError(f"expected {word!r} in a DOT graph, here is {shown!r}", token.line)

    def word(self) -> str:
        """Return an id: quoted parts joined by `+`, a name, or HTML."""
        token = self.take()
        if token.kind not in _IDS:
            raise ConversionError(f"expected a name in a DOT graph, here is {token.word[:40]!r}", token.line)
        text = _plain(token.word) if token.kind == "html" else token.word
        while self.sign("+"):
            text += self.take().word
        return text

    def graph(self) -> None:
        if self.peek().word.lower() == "strict":
            self.take()
        kind = self.take()
        if kind.word.lower() not in ("graph", "digraph"):
            raise ConversionError('a DOT graph begins with "digraph"', kind.line)
        self.directed = kind.word.lower() == "digraph"
        if self.peek().kind in _IDS:
            self.name = self.word()
        self.need("{")
        self.statements({}, {}, 0)

    def statements(self, node: Attributes, edge: Attributes, depth: int) -> list[str]:
        """Read statements up to the closing brace, and return the nodes that they mention."""
        if depth > MAX_DEPTH:
            raise ConversionError(f"subgraphs are nested deeper than {MAX_DEPTH} levels", self.peek().line)
        node, edge, mentioned = dict(node), dict(edge), []
        while not self.sign("}"):
            if self.sign(";") or self.sign(","):
                continue
            if self.peek().kind == "end":
                raise ConversionError('the DOT graph is not closed by "}"', self.last)
            mentioned += self.statement(node, edge, depth)
        return mentioned

    def statement(self, node: Attributes, edge: Attributes, depth: int) -> list[str]:
        token = self.peek()
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        default = token.kind == "name" and token.word.lower() in ("node", "edge", "graph")
        if default and following is not None and following.word == "[":
            self.take()
            found = self.attributes()
            {"node": node, "edge": edge}.get(token.word.lower(), {}).update(found)
            return []
        if following is not None and following.kind == "sign" and following.word == "=" and token.kind != "sign":
            self.word()
            self.take()
            self.word()
            return []
        groups = [self.group(node, edge, depth)]
        lines = [token.line]
        while self.peek().kind == "arrow":
            lines.append(self.take().line)
            groups.append(self.group(node, edge, depth))
        own = self.attributes()
        if len(groups) == 1:
            if token.kind in _IDS and not (token.kind == "name" and token.word.lower() == "subgraph"):
                self.nodes[groups[0][0]].update(own)
            return groups[0]
        for index, line in enumerate(lines[1:]):
            self.join(groups[index], groups[index + 1], {**edge, **own}, line)
        return [name for group in groups for name in group]

    def join(self, sources: list[str], targets: list[str], attributes: Attributes, line: int) -> None:
        if len(self.edges) + len(sources) * len(targets) > _MAX_EDGES:
            raise ConversionError(f"the graph has more than {_MAX_EDGES:,} edges", line)
        self.edges += [_Edge(source, target, attributes, line) for source in sources for target in targets]

    def group(self, node: Attributes, edge: Attributes, depth: int) -> list[str]:
        """Return a node, or all nodes of a subgraph."""
        token = self.peek()
        if token.kind == "name" and token.word.lower() == "subgraph":
            self.take()
            named = self.word() if self.peek().kind in _IDS else ""
            if named.startswith("cluster"):
                self.clusters.append(token.line)
            self.need("{")
            return list(dict.fromkeys(self.statements(node, edge, depth + 1)))
        if self.sign("{"):
            return list(dict.fromkeys(self.statements(node, edge, depth + 1)))
        name = self.word()
        for _ in range(2):
            if self.sign(":"):
                self.word()
        if name not in self.nodes:
            self.nodes[name] = dict(node)
            self.lines[name] = token.line
        return [name]

    def attributes(self) -> Attributes:
        found: Attributes = {}
        while self.sign("["):
            while not self.sign("]"):
                if self.sign(",") or self.sign(";"):
                    continue
                name = self.word().lower()
                html_value = self.html_follows()
                found[name] = self.word() if self.sign("=") else "true"
                if html_value:
                    found[name] = html.escape(found[name])
        return found

    def html_follows(self) -> bool:
        """Return true if an HTML text follows an equals sign."""
        here = self.peek()
        after = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        return here.word == "=" and after is not None and after.kind == "html"


def _plain(markup: str) -> str:
    """Return the text of an HTML label."""
    return html.unescape(_ANY_TAG.sub("", _HTML_TAG.sub("\n", markup))).strip()


def _shown(text: str, name: str) -> str:
    """Return a label as Graphviz shows it. `\\N` is the node's name; `\\n`, `\\l` and `\\r` break lines."""
    plain = _ESCAPE.sub(lambda found: name if found[1] == "N" else _BREAKS.get(found[1], found[1]), text)
    return html.unescape(plain)


@dataclass(frozen=True, slots=True)
class _Reading:
    parser: _Parser

    def chart(self) -> Chart:
        parser = self.parser
        chart = Chart(name="" if parser.name in ("G", "g") else _shown(parser.name, ""), titled=True)
        if not parser.directed:
            chart.lost("the graph has no directions; its edges are read from left to right", 1)
        for line in parser.clusters:
            chart.lost("a cluster is a frame around states, and is not kept", line)
        start = self.start()
        for name, attributes in parser.nodes.items():
            if name not in (start, EVERYWHERE):
                self.state(chart, name, attributes)
        for edge in parser.edges:
            if edge.target in (start, EVERYWHERE):
                chart.lost(f'an edge back to "{edge.target}"', edge.line)
            elif edge.source == start:
                if chart.initial is not None and chart.initial != edge.target:
                    chart.lost(f'a second initial state, "{edge.target}"', edge.line)
                chart.initial = chart.initial or edge.target
            else:
                chart.arrows.append(self.arrow(chart, edge))
        read_choices(chart)
        return chart

    def start(self) -> str | None:
        """Return the node that only marks where to begin."""
        aimed = {edge.target for edge in self.parser.edges}
        leads = {edge.source for edge in self.parser.edges}
        for name, attributes in self.parser.nodes.items():
            if name == START_ID:
                return name
            shape, words = attributes.get("shape", ""), attributes.get("label", "\\N").strip()
            blank = words == "" or "invis" in attributes.get("style", "")
            bare = shape in _BARE and _START.fullmatch(name if words == "\\N" else words) is not None
            dot = shape == "point" or (blank and shape in _DOTS) or name == "" or bare
            if dot and name in leads and name not in aimed:
                return name
        return None

    def state(self, chart: Chart, name: str, attributes: Mapping[str, str]) -> None:
        vertex = chart.vertex(name, line=self.parser.lines[name])
        vertex.label = [line.strip() for line in _shown(attributes.get("label", "\\N"), name).split("\n")]
        shape = attributes.get("shape", "")
        if shape in _FINAL or attributes.get("peripheries", "1") not in ("0", "1"):
            vertex.kind = "final"
        elif shape in _DECIDES:
            vertex.kind = "decide"
        if attributes.get("tooltip"):
            vertex.remarks.append(_shown(attributes["tooltip"], name))

    def arrow(self, chart: Chart, edge: _Edge) -> Arrow:
        parts = split_label(edge.attributes.get("label", ""))
        label, guard, action = (" ".join(_shown(part, "").split()) for part in parts)
        if action:
            chart.lost(f'the action "{action[:60]}" of an edge', edge.line)
        return Arrow(
            source=None if edge.source == EVERYWHERE else edge.source,
            target=edge.target,
            label=label,
            conditions=conditions_of(guard),
            auto=edge.attributes.get("auto") == "true",
            line=edge.line,
        )
