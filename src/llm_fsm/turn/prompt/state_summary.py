"""The texts of prompts on a state: its line in <states>, and its summary in the prompts of other
states.
"""

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

_SHORT_CHARS = 160
"""The system message has a line for each state, so a long purpose is cut at a word."""
_VALUE = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_TAG = re.compile(r"\{[%#].*?[%#]\}", re.DOTALL)
_ELSE = re.compile(r"\s*\{%-?\s*(?:else|elif\b.*?)\s*-?%\}\s*", re.DOTALL)
_SHOWN_KEY = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*(?:\|.*)?", re.DOTALL)
"""An expression that shows one value, as it is or in another form."""
_LONG_WORD = 30
"""Characters before a cut without a space: the script puts none between words."""
_OPENED = re.compile(r"\{(?:[{%#](?:(?![}%#]\}).)*)?$")
"""An expression of a fixed reply that a cut would divide."""
_OUTCOME = "the program works there, and then speaks by itself"
_BACK = "what was asked"
"""The name of the state to which the answer of a digression returns."""
WORKS = ("task", "subflow")
"""Kinds of states whose instructions are for their work and not for words."""
_BREAK = re.compile(r"(?<=[.!?…।۔؟])[ \t]+(?=\S)|(?<=[。！？])(?=\S)|(?<=[^\s:;,])\s*\n\s*(?=\S)")
"""Between two sentences or lines. A line that announces the next one belongs to it."""
_ITEM = re.compile(r"(?!\*\*)[-*+•–·・(（]|\d|\w{1,3}[.)、]")
"""The beginning of a line of a list, or of a remark on the line before. Two stars begin bold text.
"""
_HEADING = re.compile(r"#{1,6} |(\*\*|__)[^*_]+\1$")
"""A heading, or its beginning. The line that follows needs it."""
_LISTED = re.compile(r"[-*+•–·・]|\d{1,2}[.)、]|#{1,6} ")
"""The certain beginning of a list or a heading."""
_SHORT = re.compile(r"(?<!\w)\w{1,3}\.$")
"""An abbreviation, perhaps, or a number in order, as many languages write it."""
_PAIRS = ('"', "`", "„“”", "«»", "()", "[]", "{}", "（）", "「」", "『』", "【】")
"""Marks around words. A text from which nothing is cut has an even number of each kind."""
_SHARED_CHARS = 60
"""Shortest shared ending that gets its own line."""
_MOST_ENDS = 16
"""Ends of a text that are compared. Long instructions would have hundreds."""
_NO_WORD = re.compile(r"[\W_]+")
TAGS = 6
"""Tokens of the markup around a section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """Final states of a definition: those that end the conversation, and those that only answer a
    digression.
    """

    ends: frozenset[str]
    answers: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWords:
    """A state's own texts, as its prompt shows them."""

    id: str
    description: str = ""
    purpose: str = ""
    instructions: str = ""
    example: str = ""
    tokens: int = 0
    """Estimated tokens of <current_state>."""


def state_words(state_id: str, state: State) -> StateWords:
    """Return the texts of a state. Its instructions of all kinds are joined."""
    description = ""
    if state.description != state.purpose:
        description = clean(state.description)
    tokens = name_tokens(state_id)
    example = ""
    if state.example_dialogue:
        example = escaped(state.example_dialogue)
        tokens += estimate(example) + TAGS
    return StateWords(
        id=state_id,
        description=description,
        purpose=clean(state.purpose),
        instructions=instructions_of(state),
        example=example,
        tokens=tokens,
    )


def instructions_of(state: State) -> str:
    """Return the instructions of a state, those of all kinds."""
    kinds = (state.instructions, state.extraction_instructions, state.response_instructions)
    return clean("\n".join(text for text in kinds if text))


def name_tokens(state_id: str) -> int:
    """Return the estimated tokens of <current_state> with no more than the state's id in it."""
    return estimate(state_id) + 2 * TAGS


