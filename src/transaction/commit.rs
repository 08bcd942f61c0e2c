//! Commits: an attempt, and another one while others are faster.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::commit_status::{Outcome, find_out, has_snapshots};
use super::create::creation_updates;
use super::retry::Retry;
use super::settings::now_ms;
use super::{Action, Transaction};
use crate::catalog::{Catalog, TableCommit, TableIdent};
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::spec::{Snapshot, TableMetadata, TableProperties, TableUpdate, requirements_for};
use crate::table::{CommitReport, Report, Table};

/// Commits transactions on several tables at once: all of them, or none.
///
/// # Errors
/// As [`Transaction::commit`]; and `Unsupported` for several tables where the catalog can't do that;
/// `DataInvalid` if two are of the same table.
pub async fn commit_all(transactions: Vec<Transaction>, catalog: &dyn Catalog) -> Result<()> {
    commit_together(transactions, catalog).await.map(drop)
}

pub(super) async fn commit(transaction: Transaction, catalog: &dyn Catalog) -> Result<Table> {
    let table = transaction.table.clone();
    let committed = commit_together(vec![transaction], catalog).await?;
    Ok(committed.into_iter().next().unwrap_or(table))
}

/// A table with what is to be done to it.
struct Part {
    ident: TableIdent,
    /// The table as it was when it was read last.
    base: Table,
    actions: Vec<Box<dyn Action>>,
}

/// A commit as it is sent.
pub(super) struct Sent {
    pub(super) commit: TableCommit,
    /// What it was built against.
    pub(super) base: Table,
    /// What it makes of the table.
    pub(super) after: Table,
}

async fn commit_together(transactions: Vec<Transaction>, catalog: &dyn Catalog) -> Result<Vec<Table>> {
    let mut parts = transactions.into_iter().map(Part::new).collect::<Result<Vec<_>>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = parts.iter().find(|part| !names.insert(&part.ident)) {
        return Err(Error::invalid(format!("two transactions on table `{}` at once", twice.ident)));
    }
    if parts.len() > 1 && !catalog.commits_several_tables() {
        return Err(catalog.unsupported("commit to several tables at once"));
    }
    for part in &mut parts {
        // Every rule goes by history.
        let base = part.base.clone();
        part.base = base.with_all_snapshots().await?;
    }
    let (started, mut attempts) = (Instant::now(), 0);
    let result = try_until_done(&mut parts, catalog, &mut attempts).await;
    match &result {
        Ok(tables) => {
            for (part, table) in parts.iter().zip(tables) {
                report(&part.base, table, started.elapsed(), attempts);
            }
            for (part, table) in parts.iter_mut().zip(tables) {
                for action in &mut part.actions {
                    action.committed(table).await;
                }
            }
        }
        // Files of a commit that may have happened must stay.
        Err(e) if e.kind() == ErrorKind::CommitStateUnknown => {}
        Err(_) => {
            for part in &mut parts {
                for action in &mut part.actions {
                    action.failed(&part.base).await;
                }
            }
        }
    }
    result
}

/// Gives the tables as they were committed, in the order of `parts`.
async fn try_until_done(parts: &mut [Part], catalog: &dyn Catalog, attempts: &mut u32) -> Result<Vec<Table>> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    let properties = TableProperties::new(&first.base.metadata().properties);
    let mut retry = Retry::new(properties.commit_retry()?);
    let mut was_just_read = false;
    loop {
        *attempts += 1;
        let attempt = prepare(parts).await?;
        if attempt.iter().all(Option::is_none) {
            // What the table had when it was read may be what others changed since.
            if was_just_read || !reread(parts, catalog).await? {
                return Ok(parts.iter().map(|part| part.base.clone()).collect());
            }
            was_just_read = true;
            continue;
        }
        was_just_read = false;
        let conflict = match send(&attempt, catalog).await {
            Ok(tables) => return Ok(in_order(parts, &attempt, tables)),
            Err(e) if e.kind() == ErrorKind::CommitConflict => e,
            Err(e) if e.kind() == ErrorKind::CommitStateUnknown => {
                tracing::warn!(error = %e, "the outcome of a commit is not known; looking for it");
                let sent: Vec<&Sent> = attempt.iter().flatten().collect();
                match find_out(&sent, catalog).await {
                    Outcome::Committed(tables) => return Ok(in_order(parts, &attempt, tables)),
                    Outcome::Lost => e,
                    Outcome::Unknown => return Err(e),
                }
            }
            Err(e) => return Err(e),
        };
        if let Some(staged) = parts.iter().find(|part| part.base.is_staged()) {
            let message = format!("table `{}` was created by somebody else meanwhile", staged.ident);
            return Err(Error::new(ErrorKind::AlreadyExists, message).with_source(conflict));
        }
        tracing::debug!(error = %conflict, retries = retry.retries(), "somebody else committed first");
        let mut may_retry = retry.wait().await;
        let mut reloaded = reload(parts, catalog).await;
        while may_retry && reloaded.as_ref().is_err_and(|e| e.kind() == ErrorKind::Io) {
            may_retry = retry.wait().await;
            reloaded = reload(parts, catalog).await;
        }
        // A commit whose reply was lost on the way, and that was sent again, conflicts with itself.
        let now: Vec<Table> = parts.iter().map(|part| part.base.clone()).collect();
        let mut sent = attempt.iter().zip(&now).filter_map(|(sent, now)| Some((sent.as_ref()?, now)));
        if reloaded.is_ok() && sent.any(|(sent, now)| has_snapshots(sent, now)) {
            return Ok(now);
        }
        if !may_retry {
            let tries = retry.retries().saturating_add(1);
            let message = format!("somebody else was faster each of {tries} times");
            return Err(Error::new(ErrorKind::CommitConflict, message).with_source(conflict));
        }
        reloaded?;
    }
}

