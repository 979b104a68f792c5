//! Rows as JSON: one array for each.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::answer::Column;

/// A column in words that do not depend on a memory layout.
pub fn column(field: &Field) -> Column {
    Column { name: field.name().clone(), kind: kind(field.data_type()) }
}

fn kind(found: &DataType) -> String {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        DataType::Timestamp(..) => "timestamp".into(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("list of {}", kind(item.data_type()))
        }
        DataType::Dictionary(_, value) => kind(value),
        DataType::Boolean => "boolean".into(),
        DataType::Null => "null".into(),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "decimal".into()
        }
        other => other.to_string().to_lowercase(),
    }
}

/// The rows, one line for each.
///
/// Whole numbers keep all their digits. What JSON has no form for is a text: instants in RFC 3339 with nanoseconds,
/// decimals, intervals, and `inf`, `-inf` and `NaN`.
pub fn lines(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let writers = batch.columns().iter().map(writer).collect::<Result<Vec<_>, _>>()?;
    let mut text = Vec::with_capacity(batch.num_rows() * 32);
    for row in 0..batch.num_rows() {
        text.push(b'[');
        for (index, write) in writers.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            write(row, &mut text)?;
        }
        text.extend_from_slice(b"]\n");
    }
    Ok(text)
}

type Writer<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<(), ArrowError> + 'a>;

fn writer(array: &ArrayRef) -> Result<Writer<'_>, ArrowError> {
    macro_rules! number {
        ($kind:ty) => {{
            let array = array.as_primitive::<$kind>();
            value(array, |row, text| {
                text.extend_from_slice(array.value(row).to_string().as_bytes());
                Ok(())
            })
        }};
    }
    macro_rules! fraction {
        ($kind:ty) => {{
            let array = array.as_primitive::<$kind>();
            value(array, |row, text| float(f64::from(array.value(row)), text))
        }};
    }
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, text| {
            text.extend_from_slice(b"null");
            Ok(())
        }),
        DataType::Boolean => {
            let array = array.as_boolean();
            value(array, |row, text| json(&array.value(row), text))
        }
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => fraction!(Float16Type),
        DataType::Float32 => fraction!(Float32Type),
        DataType::Float64 => fraction!(Float64Type),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            value(array, |row, text| json(array.value(row), text))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            value(array, |row, text| json(array.value(row), text))
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let items = writer(lists.values())?;
            let write = move |row: usize, text: &mut Vec<u8>| {
                let offsets = lists.value_offsets();
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                text.push(b'[');
                for item in from..to {
                    if item > from {
                        text.push(b',');
                    }
                    items(item, text)?;
                }
                text.push(b']');
                Ok(())
            };
            value(lists, write)
        }
        _ => {
            let shown = ArrayFormatter::try_new(array, &OPTIONS)?;
            value(array.as_ref(), move |row, text| json(&shown.value(row).try_to_string()?, text))
        }
    })
}

static OPTIONS: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%S%.9fZ"))
    .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.9f"));

/// JSON has no word for what is no finite number; it is a text, so that it is told from a value that is missing.
fn float(number: f64, text: &mut Vec<u8>) -> Result<(), ArrowError> {
    if number.is_finite() { json(&number, text) } else { json(&number.to_string(), text) }
}

/// `null` where there is none.
fn value<'a>(array: &'a dyn Array, write: impl Fn(usize, &mut Vec<u8>) -> Result<(), ArrowError> + 'a) -> Writer<'a> {
    Box::new(move |row, text| {
        if array.is_null(row) {
            text.extend_from_slice(b"null");
            return Ok(());
        }
        write(row, text)
    })
}

fn json<T: serde::Serialize + ?Sized>(value: &T, text: &mut Vec<u8>) -> Result<(), ArrowError> {
    serde_json::to_writer(text, value).map_err(|error| ArrowError::JsonError(error.to_string()))
}
