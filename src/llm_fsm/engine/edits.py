"""Edits between turns: close a conversation, undo its last turn, record what was heard, migrate it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from llm_fsm.engine.engine import Engine, after_turn
from llm_fsm.engine.handlers.end import run_end_handlers
from llm_fsm.engine.recovery import under_way
from llm_fsm.engine.turn_runner import LoadedSession, TurnResult, TurnRunner
from llm_fsm.errors import ConversationConflict
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import session_to_dict
from llm_fsm.session.turn_record import TurnRecord, replay, without_undone
from llm_fsm.stores.base import checked_id
from llm_fsm.turn.heard import heard_event


@asynccontextmanager
async def _edit(
    engine: Engine, conversation_id: str
) -> AsyncGenerator[tuple[TurnRunner, LoadedSession]]:
    """Lock a conversation, and finish its interrupted turn, which an edit must not overtake.

    Yields the runner that commits the edit, and the session before it. If the definition of the
    conversation is unknown, the machine's own one commits.
    """
    turn = TurnRunner(engine.versions.current, checked_id(conversation_id, "conversation id"))
    async with turn.lock():
        loaded, _ = await engine.read_for(conversation_id)
        deployment = await engine.versions.find(loaded.session.definition)
        # An unknown definition has no turn that this machine could finish.
        if deployment is not None:
            turn.host = deployment
            if deployment.journals or loaded.has_journal:
                loaded = after_turn(loaded, await engine.finish(deployment, loaded))
        yield turn, loaded


async def end(engine: Engine, conversation_id: str) -> TurnResult:
    """Close a conversation for good. Closing it twice is the same as once."""
    async with _edit(engine, conversation_id) as (turn, loaded):
        session = loaded.session
        if session.ended:
            over = TurnRecord(kind="end", turn=session.turn, usage=Usage(), events=())
            return TurnResult(record=over, session=session)
        turn.take((ev.Ended(outcome="host"),))
        session = fold(session, turn.events)
        result = await turn.commit("end", session, loaded, Usage())
    await run_end_handlers(engine.versions.current, result)
    return result


async def undo(engine: Engine, conversation_id: str) -> TurnResult:
    """Undo the last turn.

    Raises:
        ConversationConflict: There is none.
    """
    async with _edit(engine, conversation_id) as (turn, loaded):
        kept = without_undone(await engine.records(conversation_id))
        # These records are about a turn, and are no turn of their own.
        while kept and kept[-1][1].kind in ("migrate", "heard"):
            kept.pop()
        if len(kept) < 2 or kept[-1][1].kind == "start":
            raise ConversationConflict("there is no turn to take back; send a message first")
        number, _ = kept[-1]
        session = replay(conversation_id, [record for _, record in kept[:-1]])
        found = await engine.versions.find(session.definition)
        # The session would go back to a definition that nobody can play.
        if found is None and session.definition != loaded.session.definition:
            raise ConversationConflict(
                "the turn cannot be undone: its definition is not known any more. Open the "
                "conversation with the definition of that turn"
            )
        # The record belongs to the definition that the conversation returns to.
        turn.host = found or turn.host
        turn.take((ev.TurnUndone(record=number, session=session_to_dict(session)),))
        session = fold(loaded.session, turn.events)
        return await turn.commit("undo", session, loaded, Usage())


async def heard(
    engine: Engine, conversation_id: str, number: int, text: str, *, instead: bool = False
) -> TurnResult:
    """Record what the user heard of a turn, before something interrupted it; or `instead` of it.

    Raises:
        ValueError: There is no such turn.
    """
    async with _edit(engine, conversation_id) as (turn, loaded):
        records = await engine.records(conversation_id)
        event = heard_event(
            turn.host.program, loaded.session, records, number, text, instead=instead
        )
        turn.take((event,))
        session = fold(loaded.session, turn.events)
        return await turn.commit("heard", session, loaded, Usage())


async def migrate(engine: Engine, conversation_id: str, *, dry: bool) -> ev.Migrated | str | None:
    """Move a conversation to the machine's own definition. `dry`: only plan it.

    Returns:
        The event. A sentence if the conversation stays on its own definition. None if it is
        over or runs on this definition already.
    """
    checked_id(conversation_id, "conversation id")
    async with engine.store.lock(conversation_id, engine.services.timeout):
        loaded, _ = await engine.read_for(conversation_id)
        found = await engine.versions.carried(loaded.session)
        # Nothing was changed until here.
        if found is None or isinstance(found, str) or dry:
            return found
        if (await under_way(engine.store, conversation_id)).first is not None:
            return "one of its turns was interrupted, and is to be finished first"
        await engine.migrate_to(loaded, found)
        return found
