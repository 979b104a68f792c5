//! Attributes, borrowed from where they came from: a request's bytes or a message in memory.

use std::borrow::Cow;

use prost::Message;

use crate::limits::Limits;
use crate::otlp::common::any_value::Value as Any;
use crate::otlp::common::{AnyValue, KeyValue};
use crate::refusal::Refusal;
use crate::wire::{self, Field, Fields};

/// One attribute.
#[derive(Debug, Clone)]
pub(crate) struct Attribute<'a> {
    pub key: &'a str,
    pub value: Value<'a>,
}

/// The value of an attribute, or the body of a log record.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Empty,
    Text(&'a str),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
    /// An array or a map.
    Nested(Cow<'a, Any>),
}

impl<'a> Value<'a> {
    pub fn of(value: Option<&'a AnyValue>) -> Self {
        match value.and_then(|value| value.value.as_ref()) {
            // OTLP: an index is only for profiles; elsewhere it counts as an empty value.
            None | Some(Any::StringValueStrindex(_)) => Self::Empty,
            Some(Any::StringValue(text)) => Self::Text(text),
            Some(Any::BoolValue(flag)) => Self::Bool(*flag),
            Some(Any::IntValue(number)) => Self::Int(*number),
            Some(Any::DoubleValue(number)) => Self::Double(*number),
            Some(Any::BytesValue(bytes)) => Self::Bytes(bytes),
            Some(nested @ (Any::ArrayValue(_) | Any::KvlistValue(_))) => Self::Nested(Cow::Borrowed(nested)),
        }
    }

    /// Reads an `AnyValue`. A nested one longer than `limit` is refused before it is unfolded.
    pub fn read(message: &'a [u8], limit: usize) -> Result<Self, Refusal> {
        let mut fields = Fields::of(message);
        let mut value = Self::Empty;
        while let Some(field) = fields.next()? {
            value = match field {
                (1, Field::Bytes(text)) => Self::Text(wire::text(text)?),
                (2, Field::Varint(flag)) => Self::Bool(flag != 0),
                (3, Field::Varint(number)) => Self::Int(number as i64),
                (4, Field::Fixed64(number)) => Self::Double(f64::from_bits(number)),
                (5 | 6, Field::Bytes(_)) if message.len() > limit => return Err(Refusal::ValueLength),
                (5 | 6, Field::Bytes(_)) => {
                    let value = AnyValue::decode(message).map_err(|_| Refusal::Malformed)?;
                    return Ok(value.value.map_or(Self::Empty, |value| Self::Nested(Cow::Owned(value))));
                }
                (7, Field::Bytes(bytes)) => Self::Bytes(bytes),
                _ => value,
            };
        }
        Ok(value)
    }

    /// Bytes of the value, nested ones apart, which were checked when they were read.
    pub fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl<'a> Attribute<'a> {
    /// Reads a `KeyValue`.
    fn read(message: &'a [u8], limit: usize) -> Result<Self, Refusal> {
        let mut fields = Fields::of(message);
        let (mut key, mut value) = ("", Value::Empty);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(text)) => key = wire::text(text)?,
                (2, Field::Bytes(any)) => value = Value::read(any, limit)?,
                _ => {}
            }
        }
        Ok(Self { key, value })
    }
}

/// The attributes of one record, in a list that is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Attributes<'a> {
    list: Vec<Attribute<'a>>,
    /// The order of the list: the first bytes of each key and its place.
    order: Vec<(u64, u32)>,
}

impl<'a> Attributes<'a> {
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds one as it came over the wire.
    #[inline]
    pub fn read(&mut self, message: &'a [u8], limits: &Limits) -> Result<(), Refusal> {
        let attribute = Attribute::read(message, limits.value_bytes)?;
        self.push(attribute, limits)
    }

    /// Takes those of a message in memory.
    pub fn set(&mut self, list: &'a [KeyValue], limits: &Limits) -> Result<(), Refusal> {
        self.clear();
        let attribute = |pair: &'a KeyValue| Attribute { key: &pair.key, value: Value::of(pair.value.as_ref()) };
        list.iter().try_for_each(|pair| self.push(attribute(pair), limits))
    }

    #[inline]
    fn push(&mut self, attribute: Attribute<'a>, limits: &Limits) -> Result<(), Refusal> {
        if self.list.len() >= limits.attributes {
            return Err(Refusal::AttributeCount);
        }
        if attribute.value.length() > limits.value_bytes || attribute.key.len() > limits.key_bytes {
            return Err(Refusal::ValueLength);
        }
        self.list.push(attribute);
        Ok(())
    }

    pub fn list(&self) -> &[Attribute<'a>] {
        &self.list
    }

    /// In the order of their keys; equal keys stay in the order in which they came.
    pub fn sorted(&mut self) -> impl ExactSizeIterator<Item = &Attribute<'a>> + Clone {
        let Self { list, order } = self;
        order.clear();
        order.extend(list.iter().zip(0..).map(|(attribute, at)| (first_bytes(attribute.key), at)));
        // Most keys differ in their first bytes, and numbers are compared more quickly than texts.
        order.sort_unstable_by(|a, b| {
            let whole = || list[a.1 as usize].key.cmp(list[b.1 as usize].key);
            a.0.cmp(&b.0).then_with(whole).then(a.1.cmp(&b.1))
        });
        order.iter().map(|&(_, at)| &list[at as usize])
    }

    /// The text of an attribute. Of a repeated key the last value counts.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        match self.list.iter().rev().find(|attribute| attribute.key == key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The first eight bytes of a key as a number that sorts as they do; what is missing counts as zero.
fn first_bytes(key: &str) -> u64 {
    let bytes = key.as_bytes();
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => bytes.iter().zip(1..).fold(0, |sum, (&byte, place)| sum | u64::from(byte) << (64 - 8 * place)),
    }
}
