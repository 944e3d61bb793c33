"""Event loops that a forked child has from its parent.

The two share what a loop waits for: closing a connection in the child would take it off the parent's list, and the
parent would wait for its answer in vain.
"""

from __future__ import annotations

import asyncio
import selectors

_PARENTS: list[object] = []
"""What is never freed in the child: loops, tasks and threads of the parent, which would clear up after themselves."""


def left(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """A closed loop in place of the parent's, which is the same one where it can be closed without harm."""
    _PARENTS.append(loop)
    if not isinstance(loop, asyncio.SelectorEventLoop):
        loop = asyncio.SelectorEventLoop()
    else:
        _PARENTS.extend((asyncio.all_tasks(loop), loop._default_executor))  # type: ignore[attr-defined]
        loop._selector.close()  # type: ignore[attr-defined]
        loop._selector = selectors.SelectSelector()  # type: ignore[attr-defined]
        loop._default_executor = loop._thread_id = None  # type: ignore[attr-defined]
    loop.close()
    return loop
