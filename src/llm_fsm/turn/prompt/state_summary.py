"""The words of prompts on a state: its line in <states>, and its target summary in other states' prompts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

from llm_fsm._text import clean, escaped, estimate
from llm_fsm.definition.graph import reachable
from llm_fsm.definition.models import Definition, State
from llm_fsm.turn.fixed_replies import ended, is_ended

_GLIMPSE_CHARS = 160
_LONG_WORD = 30
"""Characters before the cut without a space: of a script that puts none between words."""
_OPENED = re.compile(r"\{(?:[{%#](?:(?![}%#]\}).)*)?$")
"""An expression of a fixed reply that a cut goes through."""
_OUTCOME = "Works and says its result by itself."
_BACK = "what was asked"
"""The name of the state to which the answer of a digression returns."""
WORKS = ("task", "subflow")
"""Kinds of states whose instructions are for their work and not for words."""
_BREAK = re.compile(r"(?<=[.!?…।۔؟])[ \t]+(?=\S)|(?<=[。！？])(?=\S)|(?<=[^\s:;,])\s*\n\s*(?=\S)")
"""Between two sentences or lines, but for a line that announces the next one."""
_ITEM = re.compile(r"(?!\*\*)[-*+•–·・(（]|\d|\w{1,3}[.)、]")
"""The beginning of a line of a list, or of a remark on the line before. Two stars begin bold words."""
_HEADING = re.compile(r"#{1,6} |(\*\*|__)[^*_]+\1$")
"""A heading, or its beginning. The line that follows needs it."""
_LISTED = re.compile(r"[-*+•–·・]|\d{1,2}[.)、]|#{1,6} ")
"""The certain beginning of a list or a heading."""
_SHORT = re.compile(r"(?<!\w)\w{1,3}\.$")
"""An abbreviation, perhaps, or a number in order, as many languages write it."""
_PAIRS = ('"', "`", "„“”", "«»", "()", "[]", "{}", "（）", "「」", "『』", "【】")
"""Marks around words. A text from which nothing is cut has an even number of each kind."""
_SHARED_CHARS = 60
"""Characters of the end of some instructions that is worth a line of its own."""
_MOST_ENDS = 16
_NO_WORD = re.compile(r"[\W_]+")
TAGS = 6
"""Tokens of the markup around a section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Final states of a definition: those that end the conversation, and those that only answer a digression."""

    ends: frozenset[str]
    answers: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWords:
    """A state's own words, as its prompt shows them."""

    id: str
    description: str = ""
    purpose: str = ""
    instructions: str = ""
    example: str = ""
    tokens: int = 0
    """Estimated tokens of <current_state>."""


def state_words(state_id: str, state: State) -> StateWords:
    """Return the words of a state; its instructions of all kinds are joined."""
    texts = {
        "id": state_id,
        "description": clean(state.description) if state.description != state.purpose else "",
        "purpose": clean(state.purpose),
        "instructions": instructions_of(state),
        "example": escaped(state.example_dialogue) if state.example_dialogue else "",
    }
    example = estimate(texts["example"]) + TAGS if texts["example"] else 0
    return StateWords(**texts, tokens=name_tokens(state_id) + example)


def instructions_of(state: State) -> str:
    """Return the instructions of a state, those of all kinds."""
    kinds = (state.instructions, state.extraction_instructions, state.response_instructions)
    return clean("\n".join(text for text in kinds if text))


def name_tokens(state_id: str) -> int:
    """Return the estimated tokens of <current_state> with no more than the state's id in it."""
    return estimate(state_id) + 2 * TAGS


def state_line(words: StateWords, shown: Mapping[str, Any], items: Iterable[str], *, kind: str) -> str:
    """Return a state as <states> shows it: its words, what `target_summary` shows beside them, its transitions as JSON.

    One that works neither speaks nor lets a reply choose where it leads. Only its purpose is said then. One that
    decides has branches in place of transitions.
    """
    works = kind in WORKS
    names = ("id", "description", "purpose", *(() if works else ("instructions",)))
    own = {name: text for name in names if (text := getattr(words, name))}
    line = escaped({**own, **{name: found for name, found in shown.items() if name not in ("purpose", "instructions")}})
    menu = "" if works else ",".join(items)
    example = f',"example_dialogue":{words.example}' if words.example else ""
    name = "leads_on_to" if kind == "decide" else "transitions"
    return f'{line[:-1]}{example},"{name}":[{menu}]}}' if menu else f"{line[:-1]}{example}}}"


