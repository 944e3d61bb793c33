"""What a collector receives over HTTP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from llm_fsm import Machine
from llm_fsm.telemetry.export import export
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER


@contextmanager
def collector() -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    """A collector on a free port: its address, and the bodies that it received by path."""
    received: dict[str, list[bytes]] = {}

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            received.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_collector_gets_the_spans_and_metrics_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "front desk")
        end = export()
        with Machine.from_dict(
            GREETER, model=ScriptedLLM([reply("bye", "Bye.", name="Ada")])
        ) as machine:
            assert machine.start(greet=False).send("I am Ada").state == "bye"
        end()
    traces = [ExportTraceServiceRequest.FromString(body) for body in received["/v1/traces"]]
    resources = [resource for trace in traces for resource in trace.resource_spans]
    spans = [
        span for resource in resources for scope in resource.scope_spans for span in scope.spans
    ]
    assert {"invoke_agent greeter"} <= {span.name for span in spans}
    assert {
        a.value.string_value
        for r in resources
        for a in r.resource.attributes
        if a.key == "service.name"
    } == {"front desk"}
    assert all(b"Ada" not in body for bodies in received.values() for body in bodies)
    points = [ExportMetricsServiceRequest.FromString(body) for body in received["/v1/metrics"]]
    names = {
        m.name
        for p in points
        for r in p.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
    }
    assert "gen_ai.client.operation.duration" in names
