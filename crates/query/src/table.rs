//! One signal of many packs as a table.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datapack::Signal;
use model::Window;
use serde::{Deserialize, Serialize};

use crate::complaint::carry;
use crate::file::{At, Files};
use crate::schema::{Strict, file_schema};
use crate::session::store_url;

/// The columns that say where a row comes from.
pub const PACK: &str = "pack";
pub const WINDOW: &str = "window";

/// A pack that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackFolder {
    /// What the column `pack` says.
    pub name: String,
    /// The open part, relative to the folder of the packs.
    pub open: PathBuf,
}

/// All packs that a query is about.
#[derive(Debug)]
pub struct Packs {
    pub root: PathBuf,
    pub folders: Vec<PackFolder>,
}

#[derive(Debug)]
pub struct SignalTable {
    signal: Signal,
    packs: Arc<Packs>,
    columns: TableSchema,
}

impl SignalTable {
    pub fn new(signal: Signal, packs: Arc<Packs>) -> Self {
        let added = [PACK, WINDOW].map(|name| Arc::new(Field::new(name, DataType::Utf8View, false)));
        let columns = TableSchema::builder(file_schema(signal)).with_table_partition_cols(added.to_vec()).build();
        Self { signal, packs, columns }
    }

    /// The files that the filters leave, in the order of the packs.
    fn files(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let all: Vec<(&PackFolder, Window)> =
            self.packs.folders.iter().flat_map(|pack| Window::BOTH.map(|window| (pack, window))).collect();
        let wanted = wanted(state, &all, filters)?;
        all.into_iter()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted)
            .map(|((pack, window), _)| self.file(pack, window))
            .collect()
    }

    fn file(&self, pack: &PackFolder, window: Window) -> Result<PartitionedFile> {
        let path = pack.open.join(self.signal.file(window));
        let bytes = datapack::file_size(&self.packs.root.join(&path)).map_err(carry)?;
        let values = [pack.name.as_str(), window.as_str()].map(|text| ScalarValue::Utf8View(Some(text.to_owned())));
        let file = PartitionedFile::new(path.to_string_lossy(), bytes).with_partition_values(values.to_vec());
        Ok(file.with_extension(At(path)))
    }
}

/// Which files the filters on `pack` and `window` leave.
fn wanted(state: &dyn Session, all: &[(&PackFolder, Window)], filters: &[Expr]) -> Result<Vec<bool>> {
    let mut wanted = vec![true; all.len()];
    if filters.is_empty() {
        return Ok(wanted);
    }
    let fields = [PACK, WINDOW].map(|name| Field::new(name, DataType::Utf8View, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let packs: StringViewArray = all.iter().map(|(pack, _)| Some(pack.name.as_str())).collect();
    let windows: StringViewArray = all.iter().map(|(_, window)| Some(window.as_str())).collect();
    let arrays: Vec<ArrayRef> = vec![Arc::new(packs), Arc::new(windows)];
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    let named = DFSchema::try_from(schema)?;
    for filter in filters {
        let verdict = state.create_physical_expr(unqualified(filter)?, &named)?.evaluate(&batch)?;
        let verdict = verdict.into_array(all.len())?;
        let verdict = verdict.as_boolean();
        for (row, wanted) in wanted.iter_mut().enumerate() {
            *wanted &= verdict.is_valid(row) && verdict.value(row);
        }
    }
    Ok(wanted)
}

/// The filter without the table's name before its columns.
fn unqualified(filter: &Expr) -> Result<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = |expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    Ok(filter.clone().transform(bare)?.data)
}

/// Whether a filter asks only where a row comes from.
fn of_place(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty()
        && columns.iter().all(|column| [PACK, WINDOW].contains(&column.name.as_str()))
        && !filter.is_volatile()
}

#[async_trait]
impl TableProvider for SignalTable {
    fn schema(&self) -> SchemaRef {
        self.columns.table_schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Filters on other columns reach the scan as well, but later, when the plan is optimised.
        let answer = |filter: &&Expr| match of_place(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.files(state, filters)?;
        let options = state.table_options().parquet.clone();
        let source = ParquetSource::new(self.columns.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(Files(self.packs.clone())));
        let config = FileScanConfigBuilder::new(store_url(), Arc::new(source))
            .with_file_groups(groups(files, state.config().target_partitions()))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_expr_adapter(Some(Arc::new(Strict)))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// The files in groups of about the same size, one for each thread.
fn groups(mut files: Vec<PartitionedFile>, threads: usize) -> Vec<FileGroup> {
    files.sort_by_key(|file| std::cmp::Reverse(file.object_meta.size));
    let mut groups: Vec<(u64, Vec<PartitionedFile>)> = vec![(0, Vec::new()); threads.clamp(1, files.len().max(1))];
    for file in files {
        let smallest = groups.iter_mut().min_by_key(|(bytes, _)| *bytes).expect("there is one group at least");
        smallest.0 += file.object_meta.size;
        smallest.1.push(file);
    }
    groups.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
}
