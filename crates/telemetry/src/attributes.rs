//! Attributes as canonical JSON text: one object, keys in byte order, every value a string, no white space.
//!
//! Values become strings as the OpenTelemetry collector's exporters write them: numbers and booleans in their JSON form, bytes in
//! base64, arrays and maps as JSON text.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::attribute::{Attribute, Attributes, Value};
use crate::otlp::common::KeyValue;
use crate::otlp::common::any_value::Value as Any;

/// Appends the attributes as a JSON object. Of a repeated key the last value counts.
pub(crate) fn write_object(attributes: &mut Attributes<'_>, out: &mut String) {
    let mut sorted = attributes.sorted();
    out.push('{');
    let mut first = true;
    while let Some(attribute) = sorted.next() {
        if sorted.clone().next().is_some_and(|next| next.key == attribute.key) {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        write_pair(attribute, out);
    }
    out.push('}');
}

fn write_pair(attribute: &Attribute<'_>, out: &mut String) {
    write_string(attribute.key, out);
    out.push(':');
    match &attribute.value {
        Value::Text(text) => write_string(text, out),
        // What needs escaping is in nested values alone.
        Value::Nested(_) => write_string(&text(&attribute.value), out),
        other => {
            out.push('"');
            write_text(other, out);
            out.push('"');
        }
    }
}

/// The value as text.
pub(crate) fn text(value: &Value<'_>) -> String {
    let mut out = String::new();
    write_text(value, &mut out);
    out
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

/// Appends a value as plain text.
fn write_text(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Empty => {}
        Value::Text(text) => out.push_str(text),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) => write!(out, "{number}").expect("writing to a string"),
        Value::Double(number) => write_double(*number, out),
        Value::Bytes(bytes) => STANDARD.encode_string(bytes, out),
        Value::Nested(nested) => write_json(Some(nested), out),
    }
}

/// Appends a nested value as JSON.
fn write_json(value: Option<&Any>, out: &mut String) {
    match value {
        None | Some(Any::StringValueStrindex(_)) => out.push_str("null"),
        Some(Any::StringValue(text)) => write_string(text, out),
        Some(Any::BoolValue(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        Some(Any::IntValue(number)) => write!(out, "{number}").expect("writing to a string"),
        Some(Any::DoubleValue(number)) => write_double(*number, out),
        Some(Any::BytesValue(bytes)) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        Some(Any::KvlistValue(list)) => write_map(&list.values, out),
        Some(Any::ArrayValue(list)) => {
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

/// Appends a nested map: keys in byte order, the last of equal ones.
fn write_map(pairs: &[KeyValue], out: &mut String) {
    let mut sorted: Vec<&KeyValue> = pairs.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    sorted.reverse();
    sorted.dedup_by(|later, kept| later.key == kept.key);
    sorted.reverse();
    out.push('{');
    for (at, pair) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(&pair.key, out);
        out.push(':');
        write_json(pair.value.as_ref().and_then(|value| value.value.as_ref()), out);
    }
    out.push('}');
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
    while let Some(at) = first_special(rest.as_bytes()) {
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

/// Where the first byte is that JSON requires to be escaped. Looks at sixteen bytes at a time, as most texts have none.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const fn special(byte: u8) -> bool {
        byte < 0x20 || byte == b'"' || byte == b'\\'
    }
    let (chunks, rest) = bytes.as_chunks::<16>();
    for (number, chunk) in chunks.iter().enumerate() {
        if chunk.iter().fold(false, |found, &byte| found | special(byte)) {
            return chunk.iter().position(|&byte| special(byte)).map(|at| number * 16 + at);
        }
    }
    rest.iter().position(|&byte| special(byte)).map(|at| chunks.len() * 16 + at)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::limits::Limits;
    use crate::otlp::Resource;
    use crate::otlp::common::AnyValue;

    fn pair(key: &str, value: Any) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    /// The text of a list in memory, which must be that of the same list from the wire.
    fn json(attributes: &[KeyValue]) -> String {
        let (mut out, mut wire) = (String::new(), String::new());
        let mut list = Attributes::default();
        list.set(attributes, &Limits::default()).unwrap();
        write_object(&mut list, &mut out);
        let bytes = Resource { attributes: attributes.to_vec(), ..Resource::default() }.encode_to_vec();
        let mut list = Attributes::default();
        crate::wire::each(&bytes, 1, |pair| list.read(pair, &Limits::default())).unwrap();
        write_object(&mut list, &mut wire);
        assert_eq!(out, wire);
        out
    }

    #[test]
    fn keys_are_sorted_and_every_value_is_a_string() {
        let list = crate::otlp::common::ArrayValue {
            values: vec![
                AnyValue { value: Some(Any::IntValue(1)) },
                AnyValue { value: Some(Any::StringValue("a\"b".into())) },
            ],
        };
        let text = json(&[
            pair("z", Any::StringValue("tab\t \"quote\" \u{1} ü".into())),
            pair("a", Any::IntValue(-7)),
            pair("m", Any::DoubleValue(0.25)),
            pair("big", Any::DoubleValue(1e21)),
            pair("small", Any::DoubleValue(1e-7)),
            pair("b", Any::BoolValue(true)),
            pair("bytes", Any::BytesValue(vec![1, 2, 3])),
            pair("list", Any::ArrayValue(list)),
            pair("a", Any::IntValue(8)),
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
        let event = json(&[pair("event.domain", Any::StringValue("k8s".into()))]);
        assert!(has_pair(&event, "event.domain", "k8s"));
        for quoted in [r#"{"event.domain":"k8s"}"#, r#","event.domain":"k8s""#] {
            let log = json(&[pair("message", Any::StringValue(quoted.into()))]);
            assert!(!has_pair(&log, "event.domain", "k8s"), "{log}");
        }
    }
}
