//! `attr(column, 'key')`: one value of a JSON object in a text column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// The function. Takes a text and a constant key; gives the key's text, or nothing when the object has no such key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Attribute {
    signature: Signature,
}

impl Attribute {
    pub fn new() -> Self {
        Self { signature: Signature::string(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Attribute {
    fn name(&self) -> &str {
        "attr"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, key] = &args.args[..] else {
            return Err(DataFusionError::Execution("attr takes a column and a key".into()));
        };
        let ColumnarValue::Scalar(key) = key else {
            return Err(DataFusionError::Execution("the key of attr must be a constant text".into()));
        };
        // As everywhere in SQL, what is asked with no value has none.
        let Some(key) = key.try_as_str().flatten() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(None)));
        };
        let whole = matches!(texts, ColumnarValue::Scalar(_));
        let texts = cast(&texts.to_array(args.number_rows)?, &DataType::Utf8View)?;
        let values = values(texts.as_string_view(), key);
        if whole && !values.is_empty() {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

/// Rows that follow each other often have the same object; it is read once for each run of them.
fn values(texts: &StringViewArray, key: &str) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    let mut last: Option<(&str, Option<String>)> = None;
    for row in 0..texts.len() {
        if texts.is_null(row) {
            builder.append_null();
            continue;
        }
        let text = texts.value(row);
        if last.as_ref().is_none_or(|(before, _)| *before != text) {
            last = Some((text, value(text, key)));
        }
        builder.append_option(last.as_ref().and_then(|(_, value)| value.as_deref()));
    }
    builder.finish()
}

/// The text behind a key; numbers and booleans as they are written.
fn value(text: &str, key: &str) -> Option<String> {
    struct Find<'a>(&'a str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<Key<'de>>()? {
                if key.0 == self.0 {
                    found = match map.next_value::<serde_json::Value>()? {
                        serde_json::Value::String(text) => Some(text),
                        serde_json::Value::Null => None,
                        other => Some(other.to_string()),
                    };
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde::Deserializer::deserialize_map(&mut reader, Find(key)).ok().flatten()
}

/// A key that is copied only when it has escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_to_its_text() {
        let text = r#"{"a.b":"x","n":5,"é\"":"q","none":null}"#;
        assert_eq!(value(text, "a.b").as_deref(), Some("x"));
        assert_eq!(value(text, "n").as_deref(), Some("5"));
        assert_eq!(value(text, "é\"").as_deref(), Some("q"));
        for (text, key) in [(text, "none"), (text, "a"), ("[1]", "a"), ("{", "a"), ("", "a")] {
            assert_eq!(value(text, key), None, "{text} {key}");
        }
    }
}