def state_line(
    words: StateWords, shown: Mapping[str, Any], items: Iterable[str], *, kind: str
) -> str:
    """Return the line of a state in <states> as JSON: its texts, the rest of its summary, its
    transitions.

    Tasks and subflows show only their purpose. A state that decides has branches in place of
    transitions.

    Args:
        words: The state's texts.
        shown: Its `target_summary`, without purpose and instructions, which `words` has in full.
        items: Its transitions, each as JSON.
        kind: The kind of the state.
    """
    works = kind in WORKS
    texts = {"id": words.id, "description": words.description, "purpose": words.purpose}
    if not works:
        texts["notes"] = words.instructions
    parts: dict[str, Any] = {name: text for name, text in texts.items() if text}
    parts |= {name: part for name, part in shown.items() if name not in ("purpose", "notes")}
    line = escaped(parts).removesuffix("}")
    if words.example:
        line += f',"example_dialogue":{words.example}'
    menu = "" if works else ",".join(items)
    if menu:
        name = "leads_on_to" if kind == "decide" else "transitions"
        line += f',"{name}":[{menu}]'
    return line + "}"


def states_text(definition: Definition, state_ids: Iterable[str], endings: Endings) -> str:
    """Return the text of <states> for some states: a line for each that has texts.

    Instructions that several of them share get one line, with the ids of these states.
    """
    words = {state_id: state_words(state_id, definition.states[state_id]) for state_id in state_ids}
    kinds = {state_id: definition.kind_of(state_id) for state_id in words}
    speaking = [state_id for state_id in words if kinds[state_id] not in WORKS]
    own, sharing = divided({state_id: words[state_id].instructions for state_id in speaking})
    lines: list[str] = []
    for state_id, texts in words.items():
        line = _state_line(
            definition.states[state_id],
            texts,
            own.get(state_id, ""),
            mark=_mark(state_id, endings),
            kind=kinds[state_id],
        )
        if line:
            lines.append(line)
    for text, states in sharing.items():
        lines.append(f"{', '.join(states)}: {_indented(text)}")
    return "\n".join(lines)


