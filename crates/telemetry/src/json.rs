//! OTLP/JSON to protobuf, in one pass and without a tree in between, so that from here on there is one format.
//!
//! Accepts what the specification says (ids in hex, 64-bit integers as text or number, enumerations as numbers) and what senders do
//! besides (enumerations by name, field names in snake case, `null` for what is absent). Unknown fields are ignored; fields that no
//! stored row holds are left out. The generated types' own JSON is not used: it refuses names of enumerations and unknown fields of a
//! value, and unfolds a request before anything limits it.
//!
//! Source: OTLP specification, section "JSON Protobuf Encoding"; protobuf's JSON mapping.

mod schema;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use model::{ErrorKind, Problem, Result};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Export;
use crate::ingest::of_another_kind;
use schema::{Field, Kind};

/// The protobuf of a request written as JSON.
///
/// # Errors
/// `otlp.request_malformed` with line and column.
pub(crate) fn to_protobuf(export: Export, json: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len() / 2);
    let mut reader = serde_json::Deserializer::from_slice(json);
    let fields = schema::request(export);
    let mut names = Names::default();
    let top = Message { fields, out: &mut out, names: Some(&mut names) };
    let read = top.deserialize(&mut reader).and_then(|is_object| reader.end().map(|()| is_object));
    let malformed = |found: String| {
        Problem::new(ErrorKind::Invalid, "otlp.request_malformed", "an OTLP request cannot be decoded")
            .found(format!("{} bytes: {found}", json.len()))
            .expected(format!("the JSON of one whole export request for {}", export.as_str()))
    };
    match read {
        Err(error) => Err(malformed(error.to_string()).cause(error)),
        Ok(false) => Err(malformed("null".into())),
        // An object without a member is a request without records. One that has others only is something else.
        Ok(true) if names.known == 0 && !names.unknown.is_empty() => Err(names.of_another_kind(export)),
        Ok(true) => Ok(out),
    }
}

/// The names of the members of a request.
#[derive(Default)]
struct Names {
    known: usize,
    /// The first few of the others.
    unknown: Vec<String>,
}

impl Names {
    /// Names that are kept, and characters of each.
    const KEPT: usize = 3;
    const LONGEST: usize = 40;

    fn note(&mut self, name: &str) {
        if self.unknown.len() < Self::KEPT {
            self.unknown.push(name.chars().take(Self::LONGEST).collect());
        }
    }

    fn of_another_kind(&self, export: Export) -> Problem {
        let is_of = |other: &Export| {
            let mut fields = schema::request(*other).iter();
            fields.any(|field| self.unknown.iter().any(|name| same_name(field.name, name)))
        };
        let field = schema::request(export)[0].name;
        match Export::ALL.into_iter().find(is_of) {
            Some(other) => of_another_kind(export, other.as_str()).fix(format!("send it to `/v1/{}`", other.as_str())),
            None => of_another_kind(export, "nothing that OTLP has")
                .found(format!("an object with {}", self.unknown.join(", "))),
        }
        .expected(format!("an object with `{field}`, or an empty one"))
    }
}

/// A JSON object to the fields of a message; says whether there was one, which `null` is not.
struct Message<'a> {
    fields: &'static [Field],
    out: &'a mut Vec<u8>,
    /// Where the names of its members are noted, for the outermost one.
    names: Option<&'a mut Names>,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let Self { fields, out, mut names } = self;
        while let Some(known) = map.next_key_seed(Name { fields, names: names.as_deref_mut() })? {
            match known {
                Some(field) => map.next_value_seed(Content { field, out })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(true)
    }
}

/// The field of a name; none when this version knows none.
struct Name<'a> {
    fields: &'static [Field],
    names: Option<&'a mut Names>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.fields.iter().find(|field| same_name(field.name, name));
        if let Some(names) = self.names {
            match field {
                Some(_) => names.known += 1,
                None => names.note(name),
            }
        }
        Ok(field)
    }
}

/// Whether `name` is the field's name in camel case or in snake case.
fn same_name(camel: &str, name: &str) -> bool {
    if camel == name {
        return true;
    }
    let snake =
        camel.chars().flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]));
    name.contains('_') && snake.eq(name.chars())
}

/// The value of a field, or each of its values.
struct Content<'a> {
    field: &'static Field,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if self.field.repeated { reader.deserialize_any(Repeated(self)) } else { self.one(reader) }
    }
}

struct Repeated<'a>(Content<'a>);

impl<'de> Visitor<'de> for Repeated<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array for `{}`", self.0.field.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Content { field, out } = self.0;
        while list.next_element_seed(One { field, out })?.is_some() {}
        Ok(())
    }
}

