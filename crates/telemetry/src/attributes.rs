//! Attributes as canonical JSON text: one object, keys in byte order, every value a string, no white space.
//!
//! Values become strings as the OpenTelemetry collector's exporters write them: numbers and booleans in their JSON form, bytes in
//! base64, arrays and maps as JSON text.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::otlp::common::any_value::Value;
use crate::otlp::common::{AnyValue, KeyValue};

/// Appends the attributes as a JSON object. Of a repeated key the last value counts.
pub(crate) fn write_object(attributes: &[KeyValue], out: &mut String) {
    let mut scratch = String::new();
    write_map(attributes, out, |value, out| match value {
        Some(Value::StringValue(text)) => write_string(text, out),
        other => {
            scratch.clear();
            write_text(other, &mut scratch);
            write_string(&scratch, out);
        }
    });
}

/// The value as text.
pub(crate) fn text(value: Option<&AnyValue>) -> String {
    let mut out = String::new();
    write_text(value.and_then(|value| value.value.as_ref()), &mut out);
    out
}

/// The text of a string attribute.
pub(crate) fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().rev().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The value of a key in canonical JSON text, or nothing. The text was written by [`write_object`].
pub(crate) fn value_in(json: &str, keys: &[&str]) -> Vec<String> {
    let Ok(map) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json) else { return Vec::new() };
    keys.iter().filter_map(|&key| map.get(key)?.as_str().map(str::to_owned)).collect()
}

/// Whether canonical JSON text has the key with that value. Quotes inside keys and values are escaped, so the
/// pair with its delimiters can only be a real one.
pub(crate) fn has_pair(json: &str, key: &str, value: &str) -> bool {
    let pair = format!("\"{key}\":\"{value}\"");
    json.match_indices(&pair).any(|(at, _)| matches!(json.as_bytes()[at - 1], b'{' | b','))
}

fn write_map<'a>(
    attributes: &'a [KeyValue],
    out: &mut String,
    mut write_value: impl FnMut(Option<&'a Value>, &mut String),
) {
    let mut sorted: Vec<&KeyValue> = attributes.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    out.push('{');
    let mut first = true;
    for (at, attribute) in sorted.iter().enumerate() {
        if sorted.get(at + 1).is_some_and(|next| next.key == attribute.key) {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        write_string(&attribute.key, out);
        out.push(':');
        write_value(attribute.value.as_ref().and_then(|value| value.value.as_ref()), out);
    }
    out.push('}');
}

/// Appends a value as plain text.
fn write_text(value: Option<&Value>, out: &mut String) {
    match value {
        Some(Value::StringValue(text)) => out.push_str(text),
        Some(Value::BytesValue(bytes)) => STANDARD.encode_string(bytes, out),
        // OTLP: an index is only for profiles; elsewhere it counts as an empty value.
        None | Some(Value::StringValueStrindex(_)) => {}
        Some(other) => write_json(Some(other), out),
    }
}

/// Appends a value as JSON.
fn write_json(value: Option<&Value>, out: &mut String) {
    match value {
        None | Some(Value::StringValueStrindex(_)) => out.push_str("null"),
        Some(Value::StringValue(text)) => write_string(text, out),
        Some(Value::BoolValue(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        Some(Value::IntValue(number)) => write!(out, "{number}").expect("writing to a string"),
        Some(Value::DoubleValue(number)) => write_double(*number, out),
        Some(Value::BytesValue(bytes)) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        Some(Value::KvlistValue(list)) => write_map(&list.values, out, write_json),
        Some(Value::ArrayValue(list)) => {
            out.push('[');
            for (at, item) in list.values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item.value.as_ref(), out);
            }
            out.push(']');
        }
    }
}

/// The shortest digits that read back as the same number; an exponent only outside 1e-6 to 1e21 (as ECMAScript and Go's JSON do).
fn write_double(number: f64, out: &mut String) {
    let size = number.abs();
    let result = if number.is_nan() {
        write!(out, "NaN")
    } else if number.is_infinite() {
        write!(out, "{}Infinity", if number < 0.0 { "-" } else { "" })
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => write!(out, "{digits}e+{power}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{number}")
    };
    result.expect("writing to a string");
}

/// Appends a JSON string: only what JSON requires is escaped.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => write!(out, "\\u{other:04x}").expect("writing to a string"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    fn json(attributes: &[KeyValue]) -> String {
        let mut out = String::new();
        write_object(attributes, &mut out);
        out
    }

    #[test]
    fn keys_are_sorted_and_every_value_is_a_string() {
        let list = crate::otlp::common::ArrayValue {
            values: vec![
                AnyValue { value: Some(Value::IntValue(1)) },
                AnyValue { value: Some(Value::StringValue("a\"b".into())) },
            ],
        };
        let text = json(&[
            pair("z", Value::StringValue("tab\t \"quote\" \u{1} ü".into())),
            pair("a", Value::IntValue(-7)),
            pair("m", Value::DoubleValue(0.25)),
            pair("big", Value::DoubleValue(1e21)),
            pair("small", Value::DoubleValue(1e-7)),
            pair("b", Value::BoolValue(true)),
            pair("bytes", Value::BytesValue(vec![1, 2, 3])),
            pair("list", Value::ArrayValue(list)),
            pair("a", Value::IntValue(8)),
            KeyValue { key: "none".into(), ..KeyValue::default() },
        ]);
        assert_eq!(
            text,
            r#"{"a":"8","b":"true","big":"1e+21","bytes":"AQID","list":"[1,\"a\\\"b\"]","m":"0.25","none":"","small":"1e-7","z":"tab\t \"quote\" \u0001 ü"}"#
        );
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["z"], "tab\t \"quote\" \u{1} ü");
    }

    #[test]
    fn a_pair_inside_a_value_is_not_a_pair() {
        let event = json(&[pair("event.domain", Value::StringValue("k8s".into()))]);
        assert!(has_pair(&event, "event.domain", "k8s"));
        for quoted in [r#"{"event.domain":"k8s"}"#, r#","event.domain":"k8s""#] {
            let log = json(&[pair("message", Value::StringValue(quoted.into()))]);
            assert!(!has_pair(&log, "event.domain", "k8s"), "{log}");
        }
    }
}