impl Part {
    fn new(transaction: Transaction) -> Result<Self> {
        let Transaction { table, actions } = transaction;
        let ident = table.identifier().cloned().ok_or_else(|| {
            Error::unsupported(format!(
                "table `{}` was opened by its location, so there is no catalog to commit to; load it through one",
                table.name()
            ))
        })?;
        Ok(Self { ident, base: table, actions })
    }

    /// `None` if there is nothing to change.
    async fn prepare(&mut self) -> Result<Option<Sent>> {
        let base = self.base.clone();
        let mut updates = Vec::new();
        let mut requirements = Vec::new();
        let mut after = base.clone();
        if base.is_staged() {
            updates = creation_updates(base.metadata());
        } else if base.metadata().table_uuid.is_none() && !self.actions.is_empty() {
            // Version 1 did not ask for one.
            let added = vec![TableUpdate::AssignUuid(Uuid::new_v4())];
            after = apply(&after, &added)?;
            updates.extend(added);
        }
        let needed = updates.len();
        for action in &mut self.actions {
            let made = action.updates(&after).await?;
            requirements.extend(action.requirements(&base));
            if !made.is_empty() {
                after = apply(&after, &made)?;
                updates.extend(made);
            }
        }
        if updates.len() == needed && !base.is_staged() {
            return Ok(None);
        }
        let known = (!base.is_staged()).then(|| base.metadata().as_ref());
        let mut all = requirements_for(&updates, known);
        for requirement in requirements {
            if known.is_some() && !all.contains(&requirement) {
                all.push(requirement);
            }
        }
        let commit = TableCommit { table: self.ident.clone(), requirements: all, updates };
        Ok(Some(Sent { commit, base, after }))
    }
}

fn apply(table: &Table, updates: &[TableUpdate]) -> Result<Table> {
    let metadata = TableMetadata::apply(Some(table.metadata()), updates, now_ms())?;
    table.with_metadata(Arc::new(metadata))
}

async fn prepare(parts: &mut [Part]) -> Result<Vec<Option<Sent>>> {
    let mut attempt = Vec::with_capacity(parts.len());
    for part in parts {
        let prepared = part.prepare().await;
        attempt.push(prepared.context(|| format!("table `{}`", part.ident))?);
    }
    Ok(attempt)
}

/// Gives the tables of what was sent.
async fn send(attempt: &[Option<Sent>], catalog: &dyn Catalog) -> Result<Vec<Table>> {
    let sent: Vec<&Sent> = attempt.iter().flatten().collect();
    match sent.as_slice() {
        [only] => catalog.commit_table(only.commit.clone()).await.map(|table| vec![table]),
        sent => {
            catalog.commit_tables(sent.iter().map(|s| s.commit.clone()).collect()).await?;
            Ok(sent.iter().map(|s| s.after.clone()).collect())
        }
    }
}

/// Puts the tables of what was sent between those that needed no change.
fn in_order(parts: &[Part], attempt: &[Option<Sent>], tables: Vec<Table>) -> Vec<Table> {
    let mut tables = tables.into_iter();
    let of = |(part, sent): (&Part, &Option<Sent>)| {
        let committed = sent.as_ref().and_then(|_| tables.next());
        committed.unwrap_or_else(|| part.base.clone())
    };
    parts.iter().zip(attempt).map(of).collect()
}

/// Tells the server of the newest snapshot that a commit added.
fn report(base: &Table, table: &Table, duration: Duration, attempts: u32) {
    let Some(service) = table.service() else { return };
    let is_new = |snapshot: &&Arc<Snapshot>| base.metadata().snapshot(snapshot.snapshot_id).is_none();
    let added = table.metadata().snapshots.iter().filter(is_new).max_by_key(|s| s.sequence_number);
    let Some(snapshot) = added else { return };
    service.report(Report::Commit(CommitReport {
        snapshot_id: snapshot.snapshot_id,
        sequence_number: snapshot.sequence_number,
        operation: snapshot.operation().unwrap_or_default().to_owned(),
        duration,
        attempts,
        summary: snapshot.summary.clone(),
    }));
}

/// Reads tables again that actions left as they were read. Gives whether one has changed.
async fn reread(parts: &mut [Part], catalog: &dyn Catalog) -> Result<bool> {
    if parts.iter().all(|part| part.actions.is_empty()) {
        return Ok(false);
    }
    let before: Vec<_> = parts.iter().map(|part| part.base.metadata_location().clone()).collect();
    reload(parts, catalog).await?;
    Ok(parts.iter().zip(&before).any(|(part, before)| part.base.metadata_location() != before))
}

/// Reads the tables again, all or none.
async fn reload(parts: &mut [Part], catalog: &dyn Catalog) -> Result<()> {
    let mut tables = Vec::with_capacity(parts.len());
    // Actions may not be shared between threads, so none is borrowed while something is awaited.
    let names: Vec<_> = parts.iter().map(|part| (part.ident.clone(), part.base.clone())).collect();
    for (ident, base) in names {
        let table = catalog.load_table(&ident).await?.with_all_snapshots().await?;
        let (before, now) = (base.metadata().table_uuid, table.metadata().table_uuid);
        if before.is_some() && before != now {
            let message = format!("table `{}` was dropped, and another of its name created", ident);
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        tables.push(table);
    }
    for (part, table) in parts.iter_mut().zip(tables) {
        part.base = table;
    }
    Ok(())
}