/// One value of a field.
struct One<'a> {
    field: &'static Field,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        Content { field: self.field, out: self.out }.one(reader)
    }
}

impl Content<'_> {
    fn one<'de, D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        let Self { field, out } = self;
        let Kind::Message(fields) = field.kind else { return reader.deserialize_any(Scalar { field, out }) };
        let before = out.len();
        encode_key(field.number, WireType::LengthDelimited, out);
        let start = out.len();
        if (Message { fields, out, names: None }).deserialize(reader)? {
            insert_length(out, start)
        } else {
            out.truncate(before)
        }
        Ok(())
    }
}

/// Puts the length of what stands from `start` on before it.
fn insert_length(out: &mut Vec<u8>, start: usize) {
    let mut length = Vec::with_capacity(5);
    encode_varint((out.len() - start) as u64, &mut length);
    out.splice(start..start, length);
}

/// A field that is no message.
struct Scalar<'a> {
    field: &'static Field,
    out: &'a mut Vec<u8>,
}

impl Scalar<'_> {
    fn varint(self, value: u64) {
        encode_key(self.field.number, WireType::Varint, self.out);
        encode_varint(value, self.out);
    }

    fn fixed64(self, bytes: [u8; 8]) {
        encode_key(self.field.number, WireType::SixtyFourBit, self.out);
        self.out.extend_from_slice(&bytes);
    }

    fn bytes(self, bytes: &[u8]) {
        encode_key(self.field.number, WireType::LengthDelimited, self.out);
        encode_varint(bytes.len() as u64, self.out);
        self.out.extend_from_slice(bytes);
    }

    fn wrong<E: Error>(&self, found: impl fmt::Display) -> E {
        E::custom(format_args!("`{}` cannot be {found}", self.field.name))
    }

    fn signed<E: Error>(self, value: i64) -> Result<(), E> {
        match self.field.kind {
            Kind::Double => self.fixed64((value as f64).to_le_bytes()),
            Kind::Int64 | Kind::Enum(_) => self.varint(value as u64),
            Kind::SFixed64 => self.fixed64(value.to_le_bytes()),
            Kind::Fixed64 | Kind::UInt32 if value >= 0 => return self.unsigned(value as u64),
            _ => return Err(self.wrong(value)),
        }
        Ok(())
    }

    fn unsigned<E: Error>(self, value: u64) -> Result<(), E> {
        match self.field.kind {
            Kind::Fixed64 => self.fixed64(value.to_le_bytes()),
            Kind::UInt32 if u32::try_from(value).is_ok() => self.varint(value),
            Kind::Double => self.fixed64((value as f64).to_le_bytes()),
            _ => match i64::try_from(value) {
                Ok(signed) if !matches!(self.field.kind, Kind::UInt32) => return self.signed(signed),
                _ => return Err(self.wrong(value)),
            },
        }
        Ok(())
    }
}

