"""The changes of a session: one function for each event that changes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from msgspec.structs import replace

from llm_fsm._json import JsonDict, JsonMap, in_unicode, only, without
from llm_fsm._text import CLAIMED, cut, sha256_of
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Paused
from llm_fsm.session.session import (
    OF_FLOW,
    OF_PLACE,
    Agreement,
    Exchange,
    Frame,
    ReadBack,
    Session,
    Silence,
    Work,
    moved_callers,
    session_from_dict,
    values_of,
)

MAX_PATH = 64
"""The longest path that a session keeps, in steps."""
KEPT_TURNS = 3
"""Turns for which prompts show what a tool gave."""
_KEPT_AGREEMENTS = 16
"""Yeses that a session keeps. A definition has fewer states that confirm."""
_KEPT_RESULTS = 4
_KEPT_CHARS = 600
"""Characters of a result, as JSON, that are kept for the next prompts."""


def _started(before: Session, event: ev.Started) -> Session:
    """Begin. Turns of a later generation count on, and what was given in an earlier one stays
    secret.
    """
    return Session(
        conversation_id=event.conversation_id,
        turn=before.turn + 1 if event.generation > 1 else 0,
        secrets=before.secrets,
        generation=event.generation,
        definition=event.definition,
        state=event.state,
        context=dict(event.context),
        origins=dict.fromkeys(event.context, (0, "host")),
        time=event.time,
        input=event.input,
        memory=dict(event.memory),
        shared=dict(event.shared),
        window=_exchanges(event),
        timezone=event.timezone,
        metadata=dict(event.metadata),
        held=event.time if event.held else None,
        origin=event.origin or f"{event.conversation_id}/{event.time}",
        acts=dict(event.acts),
    )


def _release_chosen(session: Session, event: ev.ReleaseChosen) -> Session:
    return replace(session, release=event.release, arm=event.arm)


def _exchanges(event: ev.Started) -> tuple[Exchange, ...]:
    """Pair what was said elsewhere: what the user said, in one, with the answer. Prompts show that
    it is only claimed.
    """
    found: list[Exchange] = []
    said: list[str] = []
    for role, text in event.history:
        if role == "user":
            said.append(text)
        else:
            words = CLAIMED + "\n\n".join(said)
            heard = cut(words, event.kept_chars) if said else None
            found.append((heard, cut(CLAIMED + text, event.kept_chars)))
            said = []
    return tuple(found)


def _updated(session: Session, event: ev.Updated) -> Session:
    return replace(session, time=event.time, silence=None, spent=session.spent and {}, held=None)


def _run_resumed(session: Session, event: ev.RunResumed) -> Session:
    return replace(
        session,
        time=event.time,
        input=session.input if event.input is None else event.input,
        held=None,
    )


def _user_said(session: Session, event: ev.UserSaid) -> Session:
    return replace(
        _unheard(session) if event.early else session,
        user_input=event.text,
        time=event.time,
        turn=session.turn + 1,
        turns_in_state=session.turns_in_state + 1,
        silence=None,
        spent=session.spent and {},
        held=None,
    )


def _model_replied(session: Session, event: ev.ModelReplied) -> Session:
    """Count the message as one that brought nothing until something comes of it."""
    if event.asked_for != "turn" or session.user_input is None:
        return session
    # No turn has the number -1, so the first message is counted.
    count, turn = session.fruitless or (0, -1)
    # A turn may ask the model several times, and its message counts once.
    counted = session.fruitless if turn == session.turn else (count + 1, session.turn)
    return replace(session, fruitless=counted)


def _fruitful(session: Session) -> Session:
    """Return the session after something came of a message."""
    return replace(session, fruitless=(0, session.turn)) if session.fruitless else session


def _context_set(session: Session, event: ev.ContextSet) -> Session:
    touched = event.values.keys() | set(event.removed)
    origins = {**session.origins, **dict.fromkeys(event.values, (session.turn, event.source))}
    after = replace(
        session,
        context=_overlaid(session.context, event.values, event.removed),
        origins=_overlaid(origins, {}, event.removed),
        skipped=tuple(key for key in session.skipped if key not in touched),
        # A whole value, or none: what was begun of it is of no use any more.
        begun=_overlaid(session.begun, {}, touched),
        refusals=_overlaid(session.refusals, {}, touched),
    )
    if event.by:
        after = replace(
            after, made={**session.made, **dict.fromkeys(event.values, (event.source, event.by))}
        )
    # What the program sets says nothing about whether the user's message helped.
    return _fruitful(after) if event.source in ("model", "user", "tool") else after


def _unheard(session: Session) -> Session:
    """Return the session with a read-back to which no yes is good any more."""
    shown = session.read_back
    return session if shown is None else replace(session, read_back=replace(shown, heard=False))


def _context_refused(session: Session, event: ev.ContextRefused) -> Session:
    if event.begun is not None:
        session = _fruitful(replace(session, begun={**session.begun, event.key: event.begun}))
    if event.told and event.source == "model":
        count, turn = session.refusals.get(event.key, (0, -1))
        # Refusals are counted by turns: a second try of the same reply is no second mistake of the
        # user.
        if turn != session.turn:
            session = replace(
                session, refusals={**session.refusals, event.key: (count + 1, session.turn)}
            )
    return session


def _state_entered(session: Session, event: ev.StateEntered) -> Session:
    session = _step(session, event) if event.on_path else session
    return replace(
        session,
        state=event.state,
        previous_state=event.previous,
        turns_in_state=0,
        asides=0,
        fruitless=session.fruitless and (0, session.turn),
        unsaid=None,
        question="",
    )


def _reply_failed(session: Session, event: ev.ReplyFailed) -> Session:
    return replace(session, unsaid=session.turn) if event.state == session.state else session


def _step(session: Session, event: ev.StateEntered) -> Session:
    """Lengthen the path by one step, and cut the cycle that it closes."""
    # A move without a transition, such as a return, has nothing that could be walked again.
    path = (*session.path, (event.previous, event.transition)) if event.transition else session.path
    # A round begins and ends in the same state; what lies between is walked anew.
    again = next(
        (number for number, (state, _) in enumerate(path) if state == event.state), len(path)
    )
    taken = session.taken
    if taken and event.by != "correct":
        # A way that is taken now is no longer open, and after a round none of this flow is.
        others = tuple(one for one in taken if one[0] != session.flow)
        if again < len(path):
            taken = others
        else:
            taken_now = (session.flow, event.previous)
            taken = tuple(one for one in taken if one[:2] != taken_now)
    return replace(session, path=path[:again][-MAX_PATH:], taken=taken)


def _corrected(session: Session, event: ev.Corrected) -> Session:
    # A correction that cuts no step leaves the way as it is.
    if not event.cut:
        return session
    steps = {(flow, state): pointer for flow, state, pointer in session.taken}
    # The last way out of a state counts, so a later cut replaces an earlier one.
    steps |= {(session.flow, state): pointer for state, pointer in event.cut}
    return replace(
        session, taken=tuple((*place, pointer) for place, pointer in steps.items())[-MAX_PATH:]
    )


def _bot_said(session: Session, event: ev.BotSaid) -> Session:
    # What is kept for prompts may be without secrets. The record has the words as they were.
    user = session.user_input if event.kept_user is None else event.kept_user
    said = event.text if event.kept_text is None else event.kept_text
    exchange = (None if user is None else cut(user, event.kept_chars), cut(said, event.kept_chars))
    asked = session.asked
    if event.asked:
        asked = {**asked, **dict.fromkeys(event.asked, session.turn)}
    # A turn without a failure has said the fixed reply again.
    unsaid = session.unsaid if session.unsaid == session.turn else None
    # The machine may speak in between, and the person is still there.
    operator = event.by or session.operator
    window = (*session.window, exchange)
    session = _unheard(session)  # what was read back before is not said last any more
    question = event.question or session.question
    if session.misses is not None and session.misses[1] == session.turn:
        question = session.question  # a message that was not understood leaves it open
    return replace(
        session,
        window=window,
        user_input=None,
        asked=asked,
        unsaid=unsaid,
        operator=operator,
        question=question,
    )


def _values_read_back(session: Session, event: ev.ValuesReadBack) -> Session:
    """Keep what was read back. An earlier yes to one of its values is good for nothing now."""
    values = values_of(session.context, event.keys)
    keys = set(event.keys)
    agreed = tuple(
        one for one in session.agreed if one.flow != session.flow or keys.isdisjoint(one.keys)
    )
    return replace(session, read_back=ReadBack(state=event.state, values=values), agreed=agreed)


def _agreed(session: Session, event: ev.Agreed) -> Session:
    """Keep a yes, and drop earlier ones to the same keys."""
    keys = set(event.keys)
    # A later yes to all of its keys stands for the earlier one.
    earlier = tuple(one for one in session.agreed if not keys.issuperset(one.keys))
    # The number is part of the id: a second yes to the same values is another voucher.
    number = session.yeses + 1
    place = [session.origin or session.conversation_id, number, session.flow]
    named = json.dumps([*place, event.values], sort_keys=True)
    agreement = Agreement(
        keys=event.keys,
        values=event.values,
        turn=event.turn,
        flow=session.flow,
        by=event.by,
        words=event.words,
        id=sha256_of(named),
    )
    # Bounded, because a run without an end would make the session grow.
    agreed = (*earlier, agreement)[-_KEPT_AGREEMENTS:]
    return replace(session, agreed=agreed, yeses=number)


def _acted(session: Session, event: ev.Acted) -> Session:
    return replace(session, acts={**session.acts, event.key: event.result})


def _heard(session: Session, event: ev.WordsHeard) -> Session:
    """Show what was heard of the latest words of that text. Words that were trimmed show nothing.

    If the last words were cut before the last value that they read back, no yes is good.
    """
    window = list(session.window)
    # From the end: the same words may have been said before, and the last ones are meant.
    for place in range(len(window) - 1, -1, -1):
        user, said = window[place]
        if said == event.said:
            window[place] = (user, event.kept)
            if place == len(window) - 1 and not event.values:
                session = _unheard(session)
            break
    return replace(session, window=tuple(window))


def _tool_returned(session: Session, event: ev.ToolReturned) -> Session:
    """Keep what a tool gave for the next prompts; a task has its own record of it."""
    if session.work is not None or event.error is not None or event.result is None:
        return session
    text = in_unicode(event.result)
    result = event.result if len(text) <= _KEPT_CHARS else cut(text, _KEPT_CHARS)
    # By age and by number: a prompt has room for the latest results only.
    kept = [one for one in session.tool_results if one[0] > session.turn - KEPT_TURNS]
    return replace(
        session, tool_results=(*kept, (session.turn, event.name, result))[-_KEPT_RESULTS:]
    )


def _history_trimmed(session: Session, event: ev.HistoryTrimmed) -> Session:
    return replace(session, window=session.window[event.dropped :])


def _ended(session: Session, event: ev.Ended) -> Session:
    return replace(
        session,
        outcome=event.outcome,
        work=None,
        pause=None,
        reminders=(),
        spent=session.spent and {},
        silence=None,
    )


def _overlaid(old: JsonMap, values: JsonMap, removed: Iterable[str]) -> JsonDict:
    new = {**old, **values}
    for key in removed:
        new.pop(key, None)
    return new


def _secrets_given(session: Session, event: ev.SecretsGiven) -> Session:
    return replace(session, secrets=tuple(dict.fromkeys((*session.secrets, *event.texts))))


def _memory_set(session: Session, event: ev.MemorySet) -> Session:
    return replace(session, memory=_overlaid(session.memory, event.values, event.removed))


def _shared_set(session: Session, event: ev.SharedSet) -> Session:
    return replace(session, shared=_overlaid(session.shared, event.values, event.removed))


_CHECKED = ("context", "origins", "memory", "shared")


def _attempt_begun(session: Session, event: ev.AttemptBegun) -> Session:
    # A first attempt is a new visit of the state, so faults of the last visit are not its own.
    feedback = session.work.feedback if session.work is not None and event.attempt > 1 else ()
    work = Work(
        state=event.state,
        attempt=event.attempt,
        checkpoint=session.fields(_CHECKED),
        feedback=feedback,
    )
    return replace(session, work=work)


def _attempt_failed(session: Session, event: ev.AttemptFailed) -> Session:
    if session.work is None:
        return session
    # The next attempt begins without the calls of this one, and is told why it failed.
    work = None if event.last else replace(session.work, feedback=event.failures, loop=None)
    return replace(session, work=work, **session.work.checkpoint)


def _output(session: Session, event: ev.TaskPassed | ev.TaskExhausted) -> Session:
    return replace(session, input=event.output, work=None)


def _summarised(session: Session, event: ev.Summarised) -> Session:
    return replace(session, summary=event.summary)


def pause_of(event: ev.Paused) -> Paused:
    """Return the pause that an event begins."""
    return Paused(
        id=event.id,
        kind=event.kind,  # type: ignore[arg-type]
        what=event.what,
        state=event.state,
        call=event.call,
        schema=event.schema,
        expires=event.expires,
        messages=event.messages,
    )


def _paused(session: Session, event: ev.Paused) -> Session:
    work = session.work
    if event.loop is not None:
        # A state that talks has no work, but its loop of tools waits as well.
        work = replace(work or Work(state=event.state), loop=event.loop)
    return replace(
        session,
        pause=pause_of(event),
        reminders=event.reminders,
        work=work,
        spent=event.spent,
        operator="",
    )


def _over(session: Session, id: str, how: str, time: float) -> Session:
    turn = session.turn + 1
    return replace(
        session, pause=None, silence=None, reminders=(), settled=(id, how), time=time, turn=turn
    )


def _answered(session: Session, event: ev.Answered) -> Session:
    waited = session.pause is not None and session.pause.kind == "wait"
    after = _over(session, event.id, "answered", event.time)
    if waited:
        # What a wait state gets is the output of that state.
        return replace(after, input=event.value)
    work = session.work
    if work is None:
        return after
    # Work without an attempt was only there for the loop of tools.
    return replace(after, work=replace(work, loop=None) if work.attempt else None)


def _timed_out(session: Session, event: ev.TimedOut) -> Session:
    return _over(session, event.id, "expired", event.time)


def _reminded(session: Session, event: ev.Reminded) -> Session:
    if session.silence is not None:
        left = tuple(due for due in session.silence.reminders if due != event.due)
        session = replace(session, silence=replace(session.silence, reminders=left))
    return replace(session, reminders=tuple(due for due in session.reminders if due != event.due))


def _renamed(values: JsonMap, event: ev.Migrated) -> JsonDict:
    kept = without(values, event.keys)
    known = only(event.keys, values)
    # The renamed ones come last and win, because a new name may be known already.
    moved = {new: values[old] for old, new in known.items() if new is not None}
    return without({**kept, **moved}, event.removed)


def _renamed_read_back(shown: ReadBack | None, event: ev.Migrated) -> ReadBack | None:
    """Forget what was read back if a value of it is lost: nobody was shown what is left."""
    if shown is None:
        return None
    lost = {*event.removed, *(old for old, new in event.keys.items() if new is None)}
    if not lost.isdisjoint(shown.values):
        return None
    state = event.states.get(shown.state, shown.state)
    return replace(shown, state=state, values=_renamed(shown.values, event))


def _renamed_agreement(agreement: Agreement, event: ev.Migrated) -> Agreement:
    keys = _renamed(dict.fromkeys(agreement.keys), event)
    return replace(agreement, keys=tuple(keys), values=_renamed(agreement.values, event))


def _migrated(session: Session, event: ev.Migrated) -> Session:
    states, pause = event.states, session.pause
    return replace(
        session,
        definition=event.definition,
        state=states.get(session.state, session.state),
        previous_state=None
        if session.previous_state is None
        else states.get(session.previous_state, session.previous_state),
        context=_renamed(session.context, event),
        origins=_renamed(session.origins, event),
        pause=None if pause is None else replace(pause, state=states.get(pause.state, pause.state)),
        skipped=tuple(_renamed(dict.fromkeys(session.skipped), event)),
        begun=_renamed(session.begun, event),
        made=_renamed(session.made, event),
        read_back=_renamed_read_back(session.read_back, event),
        agreed=tuple(_renamed_agreement(one, event) for one in session.agreed),
        path=(),  # the path names transitions of the old definition
        taken=(),
        silence=None if event.unwatched else session.silence,
    )


def _flow_pushed(session: Session, event: ev.FlowPushed) -> Session:
    if event.kind == "digression":
        return _digression_begun(session, event)
    return replace(
        session,
        stack=(*session.stack, Frame(kind="subflow", saved=session.fields(OF_FLOW))),
        flow=event.flow,
        state=event.entered,
        previous_state=None,
        turns_in_state=0,
        asides=0,
        question="",
        context=dict(event.context),
        origins={key: (session.turn, source) for key, source in event.sources.items()},
        # A flow that does not share the history begins with none, and gives none back.
        window=session.window if event.history else (),
        summary="",
        begun={},
        made={},
        asked={},
        refusals={},
        read_back=None,
    )


def _digression_begun(session: Session, event: ev.FlowPushed) -> Session:
    # A digression into another definition saves all of this one, else only the place.
    across, main = event.caller is not None, not session.in_digression()
    session = _fruitful(replace(session, asides=session.asides + 1))
    frame = Frame(
        kind="digression",
        saved=session.fields(OF_FLOW if across else OF_PLACE),
        asked=event.asked,
        wanted=event.wanted,
        main=main or across,
        before=session.context if main or across else {},
        entered=event.entered,
        caller=event.caller,
    )
    # The digression works on the values of the definition that offers it.
    there = {} if event.caller is None else session.stack[event.caller].saved
    begun = replace(session, stack=(*session.stack, frame), **there)
    return _taken_up(replace(begun, window=session.window) if event.history else begun, frame)


def _taken_up(session: Session, begun: Frame) -> Session:
    """Remove the place in which the definition had left this digression open, before it called
    another one."""
    if begun.caller is None:
        return session
    waits = session.of_caller(begun.caller)
    number = waits.open_places().get(begun.entered)
    if number is None:
        return session
    return replace(
        session,
        stack=(*session.stack[:number], *moved_callers(session.stack[number + 1 :], number, -1)),
    )


def _flow_returned(session: Session, event: ev.FlowReturned) -> Session:
    # Only a frame with a number can have others above it.
    lowered = session.lowered(event.frame) if event.frame >= 0 else session
    frames = list(lowered.stack)
    # After lowering, the frame lies on top, whatever its number was.
    frame = frames.pop(-1 if lowered is not session else event.frame)
    # The waiting definition keeps the changes that the digression made.
    if frame.caller is not None:
        waits = frames[frame.caller]
        made = session.fields(name for name in OF_FLOW if name not in OF_PLACE)
        frames[frame.caller] = replace(waits, saved={**waits.saved, **made})
    back = replace(session, stack=tuple(frames), question=frame.asked, **frame.saved)
    return _fruitful(replace(back, window=session.window) if event.history else back)


def _answers_changed(session: Session, event: ev.AnswersChanged) -> Session:
    frames = list(session.stack)
    frame = frames[event.frame]
    origins = {
        **frame.saved["origins"],
        **dict.fromkeys(event.values, (session.turn, event.source)),
    }
    kept = {
        **frame.saved,
        "context": _overlaid(frame.saved["context"], event.values, event.removed),
        "origins": _overlaid(origins, {}, event.removed),
    }
    frames[event.frame] = replace(frame, saved=kept)
    return _fruitful(replace(session, stack=tuple(frames)))


def _repaired(session: Session, event: ev.Repaired) -> Session:
    """Count a digression that is answered aside; a message that is not understood brings
    nothing."""
    # The message did not belong to the state, so it counts no turn there.
    if event.pattern == "digress":
        session = replace(session, asides=session.asides + 1)
    if event.how == "asked":
        session = replace(session, losing=(session.turn, event.keys))
    return session if event.pattern == "cannot_handle" else _fruitful(session)


def _keys_skipped(session: Session, event: ev.KeysSkipped) -> Session:
    skipped = tuple(dict.fromkeys((*session.skipped, *event.keys)))
    return replace(session, skipped=skipped, question="")


def _missed(session: Session, event: ev.Missed) -> Session:
    return replace(session, misses=(event.count, session.turn))


def _restarted(session: Session, event: ev.Restarted) -> Session:
    # The purpose of the work outlives a new beginning, and the buckets do not.
    kept = session.memory.get("background")
    # A new beginning is always one of the started definition.
    root = session.root_frame()
    origins = session.origins if root is None else dict(root.saved["origins"])
    return Session(
        conversation_id=session.conversation_id,
        definition=session.definition,
        state=event.state,
        previous_state=session.state if root is None else root.saved["state"],
        turn=session.turn,
        context=dict(event.context),
        origins=only(origins, event.context),
        user_input=session.user_input,
        time=session.time,
        memory={} if kept is None else {"background": kept},
        spent=session.spent,
        yeses=session.yeses,
        acts=session.acts,
        origin=session.origin,
    )


def _silence_watched(session: Session, event: ev.SilenceWatched) -> Session:
    # A person who has taken over is waited for by the pause itself.
    if session.pause is not None:
        return replace(session, pause=replace(session.pause, expires=event.closes))
    return replace(session, silence=Silence(reminders=event.reminders, closes=event.closes))


def _turn_undone(session: Session, event: ev.TurnUndone) -> Session:
    before = session_from_dict(event.session)
    # What was given stays secret, and what was done stays done.
    return replace(before, secrets=session.secrets, acts=session.acts)


CHANGES: Mapping[type[ev.Event], Callable[[Session, Any], Session]] = {
    ev.Started: _started,
    ev.ReleaseChosen: _release_chosen,
    ev.UserSaid: _user_said,
    ev.Updated: _updated,
    ev.ModelReplied: _model_replied,
    ev.ContextSet: _context_set,
    ev.ContextRefused: _context_refused,
    ev.StateEntered: _state_entered,
    ev.ReplyFailed: _reply_failed,
    ev.BotSaid: _bot_said,
    ev.WordsHeard: _heard,
    ev.HistoryTrimmed: _history_trimmed,
    ev.ValuesReadBack: _values_read_back,
    ev.Agreed: _agreed,
    ev.Acted: _acted,
    ev.Ended: _ended,
    ev.TurnUndone: _turn_undone,
    ev.Migrated: _migrated,
    ev.RunResumed: _run_resumed,
    ev.ToolReturned: _tool_returned,
    ev.MemorySet: _memory_set,
    ev.SecretsGiven: _secrets_given,
    ev.SharedSet: _shared_set,
    ev.AttemptBegun: _attempt_begun,
    ev.AttemptFailed: _attempt_failed,
    ev.TaskPassed: _output,
    ev.TaskExhausted: _output,
    ev.Summarised: _summarised,
    ev.Paused: _paused,
    ev.Answered: _answered,
    ev.TimedOut: _timed_out,
    ev.Reminded: _reminded,
    ev.FlowPushed: _flow_pushed,
    ev.FlowReturned: _flow_returned,
    ev.AnswersChanged: _answers_changed,
    ev.Corrected: _corrected,
    ev.KeysSkipped: _keys_skipped,
    ev.Repaired: _repaired,
    ev.Missed: _missed,
    ev.Restarted: _restarted,
    ev.SilenceWatched: _silence_watched,
}
"""Event to the function that changes the session."""


def apply(session: Session, event: ev.Event) -> Session:
    """Return the session after an event. An event that only records a fact leaves it unchanged."""
    change = CHANGES.get(type(event))
    return session if change is None else change(session, event)


def fold(session: Session, events: ev.Events) -> Session:
    """Return the session after all events, in order."""
    return reduce(apply, events, session)
