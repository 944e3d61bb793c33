"""`llm-fsm conversations replay`."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict

import click

from llm_fsm._json import JsonDict
from llm_fsm.cli import pick as choice
from llm_fsm.cli.exit_codes import Failure, failing
from llm_fsm.cli.options import command, db_option, json_option
from llm_fsm.cli.stores import known_id, meant, open_existing, tell_unlisted, unlisted
from llm_fsm.cli.terminal import console, escape
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.model_call import ask
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM, let_go
from llm_fsm.llm.registry import resolve
from llm_fsm.records.replay import Divergence, ReplayResult, recorded_tools, replay_turns
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import AskModel

_TIMEOUT = 120.0


@command("llm-fsm conversations replay flow.json", name="replay")
@click.argument("file", metavar="FILE")
@click.argument("conversation_ids", metavar="[ID]...", nargs=-1, type=known_id)
@click.option(
    "--model", metavar="NAME", help="Ask this model instead of taking the replies on record."
)
@json_option
@db_option
def replay(
    *, file: str, conversation_ids: Sequence[str], model: str | None, as_json: bool, db: str | None
) -> int:
    """Play conversations again on FILE: which go another way?

    It is told where each does so first. Messages, replies of the model and results of tools are
    those on record; nothing is stored. Without an ID all conversations of FILE's machine are
    played. Exit code 1 when one goes another way.
    """
    path = choice.located(file)
    machine = AsyncMachine(
        choice.opened(path), model="offline", store="memory", file=path, allow_unsafe=True
    )
    llm = None if model is None else resolve(model, environ=os.environ)
    store = open_existing(db)
    found: list[ReplayResult] = []
    left: Sequence[str] = ()
    if store is not None:
        found, left = asyncio.run(_replayed(machine.program, store, conversation_ids, llm))
    differing = [_line(item.conversation_id, item.divergence) for item in found if item.divergence]
    if as_json:
        console.json({"conversations": [asdict(item) for item in found], **_numbers(found)})
    else:
        console.out(*differing)
    console.note(_summary(found))
    tell_unlisted(left)
    return 1 if differing else 0


async def _replayed(
    program: CompiledMachine, store: Store, ids: Sequence[str], llm: LLM | None
) -> tuple[list[ReplayResult], Sequence[str]]:
    kit = recorded_tools(program)

    async def asks(effect: AskModel) -> ModelReply:
        assert llm is not None
        return await ask(llm, effect, _TIMEOUT, _TIMEOUT)

    found = []
    try:
        async with aclosing(meant(store, ids, program.definition.name)) as names:
            async for name in names:
                records = [parse(text) for text in await store.records(name)]
                if not records:
                    raise Failure(f"there is no conversation {name!r} in this store")
                with failing(ModelError, place=f"{name}: ", code=3):
                    played = await replay_turns(
                        program, kit, name, records, None if llm is None else asks
                    )
                found.append(played)
        return found, () if ids else await unlisted(store)
    finally:
        await let_go(llm)
        await store.close()


def _line(name: str, divergence: Divergence) -> str:
    was, now = escape.shortened(divergence.was, 80), escape.shortened(divergence.now, 80)
    return f"{name}: turn {divergence.turn}: {divergence.what}: {was} → {now}"


def _numbers(found: Sequence[ReplayResult]) -> JsonDict:
    kinds = Counter(item.divergence.what for item in found if item.divergence is not None)
    return {
        "turns": sum(item.turns for item in found),
        "diverging": kinds.total(),
        "by": dict(kinds),
    }


def _summary(found: Sequence[ReplayResult]) -> str:
    if not found:
        return "there are no conversations of this definition"
    numbers = _numbers(found)
    head = f"{escape.plural(len(found), 'conversation')}, {escape.plural(numbers['turns'], 'turn')} played: "
    if not numbers["diverging"]:
        return f"{head}all go the same way"
    kinds = ", ".join(f"{count:,} by {what}" for what, count in sorted(numbers["by"].items()))
    return f"{head}{numbers['diverging']:,} go another way ({kinds})"
