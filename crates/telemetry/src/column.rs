//! Columns in memory: filled from OTLP or from a segment, put in order, and given out as arrow arrays.
//!
//! Repeated text is held once. A [`Text`] column is a list of numbers into its own pool, so that sorting compares integers and
//! a segment is written without building one string per row.

mod text;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BinaryArray, Float64Array, ListArray,
    PrimitiveArray, StringBuilder, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Float64Type, TimeUnit, TimestampNanosecondType};
use model::{Problem, Result};

pub(crate) use text::Text;

/// Where an array goes: into a segment (dictionaries allowed), or to a reader (plain types).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Segment,
    Plain,
}

/// What the sorter, the writer and the reader need of any column.
pub(crate) trait Column: Send + Sync {
    fn data_type(&self, form: Form) -> DataType;

    fn nullable(&self) -> bool {
        false
    }

    /// Prepares quick comparison; called once before sorting.
    fn rank(&mut self) {}

    /// A total order on the values of two rows. Does not depend on the order in which the rows arrived.
    fn compare(&self, a: usize, b: usize) -> Ordering;

    fn take(&self, rows: &[u32], form: Form) -> ArrayRef;

    /// Appends the rows `keep` of an array that has this column's segment type.
    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()>;

    /// Bytes held, roughly; used to bound memory.
    fn bytes(&self) -> usize;

    /// Removes all rows and keeps the memory for the next ones.
    fn clear(&mut self);

    fn as_text(&self) -> Option<&Text> {
        None
    }

    /// The longest text of a row, used to keep a batch of plain strings below arrow's 2 GiB.
    fn longest(&self) -> usize {
        0
    }
}

/// The error for a segment whose columns are not what this version writes.
pub(crate) fn corrupt(what: impl Into<String>) -> Problem {
    Problem::internal("telemetry.segment_corrupt", "a segment of the signal store cannot be read").found(what)
}

/// A fixed number of bytes, in a segment as they are and for a reader as lower-case hexadecimal; all zero means absent and is shown as the
/// empty text.
#[derive(Default)]
pub(crate) struct Hex<const N: usize>(Vec<[u8; N]>);

impl<const N: usize> Hex<N> {
    pub fn push(&mut self, id: [u8; N]) {
        self.0.push(id);
    }
}

impl<const N: usize> Column for Hex<N> {
    fn data_type(&self, form: Form) -> DataType {
        match form {
            Form::Segment => DataType::Binary,
            Form::Plain => DataType::Utf8,
        }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.0[a].cmp(&self.0[b])
    }

    fn take(&self, rows: &[u32], form: Form) -> ArrayRef {
        let present = |row: &u32| Some(&self.0[*row as usize]).filter(|id| **id != [0; N]);
        if form == Form::Segment {
            return Arc::new(BinaryArray::from_iter_values(
                rows.iter().map(|row| present(row).map_or(&[][..], |id| id)),
            ));
        }
        let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * N * 2);
        let mut text = String::with_capacity(N * 2);
        for row in rows {
            text.clear();
            for byte in present(row).into_iter().flatten() {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                text.push(DIGITS[usize::from(byte >> 4)] as char);
                text.push(DIGITS[usize::from(byte & 15)] as char);
            }
            builder.append_value(&text);
        }
        Arc::new(builder.finish())
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = array.as_binary_opt::<i32>().ok_or_else(|| corrupt("an id that is not binary"))?;
        for &row in keep {
            let bytes = array.value(row as usize);
            let id = if bytes.is_empty() { Ok([0; N]) } else { bytes.try_into() };
            self.0.push(id.map_err(|_| corrupt("an id of wrong length"))?);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.len() * N
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn longest(&self) -> usize {
        N * 2
    }
}

/// Instants, nanoseconds since the Unix epoch, UTC.
#[derive(Default)]
pub(crate) struct Times(pub Vec<i64>);

impl Times {
    pub fn push(&mut self, nanos: i64) {
        self.0.push(nanos);
    }

