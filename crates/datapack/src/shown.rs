//! Cells as people read them.

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Instants in RFC 3339 with nanoseconds.
const INSTANT: &str = "%Y-%m-%dT%H:%M:%S%.9fZ";

/// A column whose cells can be shown: the formatter knows no names of zones, and every instant here is UTC as it is.
pub(crate) fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Timestamp(..) => cast(array, &DataType::Timestamp(TimeUnit::Nanosecond, None)),
        _ => Ok(array.clone()),
    }
}

/// Shows the cells of a plain column; `absent` stands for no value.
pub(crate) fn cells<'a>(
    plain: &'a dyn Array,
    options: &'a FormatOptions<'a>,
) -> Result<ArrayFormatter<'a>, ArrowError> {
    ArrayFormatter::try_new(plain, options)
}

pub(crate) const fn options(absent: &'static str) -> FormatOptions<'static> {
    FormatOptions::new().with_timestamp_format(Some(INSTANT)).with_null(absent)
}
