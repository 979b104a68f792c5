/**
 * Sends spans, data points and log records with the OpenTelemetry SDK of Node as OTLP/HTTP in JSON, and prints what it sent.
 *
 * Usage: node send.cjs none|gzip ENDPOINT
 *
 * Standard output is one JSON object: for each stored signal the records that the SDK handed to its exporter, under the column
 * names of a datapack. Times are nanoseconds since 1970. The exit code is 1 when an export failed.
 */
"use strict";

const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = require("@opentelemetry/api");
const { SeverityNumber } = require("@opentelemetry/api-logs");
const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-http");
const { OTLPMetricExporter } = require("@opentelemetry/exporter-metrics-otlp-http");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
const { AggregationType, DataPointType, MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

// Records from the network must be near the clock.
const START = [Math.floor(Date.now() / 1000) - 60, 123456789];
const BOUNDS = [0.005, 0.25, 1, 10];
const KINDS = ["Internal", "Server", "Client", "Producer", "Consumer"];
const STATES = ["Unset", "Ok", "Error"];
const failed = [];

/** The exporter, keeping what the SDK exports. */
function keeping(exporter, name, kept) {
  const send = exporter.export.bind(exporter);
  exporter.export = (records, done) => {
    kept.push(records);
    send(records, (result) => {
      if (result.code !== 0) failed.push(`${name}: ${result.error}`);
      done(result);
    });
  };
  return exporter;
}

const nanos = ([seconds, rest]) => BigInt(seconds) * 1_000_000_000n + BigInt(rest);
const after = (offset) => {
  const at = nanos(START) + BigInt(offset);
  return [Number(at / 1_000_000_000n), Number(at % 1_000_000_000n)];
};

function sendSpans(tracer) {
  const kinds = { text: 'ünï "quoted"\n', count: 7, ratio: 0.25, flag: true, list: ["a", "b"], numbers: [1, 2] };
  const entrance = tracer.startSpan("GET /cart/{id}", { kind: SpanKind.SERVER, startTime: START, attributes: kinds }, ROOT_CONTEXT);
  const inside = trace.setSpan(ROOT_CONTEXT, entrance);
  const child = tracer.startSpan("charge", { kind: SpanKind.PRODUCER, startTime: after(1_000_003) }, inside);
  child.setStatus({ code: SpanStatusCode.OK });
  child.end(after(3_000_004));
  entrance.setStatus({ code: SpanStatusCode.ERROR, message: "the queue is gone" });
  entrance.end(after(30_000_007));
  return inside;
}

function sendPoints(meter) {
  const counter = meter.createCounter("requests", { unit: "{request}", description: "Requests served" });
  counter.add(41, { route: "/cart" });
  counter.add(1, { route: "/cart" });
  meter.createUpDownCounter("in.flight").add(-3);
  meter.createGauge("temperature", { unit: "Cel" }).record(-12.75, { zone: "a" });
  const histogram = meter.createHistogram("latency", { unit: "s" });
  for (const value of [0.001, 0.2, 0.25, 0.3, 99.5]) histogram.record(value, { route: "/cart" });
}

function sendLogs(logger, inside) {
  logger.emit({
    timestamp: after(17),
    context: inside,
    severityNumber: SeverityNumber.WARN,
    severityText: "WARN",
    body: "stock is low: 3",
    attributes: { sku: "A-1", left: 3 },
  });
  logger.emit({ timestamp: after(18), context: ROOT_CONTEXT, severityNumber: SeverityNumber.ERROR2, severityText: "ERROR", body: { code: 5 } });
}

const spanRow = (span) => ({
  Timestamp: nanos(span.startTime).toString(),
  TraceId: span.spanContext().traceId,
  SpanId: span.spanContext().spanId,
  ParentSpanId: span.parentSpanContext?.spanId ?? "",
  SpanName: span.name,
  SpanKind: KINDS[span.kind],
  ServiceName: span.resource.attributes["service.name"],
  ResourceAttributes: span.resource.attributes,
  SpanAttributes: span.attributes,
  Duration: Number(nanos(span.endTime) - nanos(span.startTime)),
  StatusCode: STATES[span.status.code],
  StatusMessage: span.status.message ?? "",
});

const logRow = (record) => ({
  Timestamp: nanos(record.hrTime).toString(),
  TraceId: record.spanContext?.traceId ?? "",
  SpanId: record.spanContext?.spanId ?? "",
  SeverityText: record.severityText,
  SeverityNumber: record.severityNumber,
  ServiceName: record.resource.attributes["service.name"],
  Body: record.body,
  ResourceAttributes: record.resource.attributes,
  LogAttributes: record.attributes,
});

const SIGNALS = { [DataPointType.SUM]: "sum", [DataPointType.GAUGE]: "gauge", [DataPointType.HISTOGRAM]: "histogram" };

function pointRows(exports) {
  const rows = { sum: [], gauge: [], histogram: [] };
  for (const { resource, scopeMetrics } of exports) {
    for (const metric of scopeMetrics.flatMap((scope) => scope.metrics)) {
      for (const point of metric.dataPoints) {
        const row = {
          TimeUnix: nanos(point.endTime).toString(),
          MetricName: metric.descriptor.name,
          MetricUnit: metric.descriptor.unit,
          ServiceName: resource.attributes["service.name"],
          ResourceAttributes: resource.attributes,
          Attributes: point.attributes,
        };
        const { value } = point;
        const own =
          metric.dataPointType === DataPointType.HISTOGRAM
            ? { Count: value.count, Sum: value.sum, Min: value.min, Max: value.max, BucketCounts: value.buckets.counts, ExplicitBounds: value.buckets.boundaries }
            : { Value: value, MetricDescription: metric.descriptor.description };
        rows[SIGNALS[metric.dataPointType]].push({ ...row, ...own });
      }
    }
  }
  return rows;
}

async function main([compression, endpoint]) {
  const [spans, points, logs] = [[], [], []];
  const resource = resourceFromAttributes({
    "service.name": "cart",
    "service.namespace": "shop0",
    "k8s.namespace.name": "shop0",
    "k8s.pod.name": "cart-5d9c-fghij",
    "process.pid": 4711,
  });
  const to = (path) => ({ url: `${endpoint}/v1/${path}`, compression });
  const traces = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(keeping(new OTLPTraceExporter(to("traces")), "spans", spans))],
  });
  const exporter = keeping(new OTLPMetricExporter(to("metrics")), "points", points);
  const meters = new MeterProvider({
    resource,
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
    views: [{ instrumentName: "latency", aggregation: { type: AggregationType.EXPLICIT_BUCKET_HISTOGRAM, options: { boundaries: BOUNDS } } }],
  });
  const loggers = new LoggerProvider({
    resource,
    processors: [new BatchLogRecordProcessor({ exporter: keeping(new OTLPLogExporter(to("logs")), "logs", logs) })],
  });
  const inside = sendSpans(traces.getTracer("e2e"));
  sendPoints(meters.getMeter("e2e"));
  sendLogs(loggers.getLogger("e2e"), inside);
  // Each sends what is left on its end, the metrics exactly once.
  await traces.shutdown();
  await meters.shutdown();
  await loggers.shutdown();
  console.log(JSON.stringify({ traces: spans.flat().map(spanRow), logs: logs.flat().map(logRow), ...pointRows(points) }));
  if (failed.length > 0) throw new Error(`not exported: ${failed.join("; ")}`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