    /// The same instants cut to whole seconds, as milliseconds because parquet has no unit of a second.
    pub fn whole_seconds(&self, rows: &[u32]) -> ArrayRef {
        let millis = rows.iter().map(|&row| self.0[row as usize].div_euclid(1_000_000_000) * 1000);
        Arc::new(TimestampMillisecondArray::from_iter_values(millis).with_timezone("UTC"))
    }
}

impl Column for Times {
    fn data_type(&self, _: Form) -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.0[a].cmp(&self.0[b])
    }

    fn take(&self, rows: &[u32], _: Form) -> ArrayRef {
        let nanos = rows.iter().map(|&row| self.0[row as usize]);
        Arc::new(TimestampNanosecondArray::from_iter_values(nanos).with_timezone("UTC"))
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = times(array)?;
        self.0.extend(keep.iter().map(|&row| array.value(row as usize)));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The array of a [`Times`] column.
pub(crate) fn times(array: &dyn Array) -> Result<&TimestampNanosecondArray> {
    array.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| corrupt("a time that is not in nanoseconds"))
}

/// Plain numbers.
pub(crate) struct Numbers<T: ArrowPrimitiveType>(Vec<T::Native>);

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    pub fn push(&mut self, value: T::Native) {
        self.0.push(value);
    }
}

impl<T: ArrowPrimitiveType> Column for Numbers<T> {
    fn data_type(&self, _: Form) -> DataType {
        T::DATA_TYPE
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        ArrowNativeTypeOp::compare(self.0[a], self.0[b])
    }

    fn take(&self, rows: &[u32], _: Form) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(rows.iter().map(|&row| self.0[row as usize])))
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = array.as_primitive_opt::<T>().ok_or_else(|| corrupt("a number of another type"))?;
        self.0.extend(keep.iter().map(|&row| array.value(row as usize)));
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Numbers that OTLP allows to be absent.
#[derive(Default)]
pub(crate) struct Optional(Vec<Option<f64>>);

impl Optional {
    pub fn push(&mut self, value: Option<f64>) {
        self.0.push(value);
    }
}

impl Column for Optional {
    fn data_type(&self, _: Form) -> DataType {
        DataType::Float64
    }

    fn nullable(&self) -> bool {
        true
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        match (self.0[a], self.0[b]) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    fn take(&self, rows: &[u32], _: Form) -> ArrayRef {
        Arc::new(rows.iter().map(|&row| self.0[row as usize]).collect::<Float64Array>())
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = array.as_primitive_opt::<Float64Type>().ok_or_else(|| corrupt("a number of another type"))?;
        self.0.extend(keep.iter().map(|&row| array.is_valid(row as usize).then(|| array.value(row as usize))));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.len() * 16
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A list of numbers in each row.
pub(crate) struct Lists<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    ends: Vec<usize>,
}

impl<T: ArrowPrimitiveType> Default for Lists<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ends: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> Lists<T> {
    pub fn push(&mut self, values: &[T::Native]) {
        self.values.extend_from_slice(values);
        self.ends.push(self.values.len());
    }

    fn get(&self, row: usize) -> &[T::Native] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.values[start..self.ends[row]]
    }

    fn item() -> Arc<Field> {
        Arc::new(Field::new("item", T::DATA_TYPE, false))
    }
}

impl<T: ArrowPrimitiveType> Column for Lists<T> {
    fn data_type(&self, _: Form) -> DataType {
        DataType::List(Self::item())
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.get(a), self.get(b));
        let unequal = a.iter().zip(b).map(|(&a, &b)| ArrowNativeTypeOp::compare(a, b)).find(|order| order.is_ne());
        unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
    }

    fn take(&self, rows: &[u32], _: Form) -> ArrayRef {
        let lists = rows.iter().map(|&row| self.get(row as usize));
        let offsets = OffsetBuffer::from_lengths(lists.clone().map(<[_]>::len));
        let values: ScalarBuffer<T::Native> = lists.flatten().copied().collect();
        Arc::new(ListArray::new(Self::item(), offsets, Arc::new(PrimitiveArray::<T>::new(values, None)), None))
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = array.as_list_opt::<i32>().ok_or_else(|| corrupt("a list that is none"))?;
        for &row in keep {
            let list = array.value(row as usize);
            self.push(list.as_primitive_opt::<T>().ok_or_else(|| corrupt("a list of another type"))?.values());
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice()) + self.ends.len() * 8
    }

    fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
    }
}
