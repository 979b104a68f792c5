//! The columns of a signal's files as a query sees them, and the refusal of files that have others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datapack::Signal;

/// The signal's columns, with texts as views into the decoded pages: nothing is copied until it is needed.
pub fn file_schema(signal: Signal) -> SchemaRef {
    let view = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        _ => field.clone(),
    };
    Arc::new(Schema::new(signal.table().schema().fields().iter().map(view).collect::<Vec<_>>()))
}

/// A file's column has another type than the table's. Where it is, is found out afterwards: only then it matters.
#[derive(Debug)]
pub struct OtherColumns;

impl std::fmt::Display for OtherColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a file has other columns than the format")
    }
}

impl std::error::Error for OtherColumns {}

/// Takes files that have exactly the table's columns. The library's own adapter would cast what does not fit, and fill
/// what is missing with nothing; both would be answers about data that is not there.
#[derive(Debug)]
pub struct Strict;

impl PhysicalExprAdapterFactory for Strict {
    fn create(&self, wanted: SchemaRef, found: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let fits = |field: &Arc<Field>| {
            found.field_with_name(field.name()).is_ok_and(|found| same(field.data_type(), found.data_type()))
        };
        if !wanted.fields().iter().all(fits) {
            return Err(DataFusionError::External(Box::new(OtherColumns)));
        }
        DefaultPhysicalExprAdapterFactory.create(wanted, found)
    }
}

/// Whether two types hold the same values: texts may be laid out differently.
fn same(a: &DataType, b: &DataType) -> bool {
    let text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same(a.data_type(), b.data_type()),
        _ => a == b || (text(a) && text(b)),
    }
}
