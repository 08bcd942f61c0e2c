//! The shell's session and running one statement in it.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{LogicalPlan, WriteOp};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use futures::TryStreamExt;
use icefloe::spec::RowLevelOperation;
use icefloe::sql::{IcebergSql, enable_url_table, row_level_operation, session_state_builder};

use crate::args::{Args, Format, MaxRows};
use crate::config::Config;
use crate::output::output;
use crate::print::print_stream;
use crate::progress::Progress;

/// How results are printed; commands change it.
#[derive(Debug, Clone, Copy)]
pub struct Printing {
    /// The format of results.
    pub format: Format,
    /// How many rows of a table are shown.
    pub maxrows: MaxRows,
    /// Results only.
    pub quiet: bool,
}

impl Printing {
    fn is_table(self) -> bool {
        matches!(self.format, Format::Table | Format::Automatic)
    }

    /// Says something about a result, unless quiet: next to a table, but never inside CSV or JSON.
    fn remark(self, remark: &str) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        if self.is_table() {
            writeln!(output(), "{remark}\n")?;
        } else {
            writeln!(std::io::stderr(), "{remark}")?;
        }
        Ok(())
    }
}

/// A session with its way of printing.
#[derive(Clone)]
pub struct Shell {
    /// The session.
    pub context: SessionContext,
    /// How results are printed.
    pub printing: Printing,
    /// Whether somebody types, and may stop a statement with Ctrl-C.
    pub interactive: bool,
}

impl Shell {
    /// A session as the command line, the environment (`DATAFUSION_…`) and the configuration want it.
    pub async fn new(args: &Args) -> Result<Self> {
        let config = session_config()?;
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(limit) = args.memory_limit {
            runtime = runtime.with_memory_limit(limit.0, 1.0);
        }
        let state =
            session_state_builder().with_config(config).with_runtime_env(Arc::new(runtime.build()?)).build();
        // `SELECT … FROM 'file.parquet'`, as in DataFusion's shell.
        let context = enable_url_table(SessionContext::new_with_state(state));
        let mut catalogs = Config::load(args.catalog_conf.as_deref())?;
        let mut unavailable = catalogs.add_variables(unicode_variables());
        if let Some(warehouse) = &args.warehouse {
            catalogs.add_warehouse(&args.catalog_name, warehouse)?;
        }
        unavailable.extend(catalogs.register(&context).await);
        if let Some(catalog) = &args.catalog
            && let Err(e) = use_catalog(&context, catalog)
        {
            let name = format!("catalog `{catalog}`");
            let why = unavailable.into_iter().find(|e| e.to_string().contains(&name));
            return Err(why.map_or(e, Into::into));
        }
        for e in unavailable {
            eprintln!("warning: {e}");
        }
        let printing = Printing { format: args.format, maxrows: args.maxrows, quiet: args.quiet };
        Ok(Self { context, printing, interactive: false })
    }

