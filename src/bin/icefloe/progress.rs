//! How far a long statement is, on a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

/// Statements shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(200);

/// A bar that follows the rows that come out of a plan's leaves; it goes when this is dropped.
pub struct Progress(Option<(JoinHandle<()>, ProgressBar)>);

impl Progress {
    /// Follows `plan` if standard error is a terminal.
    pub fn follow(plan: &Arc<dyn ExecutionPlan>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let plan = Arc::clone(plan);
        let bar = bar(total_rows(plan.as_ref()));
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            shown.set_draw_target(ProgressDrawTarget::stderr());
            loop {
                shown.set_position(rows_read(plan.as_ref()));
                tokio::time::sleep(REFRESH).await;
            }
        });
        Self(Some((task, bar)))
    }

    /// Removes the bar, before something else is written.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((task, bar)) = self.0.take() {
            task.abort();
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{elapsed_precise} [{bar:40}] {percent}% {human_pos}/{human_len} rows")
        }
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {human_pos} rows read"),
    };
    bar.set_draw_target(ProgressDrawTarget::hidden());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

fn leaves<'a>(plan: &'a dyn ExecutionPlan, visit: &mut dyn FnMut(&'a dyn ExecutionPlan)) {
    let children = plan.children();
    if children.is_empty() {
        visit(plan);
    }
    for child in children {
        leaves(child.as_ref(), visit);
    }
}

/// The rows that the leaves gave so far.
fn rows_read(plan: &dyn ExecutionPlan) -> u64 {
    let mut rows = 0_u64;
    leaves(plan, &mut |leaf| {
        let seen = leaf.metrics().and_then(|m| m.output_rows()).unwrap_or(0);
        rows = rows.saturating_add(u64::try_from(seen).unwrap_or(u64::MAX));
    });
    rows
}

/// How many rows the leaves are thought to give, if all of them say.
fn total_rows(plan: &dyn ExecutionPlan) -> Option<u64> {
    let mut total = Some(0_u64);
    leaves(plan, &mut |leaf| {
        let rows = StatisticsContext::new()
            .compute(leaf, &StatisticsArgs::new())
            .ok()
            .and_then(|s| s.num_rows.get_value().copied());
        let rows = rows.and_then(|r| u64::try_from(r).ok());
        total = total.zip(rows).and_then(|(a, b)| a.checked_add(b));
    });
    total.filter(|t| *t > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn rows_of_the_leaves_are_counted() {
        let context = SessionContext::new();
        context.sql("CREATE TABLE t AS SELECT * FROM generate_series(1, 1000)").await.unwrap();
        let plan = context
            .sql("SELECT count(value + 1) FROM t")
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap();
        assert_eq!(total_rows(plan.as_ref()), Some(1000));
        assert_eq!(rows_read(plan.as_ref()), 0);
        collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        assert!(rows_read(plan.as_ref()) <= 1000);
    }
}
