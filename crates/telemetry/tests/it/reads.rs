//! What a read finds: columns and types, half-open windows, both namespaces, no events of Kubernetes.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMillisecondType, UInt64Type};
use model::RunId;
use telemetry::{Signal, SignalStore};

use crate::fixture::*;

fn store() -> (tempfile::TempDir, SignalStore, Option<RunId>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    (folder, store, Some(RunId::random()))
}

#[test]
fn windows_are_half_open_and_contiguous() {
    let (_folder, store, run) = store();
    let mut step = store.step(&stream("ts0", run), at(0), at(30)).unwrap();
    step.traces(&traces("ts0", [9.0, 10.0, 19.999_999, 20.0].iter().map(|&t| span(t as u64, t)).collect())).unwrap();
    step.commit().unwrap();
    let seconds = |from, to| times(&read(&store, &query(Signal::Traces, "ts0", run, from, to)));
    assert_eq!(seconds(0, 10), [9_000_000_000]);
    assert_eq!(seconds(10, 20).len(), 2);
    assert_eq!(seconds(10, 20)[0], 10_000_000_000);
    assert_eq!(seconds(20, 30), [20_000_000_000]);
    assert_eq!(seconds(21, 30), [] as [i64; 0]);
    assert_eq!(store.freshness("ts0", run).unwrap(), Some(at(20)));
    assert_eq!(store.freshness("ts1", run).unwrap(), None);
    assert_eq!(store.freshness("ts0", None).unwrap(), None);
}

#[test]
fn either_namespace_attribute_finds_a_row_and_no_other_does() {
    let (_folder, store, _) = store();
    let ingest = store.ingest().unwrap();
    let both = [("k8s.namespace.name", "otel-demo0"), ("service.namespace", "opentelemetry-demo")];
    let cases: [&[(&str, &str)]; 4] =
        [&both, &[("service.namespace", "otel-demo0")], &[("k8s.namespace.name", "ts1")], &[]];
    for (number, namespaces) in cases.into_iter().enumerate() {
        ingest.traces(traces_of(resource("front", namespaces), vec![span(number as u64, 1.0)])).unwrap();
    }
    let found = |namespace: &str| {
        let ids = text(&read(&store, &query(Signal::Traces, namespace, None, 0, 10)), "SpanId");
        ids.iter().map(|id| u64::from_str_radix(id, 16).unwrap() - 1).collect::<Vec<_>>()
    };
    assert_eq!(found("otel-demo0"), [0, 1]);
    assert_eq!(found("opentelemetry-demo"), [0]);
    assert_eq!(found("ts1"), [2]);
    assert_eq!(found("otel-demo"), [] as [u64; 0]);
    assert_eq!(found(""), [3], "what names no namespace is not lost");
}

#[test]
fn events_of_kubernetes_are_no_logs_of_the_application() {
    let (_folder, store, run) = store();
    let mut step = store.step(&stream("ts0", run), at(0), at(30)).unwrap();
    let event = vec![pair("event.domain", "k8s"), pair("event.name", "Killing")];
    let quoting = vec![pair("message", r#"{"event.domain":"k8s"}"#)];
    let records = vec![log(1.0, "kept", vec![]), log(1.0, "event", event), log(1.25, "quotes an event", quoting)];
    step.logs(&logs("ts0", records)).unwrap();
    step.commit().unwrap();
    let rows = read(&store, &query(Signal::Logs, "ts0", run, 0, 10));
    assert_eq!(text(&rows, "Body"), ["kept", "quotes an event"]);
    let whole = rows.column_by_name("TimestampTime").unwrap().as_primitive::<TimestampMillisecondType>();
    assert_eq!(whole.value(1), (START + 1) * 1000);
}

#[test]
fn columns_have_the_names_and_types_of_a_datapack() {
    let (_folder, store, run) = store();
    let mut step = store.step(&stream("ts0", run), at(0), at(30)).unwrap();
    let mesh = |from: &str, to: &str| vec![pair("source_workload", from), pair("destination_workload", to)];
    step.metrics(&metrics("ts0", vec![gauge("g", vec![point(1.0, 0.5, mesh("caller", "callee"))])])).unwrap();
    let deployed = resource("name", &[("k8s.namespace.name", "ts0"), ("k8s.deployment.name", "deployment")]);
    let points = vec![point(1.0, 2.0, mesh("", "callee")), point(2.0, 3.0, vec![])];
    step.metrics(&metrics_of(deployed, vec![sum("s", points)])).unwrap();
    step.metrics(&metrics("ts0", vec![histogram("h", vec![histogram_point(1.0)])])).unwrap();
    step.traces(&traces("ts0", vec![span(0, 1.0)])).unwrap();
    step.commit().unwrap();
    let rows = |signal| read(&store, &query(signal, "ts0", run, 0, 10));
    let names = |signal: Signal| signal.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();

    assert_eq!(
        names(Signal::Traces).join(" "),
        "Timestamp TraceId SpanId ParentSpanId TraceState SpanName SpanKind ServiceName ResourceAttributes \
         SpanAttributes Duration StatusCode StatusMessage"
    );
    let traces = rows(Signal::Traces);
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    assert_eq!(traces.schema().field(0).data_type(), &nanos);
    assert_eq!(traces.column_by_name("Duration").unwrap().as_primitive::<UInt64Type>().value(0), 100_000_000);
    assert_eq!(text(&traces, "TraceId"), ["00000000000000000000000000000001"]);
    assert_eq!(text(&traces, "ParentSpanId"), [""]);
    assert_eq!((&text(&traces, "SpanKind")[0][..], &text(&traces, "StatusCode")[0][..]), ("Server", "Error"));
    assert_eq!(text(&traces, "SpanAttributes"), [r#"{"http.method":"GET","http.route":"/api"}"#]);
    let all = r#"{"k8s.namespace.name":"ts0","k8s.pod.name":"front-0","service.name":"front"}"#;
    assert_eq!(text(&traces, "ResourceAttributes"), [all]);

    assert_eq!(
        names(Signal::Logs).join(" "),
        "Timestamp TimestampTime TraceId SpanId SeverityText SeverityNumber ServiceName Body ResourceAttributes LogAttributes"
    );
    assert_eq!(
        names(Signal::Gauge).join(" "),
        "TimeUnix MetricName MetricDescription Value ServiceName MetricUnit ResourceAttributes Attributes"
    );
    assert_eq!(text(&rows(Signal::Gauge), "ServiceName"), ["caller"]);
    let sums = rows(Signal::Sum);
    assert_eq!(text(&sums, "ServiceName"), ["callee", "deployment"]);
    assert_eq!(sums.column_by_name("Value").unwrap().as_primitive::<Float64Type>().values(), &[2.0, 3.0]);

    let histograms = rows(Signal::Histogram);
    assert_eq!(text(&histograms, "ServiceName"), ["front"]);
    assert_eq!(
        names(Signal::Histogram).join(" "),
        "TimeUnix MetricName ServiceName MetricUnit ResourceAttributes Attributes Count Sum BucketCounts ExplicitBounds \
         Min Max AggregationTemporality"
    );
    let list = histograms.column_by_name("BucketCounts").unwrap().as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<UInt64Type>().values(), &[1, 2, 3]);
    assert!(histograms.column_by_name("Min").unwrap().is_null(0), "an absent minimum is absent, not zero");
    for signal in Signal::ALL {
        for field in signal.schema().fields() {
            assert!(!matches!(field.data_type(), DataType::Dictionary(..)), "{field}");
        }
    }
}
