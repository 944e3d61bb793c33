"""Turns that no caller waits for: what a dead process left, and messages that were accepted."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, suppress

from llm_fsm._json import JsonMap, in_unicode
from llm_fsm._text import visible
from llm_fsm.engine.accepted import claim, next_accepted, refuse, user_message
from llm_fsm.engine.deployment import Deployment
from llm_fsm.engine.engine import ENDS, Engine, NothingDueError
from llm_fsm.engine.handlers.end import run_end_handlers
from llm_fsm.engine.journal import LOGGER, MOST_DEATHS, TurnParked
from llm_fsm.engine.recovery import (
    LeftTurn,
    UnderWay,
    interrupted_start,
    left_turn,
    only_talked,
    start_identity,
)
from llm_fsm.engine.turn_runner import LoadedSession, TurnResult, TurnRunner
from llm_fsm.engine.validation import checked_trigger
from llm_fsm.errors import ConfigurationError, ConversationConflict, ConversationError, StoreError
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.session.session import Session
from llm_fsm.stores.base import PARKED, AcceptedMessage, Loaded, Store, checked_id, storable
from llm_fsm.turn.pipeline import Due, Opening


async def take_up(
    engine: Engine, conversation_id: str, now: float | None = None
) -> TurnResult | None:
    """Finish the turn that a process left, if nobody alive plays it; else perform what is due;
    else answer the next accepted message.

    After three attempts that ended their process, the turn is parked instead. A turn that this
    host cannot play, for example without its tool, is left alone.

    Args:
        conversation_id: The conversation, as `Store.unfinished` or `Store.due` found it.
        now: Time-outs, reminders and accepted messages up to this time are performed, too, in
            seconds since the epoch; None: none.

    Returns:
        The turn; None if there was none to take up, or another process was faster.
    """
    checked_id(conversation_id, "conversation id")
    async with AsyncExitStack() as held:
        try:
            await held.enter_async_context(engine.store.lock(conversation_id, 0.0))
        except StoreError as error:
            if error.retryable:  # busy: its process lives
                return None
            raise
        result = await _take_up(engine, conversation_id)
        if result is not None or now is None:
            return result
        with suppress(NothingDueError, ConfigurationError):
            await engine.prepare()
            return await engine.take_due(conversation_id, Due(time=now))
        return await _take_accepted(engine, conversation_id, now)


async def _take_up(engine: Engine, conversation_id: str) -> TurnResult | None:
    left = left_turn(await journal_entries(engine.store, conversation_id))
    if left is None or left.retry_at > engine.now():
        return None
    first = left.first
    stored = await engine.store.load(conversation_id, first.get("request_id"))
    # A start has no conversation yet, so the store can have none unless somebody else began it.
    if first["kind"] == "start":
        return None if stored is not None else await _take_up_start(engine, conversation_id, left)
    # The conversation is gone, or another process has finished the turn.
    if stored is None or stored.recorded is not None:
        return None
    loaded, _ = await engine.read(conversation_id, stored)
    deployment = await _able(engine, loaded.session, talks=only_talked(first))
    if deployment is None or await _park(engine, conversation_id, left):
        return None
    found = UnderWay(first, must=True)
    result = await engine.finish(deployment, loaded, found)
    if result is None:  # it answers a pause that is over, so nobody can ever play it
        await engine.store.forget_journal(conversation_id)
    return result


async def _take_up_start(engine: Engine, conversation_id: str, left: LeftTurn) -> TurnResult | None:
    deployment = await engine.versions.find(left.first.get("sha", ""))
    if deployment is None or not await _is_able(deployment):
        return None
    if await _park(engine, conversation_id, left):
        return None
    opening = interrupted_start(conversation_id, left.first)
    return await _start_unattended(engine, deployment, opening, left.first)


async def _start_unattended(
    engine: Engine, deployment: Deployment, opening: Opening, entry: JsonMap | None = None
) -> TurnResult:
    """Begin a conversation whose own caller is not there, under its lock."""
    running = TurnRunner(deployment, opening.conversation_id, alone=True)
    named = start_identity(deployment.program, opening) if entry is None else entry
    try:
        result = await engine.begin(running, deployment, opening, named)
    except (Exception, *ENDS) as error:
        await running.erred(error)
        raise
    await run_end_handlers(deployment, result)
    return result


async def _take_accepted(engine: Engine, conversation_id: str, now: float) -> TurnResult | None:
    """Answer the next accepted message, under the lock; None if there is none, or not here."""
    store = engine.store
    # Messages that are answered already are dropped until one is left to answer.
    while (message := await next_accepted(store, conversation_id, now)) is not None:
        stored = await engine.store.load(conversation_id, message.request_id)
        if stored is None or stored.recorded is None:
            return await _answer_accepted(engine, store, message, stored)
        await store.drop_accepted(conversation_id, message.request_id)
    return None


async def _answer_accepted(
    engine: Engine, store: Store, message: AcceptedMessage, stored: Loaded | None
) -> TurnResult | None:
    conversation_id = message.conversation_id
    entries = await journal_entries(engine.store, conversation_id)
    if entries and (left_turn(entries) is not None or entries[-1]["kind"] == PARKED):
        return None  # the turn before it is not finished
    loaded = await _read_or_begin(engine, store, message, stored)
    if loaded is None:
        return None
    trigger = user_message(message, engine.now())
    try:
        deployment, loaded = await engine.ready(loaded, trigger)
    except TurnParked:
        return None
    try:
        checked_trigger(deployment.program, loaded.session, trigger, None)
    except (ConversationError, ValueError) as error:
        await refuse(store, message, str(error))
        return None
    # Claimed last, when nothing stands against the turn: a claimed message is not cancelled any
    # more.
    if not await claim(store, message):
        return None
    running = TurnRunner(deployment, conversation_id, alone=deployment.program.alone)
    result = await engine.play_unattended(running, deployment, loaded, trigger, durable=True)
    # After the commit. A crash in between is harmless, because the request id is known by then.
    await store.drop_accepted(conversation_id, message.request_id)
    return result


async def _read_or_begin(
    engine: Engine, store: Store, message: AcceptedMessage, stored: Loaded | None
) -> LoadedSession | None:
    """Return the conversation of an accepted message. If there is none, it begins without a
    greeting. None: this host cannot play it, or the message was cancelled."""
    if stored is not None:
        loaded, _ = await engine.read(message.conversation_id, stored)
        return None if await _able(engine, loaded.session, talks=True) is None else loaded
    if storable(engine.versions.current.name) != message.definition:
        return None
    opening = Opening(conversation_id=message.conversation_id, time=engine.now(), greet=False)
    try:
        deployment, opening = await engine.versions.begun(opening)
    except ConfigurationError:
        return None
    if not await claim(store, message):
        return None
    await _start_unattended(engine, deployment, opening)
    loaded, _ = await engine.read_for(message.conversation_id)
    return loaded


async def _able(engine: Engine, session: Session, *, talks: bool = False) -> Deployment | None:
    """Find the version that plays a conversation here; None if this host cannot play it.

    `talks`: the turn needs no handlers, so that a host without any can play it.
    """
    try:
        deployment = await engine.versions.of(session)
    except (ConfigurationError, ConversationConflict):
        return None
    if deployment is None or deployment.name != engine.versions.current.name:
        return None
    is_able = deployment.program.knows(session) and await _is_able(deployment, talks=talks)
    return deployment if is_able else None


async def _park(engine: Engine, conversation_id: str, left: LeftTurn) -> bool:
    """Park a turn that has ended too many processes; return true if it has."""
    # A turn that ends its process each time would end all workers, one after the other.
    if left.deaths < MOST_DEATHS:
        return False
    entries = await journal_entries(engine.store, conversation_id)
    step = 1 + max(entry["step"] for entry in entries)
    entry = {"kind": PARKED, "time": engine.now(), "step": step}
    await engine.store.journal(conversation_id, step, in_unicode(entry))
    logging.getLogger(LOGGER).error(
        "a turn of conversation %s ended %d processes and is parked; see to the cause, then "
        "run: llm-fsm conversations retry",
        visible(conversation_id),
        MOST_DEATHS,
    )
    return True


async def _is_able(deployment: Deployment, *, talks: bool = False) -> bool:
    """Return true if this host has every tool and function of a deployment, and keeps journals.

    `talks`: it need not keep them.
    """
    try:
        await deployment.prepare()
    except ConfigurationError:
        return False
    return talks or deployment.journals
