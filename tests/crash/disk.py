"""A conversation on a disk that fails: `python disk.py full|unsafe DATABASE FLAG`, told in lines of
JSON.

full: no file may be written to beyond a limit. unsafe: while the file FLAG exists, a preloaded
library (`fsync.c`) lets every fsync fail. In both the conversation is tried until a turn fails,
then the disk is mended and the turn sent again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from audit import faults
from bot import TURNS, machine, message
from ledger import Ledger
from llm_fsm.errors import StoreError
from llm_fsm.stores.base import OutboxQuery
from llm_fsm.stores.sqlite import SQLiteStore
from probes import Probe

FREE = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
LIMIT = 50_000
"""Bytes, fewer than the log's frames take with the schema alone: a log that is longer than its
frames is full, too.
"""


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def break_disk(role: str, database: Path, flag: Path) -> None:
    if role == "unsafe":
        flag.touch()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, FREE[1]))


def mend_disk(flag: Path) -> None:
    flag.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, FREE)


async def main(role: str, database: Path, flag: Path) -> None:
    ledger = Ledger(database.with_suffix(".ledger"))
    shop = machine(SQLiteStore(database), ledger, Probe())
    ledger.write("sent", c="c", turn=0)
    chat = await shop.start(conversation_id="c", greet=False)
    failed = 0
    for turn in range(1, TURNS + 1):
        if turn == 2:
            break_disk(role, database, flag)
        ledger.write("sent", c="c", turn=turn)
        try:
            reply = await chat.send(message(turn), request_id=f"m{turn}")
        except StoreError as error:
            failed = turn
            tell(error=str(error), retryable=error.retryable)
            mend_disk(flag)
            ledger.write("sent", c="c", turn=turn)
            reply = await chat.send(message(turn), request_id=f"m{turn}")
        ledger.write("ack", c="c", turn=turn, text=reply.text)
    await chat.refresh()
    tell(failed=failed, ended=chat.ended, version=len(await chat.turns()))
    # A sink whose row could not be dropped is told again after a while.
    while await shop.store.outbox(OutboxQuery(sink="booked")):
        await asyncio.sleep(0.02)
    await shop.close()
    tell(faults=await faults(ledger, SQLiteStore(database)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