impl Visitor<'_> for Scalar<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for `{}`", self.field.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool => self.varint(value.into()),
            _ => return Err(self.wrong(value)),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.signed(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.unsigned(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            Kind::Double => self.fixed64(value.to_le_bytes()),
            // JavaScript writes large integers like this.
            _ if value.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(&value) => {
                return self.unsigned(value as u64);
            }
            _ if value.fract() == 0.0 && (-9_223_372_036_854_775_808.0..0.0).contains(&value) => {
                return self.signed(value as i64);
            }
            _ => return Err(self.wrong(value)),
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.field.kind {
            Kind::Text => self.bytes(text.as_bytes()),
            // What is no hex is no id: one byte is refused with its record, as an id of a wrong length is.
            Kind::Id => self.bytes(&unhex(text).unwrap_or(vec![0xff])),
            Kind::Bytes => match STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)) {
                Ok(bytes) => self.bytes(&bytes),
                Err(_) => return Err(self.wrong("text that is not base64")),
            },
            Kind::Enum(names) => match names.iter().find(|(name, _)| *name == text) {
                Some((_, number)) => self.varint(*number),
                None => return Err(self.wrong(format_args!("`{text}`"))),
            },
            Kind::Double => match text {
                "NaN" => self.fixed64(f64::NAN.to_le_bytes()),
                "Infinity" => self.fixed64(f64::INFINITY.to_le_bytes()),
                "-Infinity" => self.fixed64(f64::NEG_INFINITY.to_le_bytes()),
                _ => match text.parse::<f64>() {
                    Ok(value) => self.fixed64(value.to_le_bytes()),
                    Err(_) => return Err(self.wrong(format_args!("`{text}`"))),
                },
            },
            Kind::Fixed64 | Kind::SFixed64 | Kind::Int64 | Kind::UInt32 => {
                if let Ok(value) = text.parse() {
                    return self.unsigned(value);
                }
                return match text.parse() {
                    Ok(value) => self.signed(value),
                    Err(_) => Err(self.wrong(format_args!("`{text}`"))),
                };
            }
            Kind::Bool | Kind::Message(_) => return Err(self.wrong("text")),
        }
        Ok(())
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::common::any_value::Value;
    use crate::otlp::metrics::metric::Data;
    use crate::otlp::metrics::number_data_point;
    use crate::otlp::{ExportMetricsServiceRequest, ExportTraceServiceRequest, Message as _};

    #[test]
    fn every_way_of_writing_a_span_gives_the_same_bytes() {
        let spec = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a"}}]},
            "scopeSpans":[{"scope":{"name":"lib"},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174",
            "name":"n\"\u00fc","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
            "status":{"code":2,"message":"m"},"attributes":[{"key":"i","value":{"intValue":"-5"}},{"key":"e","value":{}},
            {"key":"l","value":{"arrayValue":{"values":[{"doubleValue":0.5},{"boolValue":true}]}}}]}]}]}]}"#;
        let other = spec
            .replace("\"kind\":2", "\"kind\":\"SPAN_KIND_SERVER\",\"news\":{\"x\":[1]},\"parentSpanId\":null")
            .replace("\"code\":2", "\"code\":\"STATUS_CODE_ERROR\"")
            .replace("\"1544712660000000000\"", "1544712660000000000")
            .replace("traceId", "trace_id")
            .replace("startTimeUnixNano", "start_time_unix_nano")
            .replace("\"-5\"", "-5");
        let bytes = to_protobuf(Export::Traces, spec.as_bytes()).unwrap();
        assert_eq!(to_protobuf(Export::Traces, other.as_bytes()).unwrap(), bytes);
        let request = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
        assert_eq!(request.encode_to_vec().len(), bytes.len());
        let span = &request.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!(span.trace_id[..2], [0x5b, 0x8e]);
        assert_eq!((span.kind, span.start_time_unix_nano, &*span.name), (2, 1_544_712_660_000_000_000, "n\"ü"));
        assert_eq!(span.attributes[0].value.as_ref().unwrap().value, Some(Value::IntValue(-5)));
    }

    #[test]
    fn numbers_of_points_keep_their_type() {
        let json = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
            {"name":"g","gauge":{"dataPoints":[{"asInt":"-3"},{"asInt":7},{"asDouble":1},{"asDouble":"NaN"}]}},
            {"name":"h","histogram":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_CUMULATIVE","dataPoints":[
              {"count":"3","sum":0,"bucketCounts":["1",2],"explicitBounds":[0.5]}]}}]}]}]}"#;
        let bytes = to_protobuf(Export::Metrics, json.as_bytes()).unwrap();
        let request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let Some(Data::Gauge(gauge)) = &metrics[0].data else { panic!("{metrics:?}") };
        use number_data_point::Value::{AsDouble, AsInt};
        let values: Vec<_> = gauge.data_points.iter().filter_map(|point| point.value).collect();
        assert_eq!(values[..3], [AsInt(-3), AsInt(7), AsDouble(1.0)]);
        assert!(matches!(values[3], AsDouble(value) if value.is_nan()));
        let Some(Data::Histogram(histogram)) = &metrics[1].data else { panic!("{metrics:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((histogram.aggregation_temporality, point.count, point.sum), (2, 3, Some(0.0)));
        assert_eq!((&point.bucket_counts[..], &point.explicit_bounds[..]), (&[1, 2][..], &[0.5][..]));
    }

    #[test]
    fn what_is_not_such_json_is_refused_with_its_place() {
        let span = |field: &str| format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{{{field}}}]}}]}}]}}");
        let wrong = [
            "{\"resourceSpans\":[".to_owned(),
            "[]".to_owned(),
            "{} trailing".to_owned(),
            "{\"resourceSpans\":{}}".to_owned(),
            span("\"startTimeUnixNano\":\"soon\""),
            span("\"startTimeUnixNano\":-1"),
            span("\"kind\":\"SERVER\""),
            span("\"name\":5"),
            "[".repeat(100_000),
        ];
        for json in wrong {
            let problem = to_protobuf(Export::Traces, json.as_bytes()).unwrap_err();
            assert_eq!(problem.code, "otlp.request_malformed");
            assert!(problem.to_string().contains("line 1 column"), "{problem}");
        }
        let odd = to_protobuf(Export::Traces, span("\"traceId\":\"xyz\"").as_bytes()).unwrap();
        let request = ExportTraceServiceRequest::decode(&odd[..]).unwrap();
        assert_eq!(request.resource_spans[0].scope_spans[0].spans[0].trace_id, [0xff]);
    }
}
