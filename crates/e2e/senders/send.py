"""Sends spans, data points and log records with the OpenTelemetry SDK of Python, and prints what it sent.

Usage: send.py grpc|http none|gzip ENDPOINT [environment]

With `environment` the sender says of itself only what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say.

Standard output is one JSON object: for each stored signal the records that the SDK handed to its exporter, under the column names
of a datapack. Times are nanoseconds since 1970. The exit code is 1 when an export failed.
"""

import json
import sys
import time

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode

SECOND = 1_000_000_000
# Records from the network must be near the clock.
START = (int(time.time()) - 60) * SECOND + 123_456_789
BOUNDS = [0.005, 0.25, 1.0, 10.0]
FAILED = []


class Spans(SpanExporter):
    """Keeps what the SDK exports and passes it on."""

    def __init__(self, inner):
        self.inner, self.kept = inner, []

    def export(self, spans):
        self.kept.extend(spans)
        result = self.inner.export(spans)
        if result is not SpanExportResult.SUCCESS:
            FAILED.append("spans")
        return result


class Logs(LogRecordExporter):
    def __init__(self, inner):
        self.inner, self.kept = inner, []

    def export(self, batch):
        self.kept.extend(batch)
        result = self.inner.export(batch)
        if result is not LogRecordExportResult.SUCCESS:
            FAILED.append("logs")
        return result

    def shutdown(self):
        self.inner.shutdown()

    def force_flush(self, timeout_millis=10_000):
        return True


class Points(MetricExporter):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.kept = inner, []

    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        self.kept.append(metrics_data)
        result = self.inner.export(metrics_data, timeout_millis=timeout_millis, **kwargs)
        if result is not MetricExportResult.SUCCESS:
            FAILED.append("metrics")
        return result

    def shutdown(self, timeout_millis=30_000, **kwargs):
        self.inner.shutdown(timeout_millis=timeout_millis, **kwargs)

    def force_flush(self, timeout_millis=10_000):
        return True


def exporters(protocol, compression, endpoint):
    if protocol == "grpc":
        from grpc import Compression
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        kind = {"none": Compression.NoCompression, "gzip": Compression.Gzip}[compression]
        settings = {"endpoint": endpoint, "insecure": True, "compression": kind}
        return OTLPSpanExporter(**settings), OTLPMetricExporter(**settings), OTLPLogExporter(**settings)
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    kind = {"none": Compression.NoCompression, "gzip": Compression.Gzip}[compression]
    return (
        OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", compression=kind),
        OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics", compression=kind),
        OTLPLogExporter(endpoint=f"{endpoint}/v1/logs", compression=kind),
    )


def send_spans(tracer):
    """Two traces: one of three spans with every kind of attribute, one of a single span that failed."""
    kinds = {"text": "ünï \"quoted\"\n", "count": 7, "ratio": 0.25, "flag": True, "list": ["a", "b"], "numbers": [1, 2]}
    entrance = tracer.start_span("GET /cart/{id}", kind=SpanKind.SERVER, start_time=START, attributes=kinds)
    inside = trace.set_span_in_context(entrance)
    for number, kind in enumerate([SpanKind.CLIENT, SpanKind.INTERNAL]):
        begin = START + (number + 1) * 1_000_003
        child = tracer.start_span(f"step {number}", context=inside, kind=kind, start_time=begin)
        child.set_attribute("http.response.status_code", 200 + number)
        child.set_status(Status(StatusCode.OK))
        child.end(begin + 2_000_001)
    entrance.add_event("cache miss", {"key": "cart"}, START + 5)
    entrance.end(START + 30_000_007)
    failed = tracer.start_span("consume", kind=SpanKind.CONSUMER, start_time=START + SECOND)
    failed.set_status(Status(StatusCode.ERROR, "the queue is gone"))
    failed.end(START + SECOND + 1)
    return inside


def send_points(meter):
    counter = meter.create_counter("requests", unit="{request}", description="Requests served")
    counter.add(41, {"route": "/cart"})
    counter.add(1, {"route": "/cart"})
    counter.add(2.5, {"route": "/pay"})
    meter.create_up_down_counter("in.flight").add(-3)
    meter.create_gauge("temperature", unit="Cel").set(-12.75, {"zone": "a"})
    histogram = meter.create_histogram("latency", unit="s")
    for value in [0.001, 0.2, 0.25, 0.3, 99.5]:
        histogram.record(value, {"route": "/cart"})


