"""END_CONVERSATION handlers: they run after the end is on record, and again if a crash prevented
that.

The turn that ended the conversation writes a row into the store's outbox. The row says that they
are still to run.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

from llm_fsm.engine.deployment import Deployment
from llm_fsm.engine.outbox.sinks import exclusive
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.errors import StoreError
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.stores.base import END_HANDLERS, OutboxQuery, Posted
from llm_fsm.tools.failures import log_failure
from llm_fsm.turn.effects import Point, RunHandlers
from llm_fsm.turn.failures import redacted_failure
from llm_fsm.turn.turn_state import TurnState

_PAGE = 100


async def run_end_handlers(deployment: Deployment, result: TurnResult) -> None:
    """Run the handlers after a turn that ended its conversation. Their results are not stored.

    A store that fails now fails no turn, because the turn is on record. The handlers then run with
    `run_due`, or when the machine starts next.
    """
    if not result.session.ended or Point.END_CONVERSATION not in deployment.capabilities.points:
        return
    name = result.session.conversation_id
    try:
        await close_conversation(deployment, name)
    except StoreError as error:
        says = (
            f"END_CONVERSATION handlers of the conversation {name!r} are still to run, "
            f"or to be ticked off: {error}"
        )
        warnings.warn(says, RuntimeWarning, stacklevel=2)


async def close_conversation(deployment: Deployment, conversation_id: str) -> None:
    """Run the handlers that are still to run.

    Raises:
        HandlerError: A handler failed. It counts as run.
    """
    store = deployment.store
    async with store.lock(exclusive(END_HANDLERS, conversation_id), deployment.timeout):
        owed = await store.outbox(OutboxQuery(sink=END_HANDLERS, conversation_id=conversation_id))
        for row in owed[-1:]:  # earlier ends were undone, and are acknowledged with the last one
            await _run(deployment, row)


async def run_forgotten_end_handlers(deployment: Deployment) -> None:
    """Run them for every conversation of this machine that ended in a process that died."""
    query = OutboxQuery(sink=END_HANDLERS, limit=_PAGE, definition=deployment.name)
    while rows := await deployment.store.outbox(query):
        for name in dict.fromkeys(row.conversation_id for row in rows):
            await close_conversation(deployment, name)
        query = replace(query, after=rows[-1].conversation_id)


async def _run(deployment: Deployment, row: Posted) -> None:
    loaded = await deployment.store.load(row.conversation_id)
    session = None
    if loaded is not None:
        session, _ = await SessionReader(deployment.store).read(row.conversation_id, loaded.session)
    if session is not None and session.ended:  # the turn that ended it may have been undone
        effect = RunHandlers(
            point=Point.END_CONVERSATION,
            session=session,
            number=row.number,
            text=json.loads(row.text)["text"],
        )
        try:
            done = await deployment.run_handlers(effect, None)
            for result in done.results:
                _log(deployment, session, result.failed)
        except Exception as error:  # a handler that fails is not called again
            _log(deployment, session, getattr(error, "failed", None))
            await deployment.store.acknowledge(row)
            raise
    await deployment.store.acknowledge(row)


def _log(deployment: Deployment, session: Session, failed: ev.FunctionFailed | None) -> None:
    """Log a handler that failed. The turn is on record already, so nothing is added to it."""
    if failed is not None:
        turn = TurnState(deployment.program, session)
        log_failure(session.conversation_id, redacted_failure(turn, failed))
