//! What a query runs in: the tables, the limits, and nothing that leads elsewhere.

use std::path::Path;
use std::sync::Arc;

use datafusion::datasource::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::prelude::{SessionConfig, SessionContext};
use datapack::Signal;
use model::{Problem, Result};

use crate::answer::{Limits, threads};
use crate::attribute::Attribute;
use crate::grouping::GroupByViews;
use crate::table::{Packs, SignalTable};

/// The one place where files are: the folder of the packs.
pub fn store_url() -> ObjectStoreUrl {
    ObjectStoreUrl::parse("packs://all").expect("the address is a constant that was tried")
}

/// How many of the largest users of memory an error names.
const CONSUMERS_NAMED: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN;

pub fn context(packs: &Arc<Packs>, limits: &Limits, spill: &Path) -> Result<SessionContext> {
    let failed = |error| Problem::internal("query.no_session", "the query cannot be prepared").cause(error);
    let files = LocalFileSystem::new_with_prefix(&packs.root).map_err(|error| {
        Problem::internal("query.no_packs", "the folder of the datapacks cannot be read")
            .place(packs.root.display().to_string())
            .cause(error)
    })?;
    let registry = DefaultObjectStoreRegistry::new();
    // It begins with the whole disk.
    registry.deregister_store(ObjectStoreUrl::local_filesystem().as_ref()).map_err(failed)?;
    registry.register_store(store_url().as_ref(), Arc::new(files));
    let pool = TrackConsumersPool::new(FairSpillPool::new(limits.memory), CONSUMERS_NAMED);
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(registry))
        .with_memory_pool(Arc::new(pool))
        .with_temp_file_path(spill)
        .with_max_temp_directory_size(limits.spill)
        .build_arc()
        .map_err(failed)?;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config(limits))
        .with_runtime_env(runtime)
        .with_table_factories(Default::default())
        .with_physical_optimizer_rule(Arc::new(GroupByViews))
        .build();
    let context = SessionContext::new_with_state(state);
    context.register_udf(ScalarUDF::from(Attribute::new()));
    for signal in Signal::ALL {
        let table = SignalTable::new(signal, packs.clone());
        context.register_table(signal.as_str(), Arc::new(table)).map_err(failed)?;
    }
    Ok(context)
}

/// Memory that a thread of a sort needs at least; with less there are fewer threads.
const SHARE: usize = 64 << 20;

/// Rows of a batch: of wide rows, about a kilobyte each, a batch takes a sixteenth of a thread's memory at most. A sort that
/// goes to disk holds several batches of each of the files that it merges.
const BATCH: std::ops::RangeInclusive<usize> = 512..=8192;

fn config(limits: &Limits) -> SessionConfig {
    let threads = (limits.memory / SHARE).clamp(1, threads());
    let share = limits.memory / threads;
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_target_partitions(threads)
        .with_batch_size((share / (16 << 10)).clamp(*BATCH.start(), *BATCH.end()));
    let options = config.options_mut();
    // The columns have capitals; folding them to lower case would ask for quotes around each of them.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;
    // What a sort keeps for merging.
    options.execution.sort_spill_reservation_bytes = share / 8;
    // Rows are filtered while they are decoded: a query usually wants few of them and the attributes are long.
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.reorder_filters = true;
    config
}
