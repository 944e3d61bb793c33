"""The part of a turn that a user heard, before something interrupted it.

A caller who interrupts has heard the beginning of an answer. The record keeps the whole turn. The
history and later prompts show the part that was heard, with a mark.
"""

from __future__ import annotations

from llm_fsm._text import INTERRUPTED, cut
from llm_fsm.session import events as ev
from llm_fsm.session.redaction import without
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, without_undone
from llm_fsm.turn.agreement import shows_all
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.read_back import words_in
from llm_fsm.turn.turn_state import TurnState


def heard_event(
    machine: CompiledMachine,
    session: Session,
    records: Records,
    number: int,
    text: str,
    *,
    instead: bool = False,
) -> ev.WordsHeard:
    """Return the event that records what was heard of a turn.

    Args:
        machine: The compiled machine.
        session: The conversation as it is now.
        records: All its turn records.
        number: The number of the turn.
        text: What was heard: the beginning of the turn's text. Spaces, punctuation and case may
            differ, because speech has none.
        instead: True: the text takes the place of the turn's, in a replay of what others said.

    Returns:
        The event. If the whole text was heard, it marks nothing.

    Raises:
        ValueError: The conversation has no such turn, or the turn said nothing.
    """
    spoken: dict[int, ev.BotSaid] = {}
    whole: dict[int, str] = {}
    shown: dict[int, str] = {}
    """Number of a record to what the history shows of its words: whole, and as they are now."""
    for place, record in without_undone(records):
        for event in record.events:
            match event:
                case ev.BotSaid() if record.turn == number:
                    spoken[place] = event
                    said_there = event.text if event.kept_text is None else event.kept_text
                    whole[place] = shown[place] = cut(said_there, event.kept_chars)
                case ev.WordsHeard():
                    shown[event.record] = event.kept
    if not spoken:
        raise ValueError(f"there is no turn {number} in this conversation that said something")
    # A turn may have spoken in several records. The one that fits the words best is meant, of
    # equals the last.
    place = max(spoken, key=lambda one: (_reached(text, spoken[one].text), one))
    said = spoken[place]
    # A voice that shares no word with the text was still heard: its own words are kept.
    part = said.text[: _reached(text, said.text)] or text.strip()[: len(said.text)]
    if part == said.text and not instead:
        return ev.WordsHeard(record=place, text=part, said=shown[place], kept=whole[place])
    part = text if instead else part
    secrets = TurnState(machine, session).secrets()
    clean = without(secrets, part)
    kept = cut(part if clean is None else clean, said.kept_chars)
    return ev.WordsHeard(
        record=place,
        text=part,
        said=shown[place],
        kept=kept if instead else kept + INTERRUPTED,
        interrupted=not instead,
        values=instead or shows_all(machine, session, part),
    )


def _reached(heard: str, text: str) -> int:
    """Return the place in a text up to which a voice came: its length if it came to its last word.

    A voice may say "fifty" for 50, so only the words are followed that both have, in their order.
    """
    written = words_in(text)
    place = 0
    for word, _ in words_in(heard):
        # A word that the text lacks moves nothing, so one slip of a transcript does no harm.
        same = (number for number in range(place, len(written)) if written[number][0] == word)
        place = next(same, place - 1) + 1
    if place == len(written):
        return len(text)
    return written[place - 1][1] if place else 0
