"""Processes that begin with the modules of the benchmarks imported already."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

_IMPORTED = ["benchmarks.server", "benchmarks.turns"]


def forks() -> ForkServerContext:
    """Return a context whose processes are forks of one that has imported what they need.

    That process has no other threads and no sockets, so a fork of it measures as a new one does.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context
