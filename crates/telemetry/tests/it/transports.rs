//! OTLP over HTTP and gRPC, plain and gzip, protobuf and JSON: the same rows, and clear answers to what cannot be taken.

use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::logs_service_client::LogsServiceClient;
use telemetry::otlp::metrics_service_client::MetricsServiceClient;
use telemetry::otlp::trace_service_client::TraceServiceClient;
use telemetry::otlp::{ExportTraceServiceResponse, Message};
use telemetry::{Export, Listen, Signal, serve};
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::fixture::*;
use crate::wire::*;

/// Requests of all three kinds, as protobuf and as the JSON that an SDK for JavaScript writes.
fn requests() -> [(Export, Vec<u8>, serde_json::Value); 3] {
    let mut span = span(7, 1.5);
    span.attributes.push(pair("quoted \"key\"", "tab\t, ü and \\"));
    span.attributes[0].value.as_mut().unwrap().value = Some(Value::IntValue(-9_007_199_254_740_993));
    span.attributes[1].value.as_mut().unwrap().value = Some(Value::DoubleValue(0.1));
    let list = vec![
        gauge("g", vec![point(1.0, 2.5, vec![pair("a", "1")])]),
        sum("s", vec![point(2.0, 7.0, vec![])]),
        histogram("h", vec![histogram_point(3.0)]),
    ];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let time = |seconds| nanos(seconds).to_string();
    let resource = serde_json::json!({ "attributes": [
        { "key": "service.name", "value": { "stringValue": "front" } },
        { "key": "k8s.pod.name", "value": { "stringValue": "front-0" } },
        { "key": "k8s.namespace.name", "value": { "stringValue": "ts0" } },
    ], "droppedAttributesCount": 0 });
    let traces_json = serde_json::json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": { "name": "x" }, "spans": [{
        "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "name": span.name, "kind": 2,
        "startTimeUnixNano": time(1.5), "endTimeUnixNano": span.end_time_unix_nano.to_string(),
        "attributes": [
            { "key": "http.route", "value": { "intValue": "-9007199254740993" } },
            { "key": "http.method", "value": { "doubleValue": 0.1 } },
            { "key": "quoted \"key\"", "value": { "stringValue": "tab\t, ü and \\" } },
        ],
        "events": [], "links": [], "droppedEventsCount": 0, "status": { "code": 2, "message": "boom" } }] }] }] });
    let point_json = |seconds| serde_json::json!({ "timeUnixNano": time(seconds), "attributes": [] });
    let mut gauge_point = point_json(1.0);
    gauge_point["asDouble"] = 2.5.into();
    gauge_point["attributes"] = serde_json::json!([{ "key": "a", "value": { "stringValue": "1" } }]);
    let mut sum_point = point_json(2.0);
    sum_point["asDouble"] = 7.into();
    let mut histogram_point = point_json(3.0);
    histogram_point["count"] = "6".into();
    histogram_point["sum"] = 1.5.into();
    histogram_point["max"] = 0.9.into();
    histogram_point["bucketCounts"] = serde_json::json!(["1", "2", 3]);
    histogram_point["explicitBounds"] = serde_json::json!([0.1, 0.5]);
    let metrics_json = serde_json::json!({ "resourceMetrics": [{ "resource": resource, "scopeMetrics": [{ "metrics": [
        { "name": "g", "unit": "1", "gauge": { "dataPoints": [gauge_point] } },
        { "name": "s", "unit": "By", "sum": { "dataPoints": [sum_point], "aggregationTemporality": 2, "isMonotonic": true } },
        { "name": "h", "unit": "s", "histogram": { "dataPoints": [histogram_point], "aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE" } },
    ] }] }] });
    let logs_json = serde_json::json!({ "resourceLogs": [{ "resource": resource, "scopeLogs": [{ "logRecords": [{
        "timeUnixNano": time(4.0), "severityNumber": "SEVERITY_NUMBER_INFO", "severityText": "INFO",
        "body": { "stringValue": "hello" }, "attributes": [] }] }] }] });
    [
        (Export::Traces, traces("ts0", vec![span]).encode_to_vec(), traces_json),
        (Export::Metrics, metrics("ts0", list).encode_to_vec(), metrics_json),
        (Export::Logs, logs("ts0", vec![log(4.0, "hello", vec![])]).encode_to_vec(), logs_json),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transport_gives_the_same_rows() {
    let mut stored = Vec::new();
    for transport in ["http", "http gzip", "json", "json gzip", "grpc", "grpc gzip"] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let receiver = Receiver::start(&store).await;
        for (export, protobuf, json) in requests() {
            let json = json.to_string().into_bytes();
            let (path, http) = (path(export), receiver.http);
            let answer = match transport {
                "http" => post(http, path, &[PROTOBUF], protobuf).await,
                "http gzip" => post(http, path, &[PROTOBUF, GZIP], gzip(&protobuf)).await,
                "json" => post(http, path, &[JSON], json).await,
                "json gzip" => post(http, path, &[JSON, GZIP], gzip(&json)).await,
                _ => {
                    let answer = call(receiver.grpc, method(export), transport == "grpc gzip", protobuf).await.unwrap();
                    assert_eq!(answer, [] as [u8; 0], "{transport}");
                    continue;
                }
            };
            assert_eq!(answer.status, 200, "{transport}: {answer:?}");
            let whole: &[u8] = if transport.starts_with("json") { b"{}" } else { b"" };
            assert_eq!(answer.body, whole, "{transport}");
        }
        receiver.stop().await;
        stored.push((transport, Signal::ALL.map(|signal| read(&store, &query(signal, "ts0", None, 0, 10)))));
    }
    assert_eq!(stored[0].1.each_ref().map(|batch| batch.num_rows()), [1, 1, 1, 1, 1]);
    for (transport, batches) in &stored[1..] {
        assert_eq!(batches, &stored[0].1, "{transport}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_says_what_is_wrong_with_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let receiver = Receiver::start(&store).await;
    let http = receiver.http;
    let body = traces("ts0", vec![span(0, 1.0)]).encode_to_vec();

    for headers in [&[][..], &[("content-type", "text/plain")], &[PROTOBUF, ("content-encoding", "br")]] {
        let answer = post(http, "/v1/traces", headers, body.clone()).await;
        assert_eq!(answer.status, 415, "{answer:?}");
    }
    let answer = post(http, "/v1/traces", &[PROTOBUF], body[..body.len() - 1].to_vec()).await;
    assert_eq!(answer.status, 400);
    let (code, message) = answer.status();
    assert!(code == Code::InvalidArgument as i32 && message.contains("[otlp.request_malformed]"), "{message}");
    let answer = post(http, "/v1/traces", &[JSON], "{\"resourceSpans\":[{]}").await;
    assert_eq!((answer.status, &answer.json()["code"]), (400, &3.into()));
    assert!(
        answer.json()["message"].as_str().unwrap().contains("key must be a string at line 1 column "),
        "{answer:?}"
    );
    let answer = post(http, "/v1/traces", &[PROTOBUF, GZIP], body.clone()).await;
    assert!(answer.status == 400 && answer.status().1.contains("[otlp.request_not_gzip]"), "{answer:?}");

    // Too large as it is, and too large once unpacked: 200 MiB in 200 KiB.
    let answer = post(http, "/v1/traces", &[PROTOBUF], vec![0; 20 << 20]).await;
    assert!(answer.status == 413 && answer.status().1.contains("20971520 bytes"), "{answer:?}");
    let bomb = gzip(&vec![0; 200 << 20]);
    let answer = post(http, "/v1/traces", &[PROTOBUF, GZIP], bomb).await;
    assert!(answer.status == 413 && answer.status().1.contains("at most 16777216 bytes"), "{answer:?}");
    assert!(answer.headers.get("retry-after").is_none());

    let answer = post(http, "/v1/profiles", &[PROTOBUF], body.clone()).await;
    assert!(answer.status == 404 && answer.status().1.contains("POST to /v1/traces"), "{answer:?}");
    let answer = get(http, "/v1/traces").await;
    assert!(answer.status == 405 && answer.headers["allow"] == "POST", "{answer:?}");
    assert!(answer.json()["message"].as_str().unwrap().contains("[otlp.method_wrong]"), "{answer:?}");
    assert_eq!(get(http, "/").await.status, 404);
    assert_eq!(store.status().strays["otlp.path_unknown"], 2);
    let refused = &store.status().kinds[&Export::Traces].requests_refused;
    let expect = [
        ("otlp.content_type_unsupported", 2),
        ("otlp.encoding_unsupported", 1),
        ("otlp.method_wrong", 1),
        ("otlp.request_malformed", 2),
        ("otlp.request_not_gzip", 1),
        ("otlp.request_too_large", 2),
    ];
    assert_eq!(refused.iter().map(|(code, count)| (code.as_str(), *count)).collect::<Vec<_>>(), expect);

    let mut backwards = span(1, 1.0);
    backwards.end_time_unix_nano = backwards.start_time_unix_nano - 1;
    let answer =
        post(http, "/v1/traces", &[PROTOBUF], traces("ts0", vec![span(2, 1.0), backwards]).encode_to_vec()).await;
    assert_eq!(answer.status, 200);
    let partial = ExportTraceServiceResponse::decode(answer.body).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.starts_with("1 of 2 spans refused: 1 x otlp.span_ends_before_start"), "{partial:?}");
    receiver.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_to_the_wrong_address_is_refused_and_an_empty_request_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let receiver = Receiver::start(&store).await;
    let http = receiver.http;
    let requests = requests();
    let mut refused = 0;
    for (is, protobuf, json) in &requests {
        for (to, ..) in requests.iter().filter(|(to, ..)| to != is) {
            let answer = post(http, path(*to), &[PROTOBUF], protobuf.clone()).await;
            let (code, message) = answer.status();
            assert_eq!((answer.status, code), (400, Code::InvalidArgument as i32), "{is:?} to {to:?}: {message}");
            assert!(message.contains("[otlp.request_of_another_kind]") && message.contains(path(*is)), "{message}");
            let answer = post(http, path(*to), &[JSON], json.to_string()).await;
            assert_eq!(answer.status, 400, "{is:?} to {to:?}: {answer:?}");
            assert!(answer.json()["message"].as_str().unwrap().contains(path(*is)), "{answer:?}");
            let status = call(receiver.grpc, method(*to), false, protobuf.clone()).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            refused += 3;
        }
        for wrong in ["null", "[]", "3", "\"x\"", "{\"spans\":[]}", "{\"resource\":{}}", ""] {
            let answer = post(http, path(*is), &[JSON], wrong).await;
            assert!(answer.status == 400 && answer.json()["code"] == 3, "{wrong}: {answer:?}");
            refused += 1;
        }
        let field = json.as_object().unwrap().keys().next().unwrap();
        for empty in ["{}".to_owned(), format!("{{\"{field}\":[]}}"), format!("{{\"{field}\":[],\"more\":1}}")] {
            assert_eq!(post(http, path(*is), &[JSON], empty).await.status, 200);
        }
        assert_eq!(post(http, path(*is), &[PROTOBUF], Vec::new()).await.status, 200);
        // A resource without records.
        let resource = traces("ts0", vec![]).encode_to_vec();
        assert_eq!(post(http, path(*is), &[PROTOBUF], resource).await.status, 200);
    }
    let status = store.status();
    let counted = status.kinds.values().flat_map(|kind| kind.requests_refused.values()).sum::<u64>();
    let kept = status.namespaces.iter().filter(|part| part.accepted > 0 || !part.refused.is_empty());
    assert_eq!((counted, kept.count()), (refused, 0), "{status:?}");
    receiver.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_takes_all_signals_with_partial_success_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let receiver = Receiver::start(&store).await;
    let url = format!("http://{}", receiver.grpc);

    let mut client = TraceServiceClient::connect(url.clone()).await.unwrap();
    let answer = client.export(traces("ts0", vec![span(0, 1.0)])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);
    let mut backwards = span(1, 1.0);
    backwards.end_time_unix_nano = backwards.start_time_unix_nano - 1;
    let answer = client.export(traces("ts0", vec![span(2, 1.0), backwards])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success.unwrap().rejected_spans, 1);

    let mut zipped =
        MetricsServiceClient::connect(url.clone()).await.unwrap().send_compressed(CompressionEncoding::Gzip);
    let list = vec![gauge("g", vec![point(1.0, 1.0, vec![])]), sum("s", vec![point(1.0, f64::NAN, vec![])])];
    let answer = zipped.export(metrics("ts0", list)).await.unwrap().into_inner();
    assert_eq!(answer.partial_success.unwrap().rejected_data_points, 1);
    let mut logger = LogsServiceClient::connect(url.clone()).await.unwrap().send_compressed(CompressionEncoding::Gzip);
    let answer = logger.export(logs("ts0", vec![log(1.0, "hi", vec![])])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);

    // 20 MiB, plain and zipped: refused with the limit, and the connection lives on.
    let large = || logs("ts0", vec![log(1.0, &"x".repeat(20 << 20), vec![])]);
    let mut plain = LogsServiceClient::connect(url.clone()).await.unwrap();
    for client in [&mut plain, &mut logger] {
        let status = client.export(large()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("at most 16777216 bytes"), "{status:?}");
        assert!(status.message().contains("otlp.request_too_large"), "{status:?}");
        client.export(logs("ts0", vec![log(2.0, "after", vec![])])).await.unwrap();
    }
    assert_eq!(store.status().kinds[&Export::Logs].requests_refused["otlp.request_too_large"], 2);

    let body = traces("ts0", vec![span(0, 1.0)]).encode_to_vec();
    let cut = call(receiver.grpc, method(Export::Traces), false, body[..body.len() - 1].to_vec()).await.unwrap_err();
    assert_eq!(cut.code(), Code::InvalidArgument);
    assert!(cut.message().contains("otlp.request_malformed"), "{cut:?}");
    let other = "/opentelemetry.proto.collector.trace.v1.TraceService/Import";
    assert_eq!(call(receiver.grpc, other, false, vec![]).await.unwrap_err().code(), Code::Unimplemented);

    let reader = store.clone();
    let rows = move |signal| read(&reader, &query(signal, "ts0", None, 0, 10)).num_rows();
    let counts = tokio::task::spawn_blocking(move || Signal::ALL.map(rows)).await.unwrap();
    assert_eq!(counts, [2, 3, 1, 0, 0]);

    let listen = Listen { grpc: Some(receiver.grpc), http: None };
    let taken = serve(listen, store.ingest().unwrap(), async {}).await.err().unwrap();
    assert_eq!(taken.code, "otlp.address_in_use");
    client.export(traces("ts0", vec![span(3, 1.0)])).await.unwrap();
    drop((client, zipped, logger, plain));
    receiver.stop().await;
    assert_eq!(store.freshness("ts0", None).unwrap(), Some(at(2)));
}