def send_logs(logger, inside):
    logger.emit(
        LogRecord(
            timestamp=START + 17,
            context=inside,
            severity_number=SeverityNumber.WARN,
            severity_text="WARN",
            body="stock is low: 3",
            attributes={"sku": "A-1", "left": 3},
        )
    )
    logger.emit(
        LogRecord(timestamp=START + 18, severity_number=SeverityNumber.ERROR2, severity_text="ERROR", body={"code": 5})
    )


def span_row(span):
    context = span.get_span_context()
    return {
        "Timestamp": str(span.start_time),
        "TraceId": f"{context.trace_id:032x}",
        "SpanId": f"{context.span_id:016x}",
        "ParentSpanId": f"{span.parent.span_id:016x}" if span.parent else "",
        "SpanName": span.name,
        "SpanKind": span.kind.name.capitalize(),
        "ServiceName": span.resource.attributes["service.name"],
        "ResourceAttributes": dict(span.resource.attributes),
        "SpanAttributes": dict(span.attributes),
        "Duration": span.end_time - span.start_time,
        "StatusCode": span.status.status_code.name.capitalize(),
        "StatusMessage": span.status.description or "",
    }


def log_row(readable):
    record = readable.log_record
    return {
        "Timestamp": str(record.timestamp),
        "TraceId": f"{record.trace_id:032x}" if record.trace_id else "",
        "SpanId": f"{record.span_id:016x}" if record.span_id else "",
        "SeverityText": record.severity_text,
        "SeverityNumber": record.severity_number.value,
        "ServiceName": readable.resource.attributes["service.name"],
        "Body": record.body,
        "ResourceAttributes": dict(readable.resource.attributes),
        "LogAttributes": dict(record.attributes or {}),
    }


def point_rows(exports):
    rows = {"sum": [], "gauge": [], "histogram": []}
    for resource in (group for export in exports for group in export.resource_metrics):
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            kind = type(metric.data).__name__.lower()
            for point in metric.data.data_points:
                row = {
                    "TimeUnix": str(point.time_unix_nano),
                    "MetricName": metric.name,
                    "MetricUnit": metric.unit or "",
                    "ServiceName": resource.resource.attributes["service.name"],
                    "ResourceAttributes": dict(resource.resource.attributes),
                    "Attributes": dict(point.attributes),
                }
                if kind == "histogram":
                    row |= {
                        "Count": point.count,
                        "Sum": point.sum,
                        "Min": point.min,
                        "Max": point.max,
                        "BucketCounts": list(point.bucket_counts),
                        "ExplicitBounds": list(point.explicit_bounds),
                    }
                else:
                    row |= {"Value": point.value, "MetricDescription": metric.description or ""}
                rows[kind].append(row)
    return rows


def main():
    spans, points, logs = exporters(*sys.argv[1:4])
    spans, points, logs = Spans(spans), Points(points), Logs(logs)
    own = {
        "service.name": "cart",
        "service.namespace": "shop0",
        "k8s.namespace.name": "shop0",
        "k8s.pod.name": "cart-5d9c-abcde",
        "process.pid": 4711,
    }
    resource = Resource.create({} if sys.argv[4:] == ["environment"] else own)
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(spans))
    view = View(instrument_name="latency", aggregation=ExplicitBucketHistogramAggregation(boundaries=BOUNDS))
    reader = PeriodicExportingMetricReader(points, export_interval_millis=3_600_000)
    meters = MeterProvider(resource=resource, metric_readers=[reader], views=[view])
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs))

    inside = send_spans(traces.get_tracer("e2e"))
    send_points(meters.get_meter("e2e"))
    send_logs(loggers.get_logger("e2e"), inside)
    # Each sends what is left on its end, the metrics exactly once.
    traces.shutdown()
    meters.shutdown()
    loggers.shutdown()
    sent = {"traces": [span_row(span) for span in spans.kept], "logs": [log_row(log) for log in logs.kept]}
    print(json.dumps(sent | point_rows(points.kept), ensure_ascii=False))
    if FAILED:
        sys.exit(f"not exported: {', '.join(FAILED)}")


main()
