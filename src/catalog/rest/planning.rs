//! Scans that the server plans (REST spec, `planTableScan`, `fetchPlanningResult`,
//! `cancelPlanning`, `fetchScanTasks`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value as Json, json};

use super::RestCatalog;
use super::client::Request;
use super::endpoint::Endpoint;
use super::failure::{Failure, Subject};
use super::loaded::{credentials, settings};
use super::plan_reply::{PlanStatus, ScanTasks};
use super::service::Service;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::table::{ScanDemand, ServerPlan, Table};

/// The property that says who plans scans.
const MODE: &str = "scan-planning-mode";
/// What it was called at first.
const ENABLED: &str = "rest-scan-planning-enabled";

/// The first wait for a plan, which doubles from one to the next.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How many plan tasks are fetched at a time.
const CONCURRENT_TASKS: usize = 8;
/// More plan tasks than that have no end.
const MAX_PLAN_TASKS: usize = 1_000_000;

/// Who plans scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planning {
    Client,
    Server,
}

impl Planning {
    /// What properties say of it.
    pub(super) fn of<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Result<Option<Self>> {
        if let Some(mode) = get(MODE) {
            return match mode.to_ascii_lowercase().as_str() {
                "client" => Ok(Some(Self::Client)),
                "server" | "catalog" => Ok(Some(Self::Server)),
                _ => Err(Error::unsupported(format!("`{mode}`; expected `client` or `server`"))
                    .context(format!("property `{MODE}`"))),
            };
        }
        match get(ENABLED) {
            None => Ok(None),
            Some(flag) if flag.eq_ignore_ascii_case("true") => Ok(Some(Self::Server)),
            Some(flag) if flag.eq_ignore_ascii_case("false") => Ok(Some(Self::Client)),
            Some(_) => Err(Error::invalid("expected true or false").context(format!("property `{ENABLED}`"))),
        }
    }
}

impl RestCatalog {
    /// Whether the server plans the scans of a table with this configuration, which goes before
    /// what the catalog says.
    ///
    /// # Errors
    /// `Unsupported` if it should, but does not offer to.
    pub(super) fn plans_scans(&self, config: &BTreeMap<String, String>) -> Result<bool> {
        let of_table = Planning::of(|name| config.get(name).map(String::as_str))?;
        if of_table.or(self.0.planning) != Some(Planning::Server) {
            return Ok(false);
        }
        let offered = self.check(Endpoint::PlanScan);
        offered.context(|| format!("its scans are to be planned by its server (`{MODE}`)"))?;
        Ok(true)
    }
}

/// A plan that the server works on; it is told when nobody wants it any more.
struct Pending {
    service: Arc<Service>,
    id: Option<String>,
}

impl Pending {
    /// Nothing is left to be fetched.
    fn done(&mut self) {
        self.id = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let service = Arc::clone(&self.service);
        runtime.spawn(async move {
            if let Err(error) = service.cancel(&id).await {
                tracing::debug!(table = %service.table, %error, "a plan could not be cancelled");
            }
        });
    }
}

impl Service {
    fn clone_for_plan(&self) -> Arc<Self> {
        Arc::new(Self::new(&self.catalog, &self.table, true, self.grant.clone(), self.token.clone()))
    }

    /// Has a scan planned. If it is dropped before it is done, the plan is cancelled.
    pub(super) async fn plan(&self, table: &Table, demand: &ScanDemand) -> Result<ServerPlan> {
        let mut reply = self.submit(demand).await?;
        let mut pending = Pending { service: self.clone_for_plan(), id: None };
        pending.id = reply.get("plan-id").and_then(Json::as_str).map(str::to_owned);
        let plan_id = pending.id.clone();
        match PlanStatus::read(&reply)? {
            PlanStatus::Completed => {}
            PlanStatus::Submitted => {
                let id = plan_id.clone().ok_or_else(|| {
                    Error::invalid("is missing, though the plan is to be waited for")
                        .context("field `plan-id`")
                })?;
                reply = self.wait(&id, &mut pending).await?;
            }
            PlanStatus::Failed => {
                pending.done();
                return Err(self.failed(&reply));
            }
            PlanStatus::Cancelled => {
                pending.done();
                return Err(self.cancelled());
            }
        }
        let storage = self.plan_storage(&reply, plan_id)?;
        let mut tasks = ScanTasks::new(table);
        let mut level = tasks.add(&reply)?;
        if level.is_empty() {
            // It holds nothing for us any more.
            pending.done();
        }
        let mut seen: HashSet<String> = HashSet::new();
        while !level.is_empty() {
            for task in &level {
                if seen.len() >= MAX_PLAN_TASKS || !seen.insert(task.clone()) {
                    return Err(Error::invalid("the server's plan tasks have no end, one follows itself"));
                }
            }
            let fetches: Vec<_> = level.iter().map(|task| self.fetch_tasks(task)).collect();
            let mut replies = stream::iter(fetches).buffered(CONCURRENT_TASKS);
            let mut next = Vec::new();
            while let Some(reply) = replies.try_next().await? {
                next.extend(tasks.add(&reply)?);
            }
            drop(replies);
            level = next;
        }
        pending.done();
        Ok(ServerPlan { tasks: tasks.finish(), storage })
    }

