"""Export by OTLP over HTTP, configured by the OTEL_… variables, for `llm-fsm serve --otel`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from llm_fsm.errors import ConfigurationError
from llm_fsm.telemetry.instrument import instrument


def export(*, content: bool = False) -> Callable[[], None]:
    """Send traces and metrics to a collector: OTEL_EXPORTER_OTLP_ENDPOINT, else
    http://localhost:4318.

    Args:
        content: True also sends texts, as in `instrument`.

    Returns:
        A function that sends the rest and ends the export.

    Raises:
        ConfigurationError: The extra `otel` is not installed.
    """
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter") is None:
        raise ConfigurationError(
            "exporting needs the extra otel: pip install 'llm-fsm-runtime[otel]'"
        )
    sdk_trace = import_module("opentelemetry.sdk.trace")
    trace_export = import_module("opentelemetry.sdk.trace.export")
    sdk_metrics = import_module("opentelemetry.sdk.metrics")
    metrics_export = import_module("opentelemetry.sdk.metrics.export")
    spans = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    points = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    resources = import_module("opentelemetry.sdk.resources")
    resource = resources.Resource.create({"service.name": "llm-fsm"}).merge(
        resources.OTELResourceDetector().detect()
    )
    tracers = sdk_trace.TracerProvider(resource=resource)
    tracers.add_span_processor(trace_export.BatchSpanProcessor(spans.OTLPSpanExporter()))
    reader = metrics_export.PeriodicExportingMetricReader(points.OTLPMetricExporter())
    meters = sdk_metrics.MeterProvider(metric_readers=[reader], resource=resource)
    stop = instrument(tracer_provider=tracers, meter_provider=meters, content=content)

    def end() -> None:
        stop()
        tracers.shutdown()
        meters.shutdown()

    return end
