//! Writes the rows of each partition of a plan to data files.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, OrderingRequirements, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use uuid::Uuid;

use super::data_files::{DataFileWriter, WriteOptions};
use super::execution::{Execution, Live};
use super::insert::Rows;
use super::records;
use crate::error::Result;
use crate::spec::ContentFile;
use crate::table::Table;

/// Writes rows to data files, which nobody sees yet: a row out says which they are.
#[derive(Debug, Clone)]
pub(super) struct IcebergWriteExec {
    input: Arc<dyn ExecutionPlan>,
    table: Table,
    /// How the rows are dealt out and sorted.
    rows: Rows,
    /// Whether rows come with their ids.
    row_lineage: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IcebergWriteExec {
    /// The input has the columns of the table.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, table: Table, rows: Rows, row_lineage: bool) -> Self {
        let properties = properties(&input);
        Self { input, table, rows, row_lineage, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn writer(&self, partition: usize, operation: Option<Uuid>) -> Result<DataFileWriter> {
        let options = WriteOptions {
            partition,
            operation,
            sort_order_id: self.rows.sort_order_id,
            row_lineage: self.row_lineage,
            // One partition follows the other.
            max_open_files: if self.rows.order.is_some() {
                1
            } else {
                WriteOptions::default().max_open_files
            },
            ..WriteOptions::default()
        };
        DataFileWriter::new(&self.table, options)
    }
}

fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    let partitions = input.properties().output_partitioning().partition_count();
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(records::schema()),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for IcebergWriteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "IcebergWriteExec: table={}", self.table.name())
    }
}

impl ExecutionPlan for IcebergWriteExec {
    fn name(&self) -> &'static str {
        "IcebergWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let distribution = match self.rows.keys.is_empty() {
            true => Distribution::UnspecifiedDistribution,
            false => Distribution::KeyPartitioned(self.rows.keys.clone()),
        };
        InputDistributionRequirements::new(vec![distribution])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.rows.order.clone().map(OrderingRequirements::from)]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for key in &self.rows.keys {
            recursion = recursion.visit_sibling(|| f(key))?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self { properties: properties(&input), input, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let spec_id = self.table.metadata().default_spec_id;
        let consumer = MemoryConsumer::new(format!("IcebergWriteExec[{partition}]")).with_can_spill(true);
        let execution = Execution::of(&context);
        let mut writing = Writing {
            writer: Some(self.writer(partition, execution.as_ref().map(|e| e.operation))?),
            live: execution.as_ref().map(Execution::enter),
            memory: consumer.register(context.memory_pool()),
            rows: MetricBuilder::new(&self.metrics).counter("rows_written", partition),
            files: MetricBuilder::new(&self.metrics).counter("files_written", partition),
            bytes: MetricBuilder::new(&self.metrics).counter("bytes_written", partition),
            elapsed: MetricBuilder::new(&self.metrics).elapsed_compute(partition),
        };
        let mut input = self.input.execute(partition, context)?;
        let table = self.table.clone();
        let written = async move {
            while let Some(batch) = input.next().await {
                writing.write(&batch?).await?;
            }
            let files = writing.finish().await?;
            if execution.is_some_and(|execution| !execution.wrote(&files)) {
                if let Some(live) = &writing.live {
                    live.too_late(files);
                }
                return Err(DataFusionError::Execution("the statement has failed elsewhere".to_owned()));
            }
            Ok(records::encode(&table, spec_id, &files)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(records::schema(), futures::stream::once(written))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A partition that is being written.
struct Writing {
    /// Until it is closed.
    writer: Option<DataFileWriter>,
    live: Option<Live>,
    memory: MemoryReservation,
    rows: Count,
    files: Count,
    bytes: Count,
    elapsed: Time,
}

impl Writing {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let timer = self.elapsed.timer();
        writer.write(batch).await?;
        self.rows.add(batch.num_rows());
        // What the pool does not have is written out.
        while self.memory.try_resize(writer.memory()).is_err() {
            if !writer.flush_largest().await? {
                break;
            }
        }
        timer.done();
        Ok(())
    }

    /// Ends the files. Its writer stays until that is done, so that it can be stopped.
    async fn finish(&mut self) -> Result<Vec<ContentFile>> {
        let Some(writer) = &mut self.writer else { return Ok(Vec::new()) };
        let timer = self.elapsed.timer();
        let files = writer.finish().await?;
        timer.done();
        self.writer = None;
        self.files.add(files.len());
        let bytes = files.iter().filter_map(|file| usize::try_from(file.file_size_in_bytes).ok());
        bytes.for_each(|bytes| self.bytes.add(bytes));
        Ok(files)
    }
}

/// Rows that failed on the way, or that nobody waits for any more.
impl Drop for Writing {
    fn drop(&mut self) {
        if let (Some(writer), Some(live)) = (self.writer.take(), &self.live) {
            live.stop(writer);
        }
    }
}
