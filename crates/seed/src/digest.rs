//! One canonical text of a JSON value, and content hashes.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// JSON without white space, keys sorted by their bytes. Equal values have equal texts.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// SHA-256 of the canonical text, in hexadecimal.
pub fn of_value(value: &Value) -> String {
    of_bytes(canonical(value).as_bytes())
}

/// SHA-256 in hexadecimal.
pub fn of_bytes(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// SHA-256 over files by name: equal exactly if names and contents are.
pub(crate) fn of_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Sha256::new();
    for (name, content) in files {
        for part in [name.as_bytes(), content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hex::encode(hash.finalize())
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (number, (key, item)) in entries.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write_scalar(&Value::String(key.clone()), text);
                text.push(':');
                write(item, text);
            }
            text.push('}');
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_scalar(value: &Value, text: &mut String) {
    write!(text, "{value}").expect("a String takes every text");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_count_and_everything_else_does() {
        let one = json!({"b": [1, {"y": null, "x": "q\"\n"}], "a": true});
        let other = json!({"a": true, "b": [1, {"x": "q\"\n", "y": null}]});
        assert_eq!(canonical(&one), r#"{"a":true,"b":[1,{"x":"q\"\n","y":null}]}"#);
        assert_eq!(of_value(&one), of_value(&other));
        assert_ne!(of_value(&json!("1")), of_value(&json!(1)));
        assert_ne!(of_files([("a", b"bc".as_slice())]), of_files([("ab", b"c".as_slice())]));
    }
}