    async fn submit(&self, demand: &ScanDemand) -> Result<Json> {
        let mut body = json!({
            "snapshot-id": demand.snapshot_id.0,
            "case-sensitive": true,
            "use-snapshot-schema": demand.use_snapshot_schema,
        });
        if let Some(members) = body.as_object_mut() {
            if !demand.select.is_empty() {
                members.insert("select".into(), demand.select.clone().into());
            }
            members.extend(demand.filter.clone().map(|filter| ("filter".to_owned(), filter)));
        }
        let url = self.catalog.0.paths.of_table(&self.table, "plan")?;
        let what = format!("have a scan of the table `{}` planned", self.table);
        let request = Request::post(url, Subject::Entity, what, &body).reading().token(self.token.as_ref());
        self.catalog.0.client.send(&self.catalog.delegated(request)).await?.json()
    }

    /// Asks for a plan until it is completed.
    async fn wait(&self, id: &str, pending: &mut Pending) -> Result<Json> {
        self.catalog.check(Endpoint::FetchPlan)?;
        let limit = self.catalog.0.planning_timeout;
        let polls = async {
            let mut wait = FIRST_WAIT;
            loop {
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(LONGEST_WAIT);
                let url = self.catalog.0.paths.plan(&self.table, id)?;
                let what = format!("get the plan of a scan of the table `{}`", self.table);
                let request = Request::get(url, Subject::Entity, what).token(self.token.as_ref());
                let reply = self.catalog.0.client.send(&self.catalog.delegated(request)).await?.json()?;
                match PlanStatus::read(&reply)? {
                    PlanStatus::Submitted => {}
                    status => return Ok((status, reply)),
                }
            }
        };
        let polled: Result<_> = tokio::time::timeout(limit, polls).await.unwrap_or_else(|_| {
            let message = format!(
                "the server did not plan the scan of the table `{}` within {limit:?} \
                 (`rest-scan-planning.poll-timeout-ms`)",
                self.table
            );
            Err(Error::new(ErrorKind::Io, message))
        });
        match polled? {
            (PlanStatus::Completed, reply) => Ok(reply),
            (status, reply) => {
                pending.done();
                Err(if status == PlanStatus::Failed { self.failed(&reply) } else { self.cancelled() })
            }
        }
    }

    fn failed(&self, reply: &Json) -> Error {
        let status =
            reply.pointer("/error/code").and_then(Json::as_u64).and_then(|code| u16::try_from(code).ok());
        let failure = Failure::parse(status.unwrap_or(500), reply.to_string().as_bytes());
        let kind = failure.error(Subject::Entity).kind();
        let message = format!("the server failed to plan the scan of the table `{}`", self.table);
        Error::new(kind, message).with_source(self.catalog.0.client.scrub(&failure.to_string()))
    }

    fn cancelled(&self) -> Error {
        let message =
            format!("the plan of the scan of the table `{}` was cancelled by the server", self.table);
        Error::new(ErrorKind::Io, message)
    }

    async fn fetch_tasks(&self, task: &str) -> Result<Json> {
        self.catalog.check(Endpoint::FetchTasks)?;
        let url = self.catalog.0.paths.of_table(&self.table, "tasks")?;
        let what = format!("get the scan tasks of the table `{}`", self.table);
        let body = json!({"plan-task": task});
        let request = Request::post(url, Subject::Entity, what, &body).reading().token(self.token.as_ref());
        self.catalog.0.client.send(&request).await?.json()
    }

    async fn cancel(&self, id: &str) -> Result<()> {
        if self.catalog.check(Endpoint::CancelPlan).is_err() {
            return Ok(());
        }
        let url = self.catalog.0.paths.plan(&self.table, id)?;
        let what = format!("cancel a plan of the table `{}`", self.table);
        let request = Request::delete(url, Subject::Entity, what).token(self.token.as_ref());
        self.catalog.0.client.send(&request).await.map(drop)
    }

    /// What opens the files of a plan that came with credentials.
    fn plan_storage(&self, reply: &Json, plan: Option<String>) -> Result<Option<crate::storage::Storage>> {
        let listed = reply.get("storage-credentials").filter(|c| !c.is_null());
        if listed.is_none_or(|listed| listed.as_array().is_some_and(Vec::is_empty)) {
            return Ok(None);
        }
        // Those of the table are for what no credentials of the plan are for, if they don't expire.
        let given = credentials(reply, &settings(&self.grant.config))?;
        let (grant, token) = (self.grant.clone(), self.token.clone());
        Ok(Some(self.catalog.vended(&self.table, grant, given, token, plan)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_plans() {
        let of = |list: &[(&'static str, &'static str)]| {
            Planning::of(|name| list.iter().find(|(n, _)| *n == name).map(|(_, v)| *v))
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[(MODE, "CLIENT"), (ENABLED, "true")]).unwrap(), Some(Planning::Client));
        for server in [&[(MODE, "server")][..], &[(MODE, "Catalog")], &[(ENABLED, "TRUE")]] {
            assert_eq!(of(server).unwrap(), Some(Planning::Server), "{server:?}");
        }
        assert_eq!(of(&[(ENABLED, "false")]).unwrap(), Some(Planning::Client));
        for bad in [(MODE, "both"), (ENABLED, "yes")] {
            assert!(of(&[bad]).unwrap_err().to_string().contains(bad.0));
        }
    }
}
