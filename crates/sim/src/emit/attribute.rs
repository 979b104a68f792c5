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

/// Writes a pair over what another one was, and keeps the room of its texts.
pub fn rewrite(pair: &mut KeyValue, as_of: &KeyValue) {
    rename(pair, &as_of.key);
    match as_of.value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(value)) => rewrite_text(pair, |text| text.push_str(value)),
        value => pair.value.get_or_insert_default().value = value.cloned(),
    }
}

pub fn rename(pair: &mut KeyValue, key: &str) {
    pair.key.clear();
    pair.key.push_str(key);
}

/// Makes the value the text that `write` writes.
pub fn rewrite_text(pair: &mut KeyValue, write: impl FnOnce(&mut String)) {
    let any = pair.value.get_or_insert_default();
    let mut text = match any.value.take() {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    };
    text.clear();
    write(&mut text);
    any.value = Some(Value::StringValue(text));
}

pub fn rewrite_int(pair: &mut KeyValue, value: i64) {
    pair.value.get_or_insert_default().value = Some(Value::IntValue(value));
}
