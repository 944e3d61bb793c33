"""`/metrics` for Prometheus: turns, model calls, tools, requests and streams of this process, or of
all its workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fastapi import APIRouter, Request
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response
from starlette.types import Scope

from llm_fsm import events as ev
from llm_fsm import observe
from llm_fsm.engine.observers import TurnAborted, TurnSaved
from llm_fsm.server.rest import caller_of
from llm_fsm.server.rights import check
from llm_fsm.server.service import PLAYS, Service

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

_COUNTED = (
    ev.ModelReplied,
    ev.ToolReturned,
    ev.StateEntered,
    ev.MoveRefused,
    ev.ContextRefused,
    ev.LimitReached,
)


class Metrics:
    """Counts events from `start` on."""

    def __init__(self, service: Service) -> None:
        kept = self.registry = CollectorRegistry()
        self._service = service
        self._begun: dict[str, list[ev.Event]] = {}
        per_turn = ("definition", "state", "release", "arm")
        self.turns = Counter("llm_fsm_turns", "Turns on record", (*per_turn, "kind"), registry=kept)
        self.aborted = Counter(
            "llm_fsm_turns_aborted", "Turns not finished", ("definition", "error"), registry=kept
        )
        self.seconds = Histogram(
            "llm_fsm_turn_seconds",
            "Duration of turns",
            ("definition",),
            buckets=_SECONDS,
            registry=kept,
        )
        self.calls = Counter(
            "llm_fsm_model_calls",
            "Model calls",
            ("definition", "model", "asked_for"),
            registry=kept,
        )
        self.tokens = Counter("llm_fsm_tokens", "Tokens", (*per_turn, "type"), registry=kept)
        self.cost = Counter("llm_fsm_cost_dollars", "Cost", per_turn, registry=kept)
        self.tools = Counter(
            "llm_fsm_tool_calls", "Calls of tools", ("definition", "tool", "failed"), registry=kept
        )
        self.moves = Counter(
            "llm_fsm_transitions", "Moves", ("definition", "from", "to", "by"), registry=kept
        )
        self.refusals = Counter(
            "llm_fsm_refusals",
            "Moves and values that were refused",
            ("definition", "what"),
            registry=kept,
        )
        self.misses = Counter(
            "llm_fsm_misses", "Messages that nothing came of", ("definition",), registry=kept
        )
        self.limits = Counter(
            "llm_fsm_limits_reached",
            "Turns that a limit stopped",
            ("definition", "per", "limit"),
            registry=kept,
        )
        self.requests = Counter(
            "llm_fsm_http_requests", "Requests", ("method", "route", "status"), registry=kept
        )
        self.answers = Histogram(
            "llm_fsm_http_seconds",
            "Until an answer is complete",
            ("route",),
            buckets=_SECONDS,
            registry=kept,
        )
        streams = Gauge(
            "llm_fsm_open_streams", "Open streams", registry=kept, multiprocess_mode="livesum"
        )
        streams.set_function(lambda: service.gauge.streams)
        self.router = APIRouter()

        @self.router.get("/metrics")
        async def read(request: Request) -> Response:
            check(caller_of(request), "metrics", "read the figures of all")
            return Response(self.text(), media_type=CONTENT_TYPE_LATEST)

    def text(self) -> bytes:
        """Return the figures in Prometheus's format."""
        if os.environ.get(MULTIPROCESS):
            gathered = CollectorRegistry()
            MultiProcessCollector(gathered)  # type: ignore[no-untyped-call]
            return generate_latest(gathered)
        return generate_latest(self.registry)

    def start(self) -> Callable[[], None]:
        """Begin to count. The returned function ends it."""
        return observe(self._take)

    def answered(self, scope: Scope, status: int, seconds: float) -> None:
        """Count an answer."""
        route = scope.get("route")
        path = str(getattr(route, "path", "other"))
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.requests.labels(method, path, str(status)).inc()
        self.answers.labels(path).observe(seconds)

    def _take(self, conversation_id: str, event: ev.Event) -> None:
        # all machines of the process are observed, and a caller's tests, too
        if PLAYS.get() is not self._service:
            return
        match event:
            case TurnSaved():
                usage = event.usage
                place = (event.definition, event.state, event.release, event.arm)
                self.turns.labels(*place, event.kind).inc()
                self.seconds.labels(event.definition).observe(event.seconds)
                self.misses.labels(event.definition).inc(event.missed)
                if usage.calls:
                    self.tokens.labels(*place, "input").inc(usage.input_tokens)
                    self.tokens.labels(*place, "output").inc(usage.output_tokens)
                    self.cost.labels(*place).inc(usage.cost)
            case TurnAborted():
                self.aborted.labels(event.definition, event.error).inc()
            case _:
                # only the end of a turn names its definition
                if isinstance(event, _COUNTED):
                    self._begun.setdefault(conversation_id, []).append(event)
                return
        for one in self._begun.pop(conversation_id, ()):
            self._count(event.definition, one)

    def _count(self, definition: str, event: ev.Event) -> None:
        match event:
            case ev.ModelReplied():
                self.calls.labels(definition, event.model, event.asked_for).inc()
            case ev.ToolReturned():
                failed = str(event.error is not None).lower()
                self.tools.labels(definition, event.name, failed).inc()
            case ev.StateEntered():
                self.moves.labels(definition, event.previous, event.state, event.by).inc()
            case ev.MoveRefused():
                self.refusals.labels(definition, "move").inc()
            case ev.ContextRefused():
                self.refusals.labels(definition, "value").inc()
            case ev.LimitReached():
                self.limits.labels(definition, event.per or "run", event.limit).inc()
