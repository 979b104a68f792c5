//! `GROUP BY` of text columns without hashing each row's text.
//!
//! The library hashes every row's text and looks for it in a table. The texts by which packs are grouped come from a file's
//! dictionary, so rows with the same text have the same view of it; here a text is hashed once for each batch. Only the
//! first of the two stages of an aggregation is replaced, and only what is computed, not what comes out: groups and the
//! state of each aggregate, which the second stage merges.

mod keys;

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, aggregate_expressions, evaluate_many};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties, ReplaceChildrenOptions,
};
use futures::TryStreamExt;

use self::keys::Keys;

/// Groups that are kept at once. With more of them the groups so far are handed to the second stage, which can use the disk.
const GROUPS: usize = 1 << 16;

/// Texts that hardly repeat: looking for views of them that were seen is only work.
const UNIQUE: &[&str] = &["SpanId", "ParentSpanId"];

/// Replaces the first stage of aggregations by text columns.
#[derive(Debug)]
pub struct GroupByViews;

impl PhysicalOptimizerRule for GroupByViews {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<AggregateExec>().and_then(ViewsExec::of) {
                Some(ours) => Transformed::yes(Arc::new(ours) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "group_by_views"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The first stage of an aggregation by text columns.
#[derive(Debug, Clone)]
struct ViewsExec {
    /// What is replaced: it says what is grouped and computed, and what comes out.
    aggregate: AggregateExec,
    /// Columns of the input, by their place.
    keys: Vec<usize>,
}

impl ViewsExec {
    /// Nothing when the aggregation is not one that can be replaced.
    fn of(aggregate: &AggregateExec) -> Option<Self> {
        let groups = aggregate.group_expr();
        let plain = *aggregate.mode() == AggregateMode::Partial
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && groups.is_single()
            && !groups.has_grouping_set()
            && aggregate.limit_options().is_none()
            && aggregate.dynamic_expressions_produced().is_empty()
            && aggregate.aggr_expr().iter().all(|one| one.order_bys().is_empty() && one.groups_accumulator_supported());
        let input = aggregate.input_schema();
        let text = |expr: &Arc<dyn PhysicalExpr>| {
            let column = expr.downcast_ref::<Column>()?;
            let text = *input.field(column.index()).data_type() == DataType::Utf8View;
            (text && !UNIQUE.contains(&column.name())).then_some(column.index())
        };
        let keys: Vec<usize> = groups.expr().iter().map(|(expr, _)| text(expr)).collect::<Option<_>>()?;
        (plain && !keys.is_empty()).then(|| Self { aggregate: aggregate.clone(), keys })
    }
}

impl DisplayAs for ViewsExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        self.aggregate.fmt_as(kind, f)
    }
}

impl ExecutionPlan for ViewsExec {
    fn name(&self) -> &str {
        "ViewsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::new(self.aggregate.clone()).replace_children(children, options)?;
        let aggregate = replaced.downcast_ref::<AggregateExec>().cloned();
        let aggregate =
            aggregate.ok_or_else(|| DataFusionError::Internal("an aggregation became something else".into()))?;
        Ok(Arc::new(Self { aggregate, keys: self.keys.clone() }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        use datafusion::physical_plan::ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(Recompute))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(visit)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.aggregate.input().execute(partition, context.clone())?;
        let consumer = MemoryConsumer::new(format!("groups of thread {partition}"));
        let groups = Groups::new(self, consumer.register(context.memory_pool()))?;
        let batches = futures::stream::try_unfold((input, groups, false), |(mut input, mut groups, done)| async move {
            if done {
                return Ok::<_, DataFusionError>(None);
            }
            while let Some(batch) = input.try_next().await? {
                groups.add(&batch)?;
                if groups.are_too_many() {
                    return Ok(Some((groups.take()?, (input, groups, false))));
                }
            }
            Ok(Some((groups.take()?, (input, groups, true))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// The groups of one thread and the state of each aggregate.
struct Groups {
    schema: SchemaRef,
    columns: Vec<usize>,
    keys: Keys,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// Group of each row of a batch.
    rows: Vec<usize>,
    memory: MemoryReservation,
    /// The memory was refused.
    refused: bool,
}

impl Groups {
    fn new(plan: &ViewsExec, memory: MemoryReservation) -> Result<Self> {
        let aggregates = plan.aggregate.aggr_expr();
        Ok(Self {
            schema: plan.schema(),
            columns: plan.keys.clone(),
            keys: Keys::new(plan.keys.len()),
            arguments: aggregate_expressions(aggregates, plan.aggregate.mode(), plan.keys.len())?,
            filters: plan.aggregate.filter_expr().to_vec(),
            accumulators: aggregates.iter().map(|one| one.create_groups_accumulator()).collect::<Result<_>>()?,
            rows: Vec::new(),
            memory,
            refused: false,
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<_> = self.columns.iter().map(|column| batch.column(*column).as_string_view()).collect();
        self.keys.group(&columns, &mut self.rows);
        let arguments = evaluate_many(&self.arguments, batch)?;
        for ((accumulator, arguments), filter) in self.accumulators.iter_mut().zip(arguments).zip(&self.filters) {
            let filter = filter.as_ref().map(|filter| chosen(filter, batch)).transpose()?;
            accumulator.update_batch(&arguments, &self.rows, filter.as_ref(), self.keys.len())?;
        }
        let used = self.keys.size() + self.accumulators.iter().map(|one| one.size()).sum::<usize>();
        // What the pool refuses is handed on and freed, as long as there is something to hand on.
        self.refused = self.memory.try_resize(used).is_err();
        Ok(())
    }

    fn are_too_many(&self) -> bool {
        self.refused || self.keys.len() >= GROUPS
    }

    /// The groups so far; none are left.
    fn take(&mut self) -> Result<RecordBatch> {
        let mut columns = self.keys.take();
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.memory.free();
        self.refused = false;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

fn chosen(filter: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    Ok(filter.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean().clone())
}