def states_text(definition: Definition, state_ids: Iterable[str], endings: Endings) -> str:
    """Return what <states> says of some states: a line for each that has words.

    What `shared` finds in the instructions of several of them gets one line, with the ids of all of them.
    """
    words = {state_id: state_words(state_id, definition.states[state_id]) for state_id in state_ids}
    kinds = {state_id: definition.kind_of(state_id) for state_id in words}
    works = {state_id: kind in WORKS for state_id, kind in kinds.items()}
    own, sharing = divided({state_id: found.instructions for state_id, found in words.items() if not works[state_id]})
    lines = [
        _state_line(
            definition.states[state_id],
            found,
            own.get(state_id, ""),
            mark=_mark(state_id, endings),
            kind=kinds[state_id],
        )
        for state_id, found in words.items()
    ]
    lines += [f"{', '.join(ids)}: {_indented(text)}" for text, ids in sharing.items()]
    return "\n".join(line for line in lines if line)


def divided(instructions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return what is left of the instructions of each state without what `shared` finds, and what that is."""
    sharing = shared(instructions)
    ends = {state_id: text for text, ids in sharing.items() for state_id in ids}
    own = {state_id: text.removesuffix(ends.get(state_id, "")).rstrip() for state_id, text in instructions.items()}
    return own, sharing


def shared(instructions: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the words that end the instructions of several states, or are all of them, with those states.

    An end counts from a sentence or line that stands for itself. It must be long enough to say all that it means.
    """
    having: dict[str, list[str]] = {}
    alike = Counter(text[-_SHARED_CHARS:] for text in instructions.values())
    for state_id, text in instructions.items():
        for end in (text, *(_ends(text) if alike[text[-_SHARED_CHARS:]] > 1 else ())):
            having.setdefault(end, []).append(state_id)
    groups = [(text, ids) for text, ids in having.items() if text and len(ids) > 1]
    found: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for text, ids in sorted(groups, key=lambda group: -len(group[0]) * (len(group[1]) - 1)):
        free = [state_id for state_id in ids if state_id not in taken]
        if len(free) > 1:
            found[text] = tuple(free)
            taken.update(free)
    places = {state_id: place for place, state_id in enumerate(instructions)}
    return dict(sorted(found.items(), key=lambda item: places[item[1][0]]))


def _ends(text: str) -> Iterator[str]:
    """Yield the ends of a text that may stand on their own: the last few."""
    for match in [*_BREAK.finditer(text, 0, max(0, len(text) - _SHARED_CHARS))][-_MOST_ENDS:]:
        before, gap, end = text[: match.start()], match.group(), text[match.end() :]
        line = before.rpartition("\n")[2].lstrip()
        if "\n" in gap:
            wrapped = gap.count("\n") == 1 and not is_ended(line)
            within = wrapped or not gap.endswith("\n") or bool(_HEADING.match(line))  # the second one: indented
        else:
            within = bool(_ITEM.match(line) or _SHORT.search(line))
        cut = any(sum(map(end.count, marks)) % 2 for marks in _PAIRS)
        if not (within or cut or _ITEM.match(end) or end[0].islower()):  # lower: after "e.g."
            yield end


def endings_of(definition: Definition, *, asides: Iterable[str], called: bool) -> Endings:
    """Return the final states of a definition, which ends no conversation where it is `called`.

    Those that are come to on no way but through a digression only end that. `asides`: states that come back although
    no transition says so.
    """
    arrows = [*definition.global_transitions]
    ahead: dict[str, list[str]] = {}
    for state_id, state in definition.states.items():
        arrows += state.transitions
        onward = (arrow.target_state for arrow in state.transitions if not arrow.returns)
        ahead[state_id] = [*onward, *filter(None, (state.on_exhausted, state.on_timeout))]
    left = reachable(ahead, {*asides, *(arrow.target_state for arrow in arrows if arrow.returns)})
    starts = {definition.initial_state, *(name for name in ahead if name not in left)}
    starts.update(arrow.target_state for arrow in definition.global_transitions if not arrow.returns)
    left -= reachable(ahead, starts)
    final = frozenset(name for name in definition.states if definition.kind_of(name) == "final")
    return Endings(ends=frozenset() if called else final - left, answers=final & left)


def _mark(state_id: str, endings: Endings) -> str:
    """Return what is said of a final state behind its name: nobody says goodbye in the answer of a digression."""
    return " (final)" if state_id in endings.ends else f" (then back to {_BACK})" if state_id in endings.answers else ""


def _state_line(state: State, words: StateWords, instructions: str, *, mark: str, kind: str) -> str:
    keys = state.required_context_keys
    added = "" if state.reply is None else _short(state.reply)
    purpose = "" if added and _names_all(added, [words.purpose]) else words.purpose
    parts = (
        words.description,
        purpose,
        "" if _names_all(f"{words.description} {words.purpose}", keys) else f"Collects {', '.join(keys)}.",
    )
    said = " ".join(ended(part.rstrip()) for part in parts if part)
    if instructions:
        gap = "\n" if "\n" in instructions and _LISTED.match(instructions) else " "
        said = gap.join(filter(None, (said, ended(instructions.rstrip()))))
    said = _indented(said)
    if kind == "decide" and said:
        return f"{words.id} (leads on): {said}"
    if added or kind in WORKS:
        said = f"{said} {f'Says by itself: {escaped(added)}' if added else _OUTCOME}".lstrip()
    return f"{words.id}{mark}: {said}" if said else words.id + mark if mark else ""


def _indented(text: str) -> str:
    """Indent the lines of a text beneath its first one. A list within a list stays one, as lines may depend on it."""
    return "\n  ".join(line.rstrip() for line in cleandoc(text).splitlines() if line.strip())


def _short(text: str) -> str:
    """Return the beginning of a text, up to a space near the end, and to no part of an expression."""
    line = " ".join(clean(text).split())
    if len(line) <= _GLIMPSE_CHARS:
        return line
    begun = line[:_GLIMPSE_CHARS]
    space = begun.rfind(" ")
    kept = begun[:space] if space > _GLIMPSE_CHARS - _LONG_WORD else begun
    opened = _OPENED.search(kept)
    return (kept[: opened.start()] if opened else kept).rstrip() + " …"


def target_summary(
    definition: Definition, state_id: str, endings: Endings, seen_from: str | None = None
) -> dict[str, Any]:
    """Return what another state's prompt shows of this one: what it is there for, asks and says.

    Instructions that the state `seen_from` has word for word, or ends with, too, are not said again. Neither are keys
    that the purpose names, nor a purpose that the fixed reply says. What is said of the outcome of work is added, too.
    """
    state = definition.states[state_id]
    shown: dict[str, Any] = {}
    if state.purpose or state.description:
        shown["purpose"] = _short(state.purpose or state.description)
    if not _names_all(shown.get("purpose", ""), state.required_context_keys):
        shown["collects"] = list(state.required_context_keys)
    works = definition.kind_of(state_id) in WORKS
    words = "" if works else state.response_instructions or state.instructions
    if seen_from is not None:
        words = _without_end_of(words, definition.states[seen_from])
    if state.reply is not None:
        shown["says_by_itself"] = _short(state.reply)
        if "purpose" in shown and _names_all(shown["says_by_itself"], [shown["purpose"]]):
            del shown["purpose"]
    elif works:
        shown["says_by_itself"] = True
    elif words:
        shown["instructions"] = _short(words)
    if state_id in endings.ends:
        shown["final"] = True
    elif state_id in endings.answers:
        shown["then_back_to"] = _BACK
    return shown


def _without_end_of(words: str, here: State) -> str:
    """Return instructions without what those of another state have, too, as all of them or at their end."""
    last = words[-_SHARED_CHARS:]
    theirs = [text for text in (here.response_instructions, here.instructions) if text and text.endswith(last)]
    known = {end for text in theirs for end in (text, *_ends(text))}
    shared_end = next((end for end in (words, *_ends(words)) if end in known), "") if known else ""
    return words.removesuffix(shared_end).rstrip()


def _names_all(text: str, words: Iterable[str]) -> bool:
    """Return true when each of the words stands in the text, as a whole and whatever its case."""
    said = f" {_NO_WORD.sub(' ', text.casefold())} "
    return all(f" {_NO_WORD.sub(' ', word.casefold()).strip()} " in said for word in words)


def in_words(shown: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return a target summary as one text, where it is nothing but a purpose, instructions and keys; else as it is."""
    if not shown.keys() <= {"purpose", "instructions", "collects"}:
        return shown
    collected = shown.get("collects")
    parts = (
        shown.get("purpose"),
        f"Collects {', '.join(collected)}" if collected else None,
        shown.get("instructions"),
    )
    said = [part for part in parts if part]
    return " ".join(ended(part.rstrip()) for part in said)
