//! Attributes in OTLP form.

use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::common::{AnyValue, KeyValue};

pub fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

pub fn int(key: &str, value: i64) -> KeyValue {
    pair(key, Value::IntValue(value))
}

pub fn boolean(key: &str, value: bool) -> KeyValue {
    pair(key, Value::BoolValue(value))
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