def divided(instructions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return each state's instructions without their shared ending, and the shared endings with
    their states.
    """
    sharing = shared(instructions)
    endings: dict[str, str] = {}
    for text, states in sharing.items():
        for state_id in states:
            endings[state_id] = text
    own: dict[str, str] = {}
    for state_id, text in instructions.items():
        own[state_id] = text.removesuffix(endings.get(state_id, "")).rstrip()
    return own, sharing


def shared(instructions: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the endings that the instructions of several states share, or whole instructions, with
    those states.

    An ending begins with a sentence or a line that makes sense alone. It is long enough to save
    more than the line with the names of its states costs.
    """
    states_of: dict[str, list[str]] = {}
    last_chars = Counter(text[-_SHARED_CHARS:] for text in instructions.values())
    for state_id, text in instructions.items():
        endings = [text]
        is_alone = last_chars[text[-_SHARED_CHARS:]] == 1
        if not is_alone:  # else no other state can have one of its endings
            endings += _ends(text)
        for ending in endings:
            states_of.setdefault(ending, []).append(state_id)
    sharing: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for text, states in sorted(states_of.items(), key=_saved, reverse=True):
        free = [state_id for state_id in states if state_id not in taken]
        if text and len(free) > 1:
            sharing[text] = tuple(free)
            taken.update(free)
    places = {state_id: place for place, state_id in enumerate(instructions)}
    return dict(sorted(sharing.items(), key=lambda item: places[item[1][0]]))


def _saved(group: tuple[str, list[str]]) -> int:
    """Return the characters that one line for all these states saves."""
    text, states = group
    return len(text) * (len(states) - 1)


def _ends(text: str) -> Iterator[str]:
    """Yield the endings of a text that make sense alone: the last few."""
    breaks = list(_BREAK.finditer(text, 0, max(0, len(text) - _SHARED_CHARS)))
    for match in breaks[-_MOST_ENDS:]:
        line = text[: match.start()].rpartition("\n")[2].lstrip()
        end = text[match.end() :]
        if _belongs_to(line, match.group()) or _is_cut(end):
            continue
        follows_abbreviation = end[0].islower()  # such as "e.g."
        if not follows_abbreviation and not _ITEM.match(end):
            yield end


def _belongs_to(line: str, gap: str) -> bool:
    """Return true if the text behind a gap belongs to the line before it."""
    if "\n" not in gap:
        return bool(_ITEM.match(line) or _SHORT.search(line))
    is_wrapped = gap.count("\n") == 1 and not is_ended(line)
    is_indented = not gap.endswith("\n")
    return is_wrapped or is_indented or bool(_HEADING.match(line))


def _is_cut(text: str) -> bool:
    """Return true if a quotation or a parenthesis began before this text."""
    return any(sum(map(text.count, marks)) % 2 for marks in _PAIRS)


def endings_of(definition: Definition, *, asides: Iterable[str], called: bool) -> Endings:
    """Return the final states of a definition.

    A final state that only digressions reach ends the digression, and not the conversation.

    Args:
        definition: The definition.
        asides: States that return although no transition says so.
        called: True if another definition calls this one, so that none of its states ends a
            conversation.
    """
    ahead: dict[str, list[str]] = {}
    returning = set(asides)
    starts = {definition.initial_state}
    for transition in definition.global_transitions:
        (returning if transition.returns else starts).add(transition.target_state)
    for state_id, state in definition.states.items():
        targets = [name for name in (state.on_exhausted, state.on_timeout) if name]
        rule = definition.on_function_error
        works = bool(state.tools) or state.kind == "task"
        if works and rule is not None and rule.target_state is not None:
            targets.append(rule.target_state)
        for transition in state.transitions:
            if transition.returns:
                returning.add(transition.target_state)
            else:
                targets.append(transition.target_state)
        ahead[state_id] = targets
    behind_digressions = reachable(ahead, returning)
    # A state that nothing leads to may be a start of tests or of the host, so it counts as one.
    starts.update(name for name in ahead if name not in behind_digressions)
    only_digressions = behind_digressions - reachable(ahead, starts)
    final = frozenset(name for name in definition.states if definition.kind_of(name) == "final")
    ends = frozenset() if called else final - only_digressions
    return Endings(ends=ends, answers=final & only_digressions)


def _mark(state_id: str, endings: Endings) -> str:
    """Return the note behind the name of a final state."""
    if state_id in endings.ends:
        return " (final)"
    if state_id in endings.answers:
        return f" (then back to {_BACK})"
    return ""


def _state_line(state: State, words: StateWords, instructions: str, *, mark: str, kind: str) -> str:
    """Return what a prompt says of a state: what it is there for, then parts with names of their
    own.

    Words for the user and notes for the model are apart, because small models read out what stands
    in one line.
    """
    fixed = "" if state.reply is None else fixed_text(state.reply)
    purpose = words.purpose
    if fixed and purpose and _names_all(fixed, [purpose]):
        purpose = ""
    first = " ".join(ended(part.rstrip()) for part in (words.description, purpose) if part)
    if kind == "decide":
        text = " ".join(part for part in (first, ended(instructions.rstrip())) if part)
        return f"{words.id} (leads on): {_indented(text)}" if text else ""
    parts: list[str] = []
    if state.required_context_keys:
        parts.append(f"collect: {', '.join(state.required_context_keys)}")
    if instructions:
        parts.append(f"notes: {_indented(instructions.rstrip())}")
    if fixed:
        parts.append(f"says: {escaped(fixed)}")
    elif kind in WORKS:
        parts.append(_OUTCOME)
    if not (first or parts):
        return words.id + mark if mark else ""
    head = f"{words.id}{mark}: {_indented(first)}".rstrip()
    return "\n  ".join((head, *parts))


def _indented(text: str) -> str:
    """Indent the lines of a text beneath its first one, and keep the indentation of lists within
    lists.
    """
    lines = cleandoc(text).splitlines()
    return "\n  ".join(line.rstrip() for line in lines if line.strip())


def fixed_text(reply: str) -> str:
    """Return the text of a fixed reply for a prompt: names in brackets for values, no code, and its
    end.

    Texts of which the program says one are parted by "or". The end has the question, which the
    model must not ask, too.
    """
    named = _VALUE.sub(_value_name, clean(reply))
    text = _TAG.sub("", _ELSE.sub(" or ", named))
    line = " ".join(text.split())
    if len(line) <= _SHORT_CHARS:
        return line
    kept = line[-_SHORT_CHARS:]
    space = kept.find(" ")
    if 0 <= space < _LONG_WORD:
        kept = kept[space + 1 :]
    return f"[…] {kept}"


def _value_name(match: re.Match[str]) -> str:
    """Return the key that an expression shows, in brackets; "[value]" for what is computed."""
    shown = _SHOWN_KEY.fullmatch(match.group(1))
    return "[value]" if shown is None else f"[{shown.group(1)}]"


def _short(text: str) -> str:
    """Return the beginning of a text, up to a space near the end. No expression is cut."""
    line = " ".join(clean(text).split())
    if len(line) <= _SHORT_CHARS:
        return line
    kept = line[:_SHORT_CHARS]
    space = kept.rfind(" ")
    if space > _SHORT_CHARS - _LONG_WORD:
        kept = kept[:space]
    opened = _OPENED.search(kept)
    if opened is not None:
        kept = kept[: opened.start()]
    return kept.rstrip() + " …"


def target_summary(
    definition: Definition, state_id: str, endings: Endings, seen_from: str | None = None
) -> dict[str, Any]:
    """Return the summary of a state for the prompts of another one: its purpose, keys, instructions
    and fixed reply.

    It leaves out instructions that the state `seen_from` has, too, keys that the purpose names, and
    a purpose that the fixed reply says.
    """
    state = definition.states[state_id]
    shown: dict[str, Any] = {}
    if state.purpose or state.description:
        shown["purpose"] = _short(state.purpose or state.description)
    if not _names_all(shown.get("purpose", ""), state.required_context_keys):
        shown["collect"] = list(state.required_context_keys)
    works = definition.kind_of(state_id) in WORKS
    instructions = "" if works else state.response_instructions or state.instructions
    if seen_from is not None:
        instructions = _without_end_of(instructions, definition.states[seen_from])
    if state.reply is not None:
        shown["says"] = fixed_text(state.reply)
        if "purpose" in shown and _names_all(shown["says"], [shown["purpose"]]):
            del shown["purpose"]
    elif state.tools_first:
        shown["says"] = "what its tools find"
    elif works:
        shown["says"] = True
    elif instructions:
        shown["notes"] = _short(instructions)
    if state.confirms and state.reply is None:
        shown["reads_back"] = list(state.confirms)
    if state_id in endings.ends:
        shown["final"] = True
    elif state_id in endings.answers:
        shown["then_back_to"] = _BACK
    return shown


def _without_end_of(instructions: str, here: State) -> str:
    """Return instructions without the longest ending that those of another state have, too."""
    last_chars = instructions[-_SHARED_CHARS:]
    known: set[str] = set()
    for text in (here.response_instructions, here.instructions):
        if text and text.endswith(last_chars):
            known.update((text, *_ends(text)))
    if not known:
        return instructions.rstrip()
    for ending in (instructions, *_ends(instructions)):
        if ending in known:
            return instructions.removesuffix(ending).rstrip()
    return instructions.rstrip()


def _names_all(text: str, words: Iterable[str]) -> bool:
    """Return true if a text has each of the words, as a whole and in any case of its letters."""
    spaced = f" {_NO_WORD.sub(' ', text.casefold())} "
    return all(f" {_NO_WORD.sub(' ', word.casefold()).strip()} " in spaced for word in words)


def in_words(shown: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return a target summary as one text if it has only purpose, instructions and keys; else as it
    is.

    What the model has to note stays apart from the question, in parentheses, so that nobody reads
    it out.
    """
    if not shown.keys() <= {"purpose", "notes", "collect"}:
        return shown
    notes: list[str] = []
    if shown.get("collect"):
        notes.append(f"collect: {', '.join(shown['collect'])}")
    if shown.get("notes"):
        notes.append(f"notes: {ended(shown['notes'].rstrip())}")
    parts = [ended(shown["purpose"].rstrip())] if shown.get("purpose") else []
    parts += [f"({'; '.join(notes)})"] if notes else []
    return " ".join(parts)
