"""A definition in plain words, for whoever has to sign it off.

It says what is asked, what must be true before anything is done, who agrees to it, and what happens
if not. It uses the texts of the definition and no word of this package.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from llm_fsm._json import TextMap, list_at
from llm_fsm.conditions.words import in_words, known, listed
from llm_fsm.definition.graph import reachable
from llm_fsm.definition.models import Condition, Definition, State, Transition
from llm_fsm.definition.names import VALID, label
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.acts import acts_of, unagreed_path

_WIDTH = 100
_MOST = 20
"""Lines of one part. What is longer is cut, with the number of the rest."""
_TEXT_CHARS = 160
_BLOCK = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_VALUE = re.compile(r"\{\{\s*([\w.-]+)[^}]*\}\}")


def procedure(definition: Definition) -> str:
    """Return the procedure of a definition, as a page of text.

    Args:
        definition: The definition, without what it calls.

    Example:
        >>> from llm_fsm import load
        >>> print(procedure(load("fsm_definitions/appointment.json")))  # doctest: +SKIP
    """
    about = _Procedure(definition)
    parts = [
        _part("What is asked", about.questions(), numbered=True),
        _part("What must be true of every answer", about.rules()),
        _part("What is done", about.acts()),
        _part("How it ends", about.ends()),
        _part("At any time", about.anywhere()),
    ]
    title = definition.name.replace("_", " ")
    head = [title, "=" * len(title)]
    if definition.description:
        head += _wrapped(" ".join(definition.description.split()), "")
    return "\n\n".join(["\n".join(head), *filter(None, parts)]) + "\n"


class _Procedure:
    """The parts of a procedure, for one definition."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.document = Document(Placed("", dict(definition.document)))
        graph = {}
        for name, state in definition.states.items():
            graph[name] = [move.target_state for move in state.transitions]
        self.graph = graph

    def questions(self) -> Iterator[str]:
        """Yield what is asked, in the order of the definition."""
        for name, state in self.definition.states.items():
            if self.definition.kind_of(name) == "converse" and state.required_context_keys:
                yield f"{self.words(name)} ({self.labels(state.required_context_keys)})"
        for name in self.definition.states:
            if self.definition.kind_of(name) == "wait":
                yield f"A person, not the user, is asked: {self.words(name)}"

    def rules(self) -> Iterator[str]:
        """Yield what every value must fulfil."""
        for key, schema in self.definition.key_schemas.items():
            for rule in list_at(schema, VALID):
                yield _ended(str(rule.get("description") or in_words(rule.get("logic"))))
            if schema.get("x-said"):
                yield f"{_capital(self.labels([key]))}: taken only from the user's own words."

    def acts(self) -> Iterator[str]:
        """Yield each thing that is done, with its conditions, who agrees, and what happens if not."""
        found: dict[str, str] = {}
        for act in acts_of(self.document):
            found.setdefault(act.state, act.what)
        for name, state in self.definition.states.items():
            asks_people = any(
                self.definition.tools[tool].approval for tool in self._known_tools(state)
            )
            if asks_people or self._comes_from_a_yes(name, found):
                found.setdefault(name, "")
        for name in found:
            yield "\n".join(self._act(name))

    def _known_tools(self, state: State) -> list[str]:
        return [tool for tool in state.tools if tool in self.definition.tools]

    def _comes_from_a_yes(self, name: str, acts: TextMap) -> bool:
        """Return true for the target of a yes behind which no other act follows."""
        moves = (move for _, move in self._into(name))
        if not any(move.agrees for move in moves):
            return False
        return set(acts).isdisjoint(reachable(self.graph, [name]) - {name})

    def _into(self, name: str) -> list[tuple[str, Transition]]:
        found = []
        for source, state in self.definition.states.items():
            found += [(source, move) for move in state.transitions if move.target_state == name]
        return found

    def _act(self, name: str) -> Iterator[str]:
        yield self.words(name)
        needed: list[str] = []
        for _, move in self._into(name):
            needed += map(self.condition, move.conditions)
        conditions = list(dict.fromkeys(filter(None, needed)))
        first = "; ".join(conditions or self._read_back(name)) or "nothing"
        yield f"  What must be true first: {_ended(first)}"
        yield f"  Who agrees: {self.who(name)}"
        for text in self._otherwise(name):
            yield f"  If not: {text}"

    def who(self, name: str) -> str:
        """Return who agrees to an act."""
        state = self.definition.states[name]
        people = [tool for tool in self._known_tools(state) if self.definition.tools[tool].approval]
        said = []
        for keys in self._agreed_before(name):
            said.append(f"the user, who has heard {self.labels(keys)} and said yes to exactly that")
        if people or self._is_asked_first(name):
            said.append(
                "a person of the house, who decides each time"
                if people
                else "a person of the house"
            )
        if not said:
            return "nobody is asked."
        open_ways = [
            act
            for act in acts_of(self.document)
            if act.state == name and unagreed_path(self.document, act)
        ]
        ending = " On one way there, nobody is asked." if open_ways else ""
        return f"{'; and '.join(said)}.{ending}"

    def _is_asked_first(self, name: str) -> bool:
        """Return true if a person is asked on every way to an act."""
        kind_of = self.definition.kind_of
        unasked = {
            state: () if kind_of(state) == "wait" else ways for state, ways in self.graph.items()
        }
        start = [self.definition.initial_state]
        return name in reachable(self.graph, start) and name not in reachable(unasked, start)

    def _read_back(self, name: str) -> Iterator[str]:
        """Yield what was proved and read back before an act."""
        schemas = self.definition.key_schemas
        for keys in self._agreed_before(name):
            how = "was read out as it is" if len(keys) == 1 else "were read out as they are"
            yield f"{self.labels(keys)} {how}"
            proved = [key for key in keys if schemas.get(key, {}).get("x-said")]
            if proved:
                yield f"{self.labels(proved)}: said in the user's own words"

    def _agreed_before(self, name: str) -> list[list[str]]:
        found = []
        for state in self.definition.states.values():
            targets = [move.target_state for move in state.transitions if move.agrees]
            if (
                state.confirms
                and name in reachable(self.graph, targets)
                and state.confirms not in found
            ):
                found.append(state.confirms)
        return found

    def _otherwise(self, name: str) -> Iterator[str]:
        """Yield what happens without the yes, and if the work fails."""
        for source, move in self._into(name):
            state = self.definition.states[source]
            if not move.agrees:
                continue
            yield "a value that changes is read out again, and needs a new yes."
            for other in state.transitions:
                if other.target_state != name:
                    when = _short(other.description) or "otherwise"
                    yield f"{when}: {self.words(other.target_state)}"
        state = self.definition.states[name]
        if self.definition.kind_of(name) == "task":
            then = self.definition.states.get(state.on_exhausted)
            known_state = then is not None
            yield (
                f"if it fails: {self.words(state.on_exhausted)}"
                if known_state
                else "if it fails, nothing follows."
            )

    def ends(self) -> Iterator[str]:
        """Yield what is said at each end."""
        for name in self.definition.states:
            if self.definition.kind_of(name) == "final":
                yield self.words(name, reply=True)

    def anywhere(self) -> Iterator[str]:
        """Yield what the user can ask for at any time."""
        for move in self.definition.global_transitions:
            back = " Then the open question is asked again." if move.returns else ""
            yield f"{_short(move.description) or 'On wish'}: {self.words(move.target_state)}{back}"

    def condition(self, condition: Condition) -> str:
        """Return a condition in words."""
        if condition.description:
            return _short(condition.description)
        said = [known([self.labels([key])]) for key in condition.requires_context_keys]
        if condition.logic is not None:
            said.append(in_words(condition.logic))
        return " and ".join(said)

    def words(self, name: str, *, reply: bool = False) -> str:
        """Return what a step is there for, in the definition's words."""
        state = self.definition.states.get(name)
        if state is None:
            return _capital(name.replace("_", " "))
        own = state.purpose or state.description
        text = (state.reply or own) if reply else (own or state.reply)
        return _short(self.filled(text or "")) or _capital(name.replace("_", " "))

    def filled(self, text: str) -> str:
        """Return a fixed text with what people call each value, in brackets, in its place."""
        shown = _BLOCK.sub("", text)
        return _VALUE.sub(lambda found: f"[{self.labels([found[1]])}]", shown)

    def labels(self, keys: Iterable[str]) -> str:
        """Return keys as people call them."""
        schemas = self.definition.key_schemas
        named = [label(key, schemas.get(key, {})).lower() for key in keys]
        return listed(named, "and")


def _part(title: str, lines: Iterable[str], *, numbered: bool = False) -> str:
    """Return a part of the page; "" if there is nothing to say."""
    found = list(dict.fromkeys(lines))
    if not found:
        return ""
    shown = [title, "-" * len(title)]
    for number, text in enumerate(found[:_MOST], 1):
        mark = f"{number}. " if numbered else "- "
        first, *rest = text.split("\n")
        shown += _wrapped(first, mark)
        for line in rest:
            shown += _wrapped(line.strip(), "    ")
    if len(found) > _MOST:
        shown.append(f"- and {len(found) - _MOST} more")
    return "\n".join(shown)


def _wrapped(text: str, mark: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark)) or [
        mark
    ]


def _short(text: str) -> str:
    """Return a text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_CHARS else f"{line[: _TEXT_CHARS - 1].rstrip()}…"


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