    /// The dialect that the session has now.
    pub fn dialect(&self) -> Result<Box<dyn Dialect>> {
        let name = self.context.state_ref().read().config_options().sql_parser.dialect;
        dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("Unsupported SQL dialect: {name}"))
    }

    /// Runs one statement and prints its result.
    pub async fn run(&self, sql: &str) -> Result<()> {
        let start = Instant::now();
        let plan = self.context.iceberg_plan(sql).await?;
        let kind = Kind::of(&plan);
        let frame = self.context.iceberg_execute(plan).await?;
        let plan = frame.create_physical_plan().await?;
        let task = self.context.task_ctx();
        let progress = Progress::follow(&plan);
        let stream = execute_stream(plan, Arc::clone(&task))?;
        let printing = self.printing;
        let elapsed = || format!("Elapsed {:.3} seconds.", start.elapsed().as_secs_f64());
        match kind {
            Kind::Silent => {
                stream.try_collect::<Vec<_>>().await?;
                progress.finish();
                printing.remark(&elapsed())
            }
            Kind::Change(verb) if printing.is_table() => {
                let batches: Vec<_> = stream.try_collect().await?;
                progress.finish();
                let counted = count(&batches).map_or(String::new(), |n| format!("{n} row(s) {verb}. "));
                printing.remark(&format!("{counted}{}", elapsed()))
            }
            Kind::Change(_) | Kind::Rows | Kind::AllRows => {
                let maxrows = if kind == Kind::AllRows { MaxRows(usize::MAX) } else { printing.maxrows };
                let options = task.session_config().options().format.clone();
                let options = FormatOptions::try_from(&options)?;
                let mut out = BufWriter::new(output());
                let rows =
                    print_stream(stream, printing.format, maxrows, &options, &mut out, || progress.finish())
                        .await?;
                let hidden = match printing.is_table() && rows > maxrows.0 {
                    true => format!(" (first {} shown; --maxrows or \\pset maxrows shows more)", maxrows.0),
                    false => String::new(),
                };
                printing.remark(&format!("{rows} row(s) fetched.{hidden} {}", elapsed()))
            }
        }
    }
}

/// The variables of the environment that are text.
fn unicode_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Makes a catalog that of names without one.
fn use_catalog(context: &SessionContext, catalog: &str) -> Result<()> {
    if context.catalog(catalog).is_none() {
        let known = context.catalog_names().join(", ");
        return Err(plan_datafusion_err!("There is no catalog `{catalog}`; there are {known}"));
    }
    let state = context.state_ref();
    state.write().config_mut().options_mut().catalog.default_catalog = catalog.to_string();
    Ok(())
}

/// The session's settings: the environment's, and what a shell wants where that says nothing.
fn session_config() -> Result<SessionConfig> {
    let mut config = SessionConfig::from_env()?.with_information_schema(true);
    if std::env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        // An empty cell would look like an empty string.
        config.options_mut().format.null = "NULL".to_string();
    }
    Ok(config)
}

/// What a statement has to show.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Nothing.
    Silent,
    /// A number of rows that were inserted, deleted, …
    Change(&'static str),
    /// Rows.
    Rows,
    /// Rows, and each counts: plans and descriptions.
    AllRows,
}

impl Kind {
    fn of(plan: &LogicalPlan) -> Self {
        match plan {
            LogicalPlan::Ddl(_) => Self::Silent,
            LogicalPlan::Statement(s) => match s {
                datafusion::logical_expr::Statement::Execute(_) => Self::Rows,
                _ => Self::Silent,
            },
            LogicalPlan::Copy(_) => Self::Change("written"),
            LogicalPlan::Dml(dml) => match (row_level_operation(plan), &dml.op) {
                (Some(RowLevelOperation::Delete), _) => Self::Change("deleted"),
                (Some(RowLevelOperation::Update), _) => Self::Change("updated"),
                (Some(RowLevelOperation::Merge), _) => Self::Change("merged"),
                (None, WriteOp::Insert(_) | WriteOp::Ctas) => Self::Change("inserted"),
                (None, WriteOp::Delete | WriteOp::Truncate) => Self::Change("deleted"),
                (None, WriteOp::Update) => Self::Change("updated"),
                _ => Self::Change("changed"),
            },
            // Ours.
            LogicalPlan::Extension(extension) => match extension.node.schema().field_names().as_slice() {
                [] => Self::Silent,
                [count] if count == "count" => Self::Change("inserted"),
                _ => Self::AllRows,
            },
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_) => {
                Self::AllRows
            }
            _ => Self::Rows,
        }
    }
}

/// The only value of a result with the columns `count`.
fn count(batches: &[RecordBatch]) -> Option<u64> {
    let batch = batches.iter().find(|b| b.num_rows() > 0)?;
    let counts = batch.column_by_name("count")?.as_primitive_opt::<UInt64Type>()?;
    counts.values().first().copied()
}
