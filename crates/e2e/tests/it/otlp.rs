//! The OpenTelemetry SDKs that applications use send into a running daemon, and what is stored is what they sent.

use std::path::{Path, PathBuf};
use std::process::Command;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type, TimestampNanosecondType, UInt8Type, UInt64Type};
use model::DataTime;
use serde_json::{Map, Value, json};
use telemetry::{Query, Signal, SignalStore};
use testkit::process::{Daemon, Site, finish};
use testkit::{Tool, tool};

/// The namespace that the senders name.
pub const NAMESPACE: &str = "shop0";

/// A daemon with both OTLP ports.
pub fn receiver(site: &Site) -> Daemon {
    site.serve(&["--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"])
}

/// Where a daemon takes OTLP over gRPC.
pub fn grpc(daemon: &Daemon) -> String {
    format!("http://{}", daemon.server["otlp_grpc"].as_str().expect("a daemon with this port names it"))
}

/// Where a daemon takes OTLP over HTTP.
pub fn http(daemon: &Daemon) -> String {
    format!("http://{}", daemon.server["otlp_http"].as_str().expect("a daemon with this port names it"))
}

fn sender(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("senders").join(file)
}

/// What the SDK of Python sent.
#[track_caller]
pub fn python(program: &Path, protocol: &str, compression: &str, endpoint: &str) -> Value {
    let arguments = [protocol, compression, endpoint];
    finish(Command::new(program).arg(sender("send.py")).args(arguments)).ok().json()
}

/// What the SDK of Node sent, which is OTLP in JSON.
#[track_caller]
pub fn node(modules: &Path, compression: &str, endpoint: &str) -> Value {
    let mut command = Command::new("node");
    finish(command.env("NODE_PATH", modules).arg(sender("send.cjs")).args([compression, endpoint])).ok().json()
}

#[test]
fn what_the_sdk_of_python_sends_in_protobuf_is_stored_as_it_was() {
    let Some(program) = tool("the SDK of Python sends protobuf", Tool::Python) else { return };
    for protocol in ["grpc", "http"] {
        for compression in ["none", "gzip"] {
            let site = Site::new();
            let daemon = receiver(&site);
            let endpoint = if protocol == "grpc" { grpc(&daemon) } else { http(&daemon) };
            let sent = python(&program, protocol, compression, &endpoint);
            daemon.stop();
            assert_stored(&site, &sent, &format!("{protocol}, {compression}"));
        }
    }
}

#[test]
fn what_the_sdk_of_node_sends_in_json_is_stored_as_it_was() {
    let Some(modules) = tool("the SDK of Node sends JSON", Tool::NodeModules) else { return };
    for compression in ["none", "gzip"] {
        let site = Site::new();
        let daemon = receiver(&site);
        let sent = node(&modules, compression, &http(&daemon));
        daemon.stop();
        assert_stored(&site, &sent, &format!("JSON, {compression}"));
    }
}

/// Asserts that the store holds what was sent and nothing else. The daemon must have stopped.
#[track_caller]
pub fn assert_stored(site: &Site, sent: &Value, how: &str) {
    let store = SignalStore::open(site.data().join("telemetry")).unwrap();
    for signal in Signal::ALL {
        let expected =
            sent[signal.as_str()].as_array().unwrap_or_else(|| panic!("{how}: the sender tells no {signal}"));
        assert!(!expected.is_empty(), "{how}: the sender sent no {signal}");
        let mut expected: Vec<Value> = expected.iter().map(|row| as_stored(row.as_object().unwrap())).collect();
        let mut stored = rows(&store, signal);
        for row in [&mut expected, &mut stored].into_iter().flatten() {
            // Columns that a sender does not tell of are no part of the comparison.
            row.as_object_mut().unwrap().retain(|column, _| sent[signal.as_str()][0].get(column).is_some());
        }
        expected.sort_by_key(Value::to_string);
        stored.sort_by_key(Value::to_string);
        assert_eq!(stored.len(), expected.len(), "{how}, {signal}: {stored:#?}");
        for (stored, expected) in stored.iter().zip(&expected) {
            assert_eq!(stored, expected, "{how}, {signal}");
        }
    }
}

/// A sender's record in the form of [`rows`]: every attribute is a text, a body that is no text is JSON text.
fn as_stored(row: &Map<String, Value>) -> Value {
    let mut columns: Vec<(String, Value)> = row
        .iter()
        .map(|(column, value)| {
            let value = match (column.as_str(), value) {
                ("Body", body) => text(body).into(),
                (_, Value::Object(attributes)) => {
                    sorted(attributes.iter().map(|(key, value)| (key.clone(), text(value).into())).collect())
                }
                (_, Value::Array(list)) => list.iter().map(number).collect(),
                (_, Value::Number(_)) => number(value),
                _ => value.clone(),
            };
            (column.clone(), value)
        })
        .collect();
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(columns.into_iter().collect())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number(value: &Value) -> Value {
    json!(value.as_f64().expect("a number"))
}

fn sorted(mut pairs: Vec<(String, Value)>) -> Value {
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(pairs.into_iter().collect())
}

/// What the store holds of a signal: one object for each row, its columns in order of their names.
pub fn rows(store: &SignalStore, signal: Signal) -> Vec<Value> {
    let all =
        Query { signal, namespace: NAMESPACE.into(), run: None, from: DataTime(i64::MIN), to: DataTime(i64::MAX) };
    let mut rows = Vec::new();
    for batch in store.read(&all).unwrap() {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let columns = schema.fields().iter().zip(batch.columns());
            rows.push(sorted(
                columns.map(|(field, array)| (field.name().clone(), cell(field.name(), array, row))).collect(),
            ));
        }
    }
    rows
}

fn cell(column: &str, array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 if column.ends_with("Attributes") => {
            let attributes: Map<String, Value> = serde_json::from_str(array.as_string::<i32>().value(row)).unwrap();
            sorted(attributes.into_iter().collect())
        }
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Timestamp(..) => match array.as_primitive_opt::<TimestampNanosecondType>() {
            Some(times) => times.value(row).to_string().into(),
            None => Value::Null,
        },
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row) as f64),
        DataType::UInt8 => json!(f64::from(array.as_primitive::<UInt8Type>().value(row))),
        DataType::Int32 => json!(f64::from(array.as_primitive::<Int32Type>().value(row))),
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(row);
            (0..list.len()).map(|at| cell(column, &list, at)).collect()
        }
        other => panic!("{column}: a column of type {other}"),
    }
}
