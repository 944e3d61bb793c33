"""Changes of states: added, removed, renamed, of another kind, with other words or settings."""

from __future__ import annotations

from llm_fsm._json import TextMap, step
from llm_fsm.definition.models import Definition, State
from llm_fsm.documents.diff.change import Difference, Differences, from_to, member_changes
from llm_fsm.documents.diff.renames import WORDS

_PARKED = ("wait_for", "answer_schema", "flow")
_OWN = frozenset({"id", "kind", "transitions", *WORDS, *_PARKED})


def state_changes(
    old: Definition, before: Definition, new: Definition, renames: TextMap
) -> Differences:
    """Yield changes of states. `before` is the old definition with the new names."""
    back = {now: was for was, now in renames.items()}
    yield from _states(old, new, renames)
    for name in before.states:
        if name in new.states:
            yield from _state(name, before, new, back)


def _states(old: Definition, new: Definition, renamed: TextMap) -> Differences:
    for name in old.states:
        place = "/states" + step(name)
        if old.kind_of(name) == "final" and name not in new.states:
            yield _end(name, renamed.get(name), place)
        elif name in renamed:
            now = renamed[name]
            yield Difference(
                subject="state",
                how="renamed",
                impact="needs-map",
                pointer="/states" + step(now),
                states=(name,),
                message=f'state "{name}" is now called "{now}" (guessed from what they have in'
                " common)",
                reason="conversations in it must be moved to the new name",
            )
        elif name not in new.states:
            yield Difference(
                subject="state",
                how="removed",
                impact="strands",
                pointer=place,
                states=(name,),
                message=f'state "{name}" removed',
                reason="conversations in it cannot be opened any more",
            )
    for name in new.states:
        if name not in old.states and name not in renamed.values():
            text = f'state "{name}" added'
            yield Difference(
                subject="state", how="added", message=text, pointer="/states" + step(name)
            )


def _end(name: str, now: str | None, place: str) -> Difference:
    """Yield the removal of an end. Conversations that reached it are not running any more."""
    if now is None:
        text = f'final state "{name}" removed'
        return Difference(subject="state", how="removed", message=text, pointer=place)
    text = f'final state "{name}" is now called "{now}" (guessed from what they have in common)'
    return Difference(subject="state", how="renamed", message=text, pointer="/states" + step(now))


def _state(name: str, old: Definition, new: Definition, back: TextMap) -> Differences:
    """Yield changes of a state that still exists."""
    place = "/states" + step(name)
    was = old.states[name]
    now = new.states[name]
    here = (back.get(name, name),)
    if old.kind_of(name) != new.kind_of(name):
        yield _kind(name, old.kind_of(name), new.kind_of(name), place, here)
    for key in _PARKED:
        if getattr(was, key) != getattr(now, key):
            yield Difference(
                subject="state",
                impact="needs-map",
                pointer=place + step(key),
                states=here,
                message=f'"{key}" of state "{name}"'
                f" changed{from_to(getattr(was, key), getattr(now, key))}",
                reason="conversations parked here still wait for the old one",
            )
    what = f' of state "{name}"'
    yield from member_changes(was, now, WORDS, place, what, subject="words", verb="reworded")
    unread = [key for key in now.confirms if key not in was.confirms]
    if unread:
        yield Difference(
            subject="state",
            impact="needs-map",
            pointer=place + "/confirms",
            states=here,
            message=f'state "{name}" confirms {", ".join(unread)}, too',
            reason="conversations here have heard a read-back without it, and it is read back anew",
        )
    own = {*_OWN, "confirms"} if unread else _OWN
    names = [member for member in State.model_fields if member not in own]
    yield from member_changes(was, now, names, place, what)


def _kind(name: str, was: str, now: str, place: str, here: tuple[str, ...]) -> Difference:
    text = f'state "{name}" is of kind {now} instead of {was}'
    if was == "final":
        return Difference(subject="state", message=text, pointer=place + "/kind")
    stranded = now == "final"
    return Difference(
        subject="state",
        impact="strands" if stranded else "needs-map",
        message=text,
        pointer=place + "/kind",
        states=here,
        reason="there is no way on from here"
        if stranded
        else "conversations rest here in the old way",
    )
