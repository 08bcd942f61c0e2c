//! A catalog that lasts as long as the process: for tests, and for a first try.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::commit::{missing, taken};
use super::metastore::{EntryKind, Metastore, Swap, moved};
use super::placement::Placement;
use super::{Namespace, TableIdent, views};
use crate::error::{Error, ErrorKind, Result};
use crate::table::OpenOptions;

/// Knows its namespaces, tables and views as long as it lives. Its files lie in a storage of its
/// own, in memory, unless it is given a warehouse elsewhere.
#[derive(Debug)]
pub struct MemoryCatalog {
    name: String,
    placement: Placement,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    namespaces: BTreeMap<Namespace, BTreeMap<String, String>>,
    entries: BTreeMap<TableIdent, (EntryKind, String)>,
}

impl MemoryCatalog {
    /// An empty catalog whose files lie in memory.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        Self::with_warehouse(name, "memory:///warehouse", OpenOptions::new())
    }

    /// An empty catalog whose files lie in `warehouse`, a directory or a URL.
    ///
    /// # Errors
    /// Those of [`Location::parse`](crate::storage::Location::parse).
    pub fn with_warehouse(name: impl Into<String>, warehouse: &str, options: OpenOptions) -> Result<Self> {
        let placement = Placement::new(warehouse, options)?;
        Ok(Self { name: name.into(), placement, state: Mutex::default() })
    }

    /// Follows the catalog's properties, as [`super::load_catalog`] knows them.
    pub(crate) fn with_properties(mut self, properties: &BTreeMap<String, String>) -> Result<Self> {
        self.placement = self.placement.with_properties(properties)?;
        Ok(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_in(namespace: &Namespace, parent: Option<&Namespace>) -> bool {
        let parent = parent.map(Namespace::levels).unwrap_or_default();
        namespace.levels().split_last().is_some_and(|(_, above)| above == parent)
    }

    fn names(&self, namespace: &Namespace, kind: EntryKind) -> impl Iterator<Item = &str> {
        let found = self.entries.iter().filter(move |(_, (of, _))| *of == kind);
        found.map(|(ident, _)| ident).filter(move |i| i.namespace() == namespace).map(TableIdent::name)
    }

    fn check(&self, swap: &Swap) -> Result<()> {
        if !self.namespaces.contains_key(swap.ident.namespace()) {
            return Err(Error::not_found(format!("there is no namespace `{}`", swap.ident.namespace())));
        }
        match (self.entries.get(&swap.ident), &swap.expected) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(taken(&swap.ident)),
            (Some((kind, now)), Some(expected)) if *kind == swap.kind && now == expected => Ok(()),
            _ => Err(moved(&swap.ident)),
        }
    }
}

#[async_trait]
impl Metastore for MemoryCatalog {
    fn name(&self) -> &str {
        &self.name
    }

    fn placement(&self) -> &Placement {
        &self.placement
    }

    async fn child_namespaces(&self, parent: Option<&Namespace>) -> Result<Vec<Namespace>> {
        let state = self.state();
        Ok(state.namespaces.keys().filter(|n| State::is_in(n, parent)).cloned().collect())
    }

    async fn namespace(&self, namespace: &Namespace) -> Result<Option<BTreeMap<String, String>>> {
        Ok(self.state().namespaces.get(namespace).cloned())
    }

    async fn add_namespace(&self, namespace: &Namespace, properties: BTreeMap<String, String>) -> Result<()> {
        let mut state = self.state();
        if state.namespaces.contains_key(namespace) {
            let message = format!("there is a namespace `{namespace}` already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        if let Some(parent) = namespace.parent()
            && !state.namespaces.contains_key(&parent)
        {
            return Err(Error::not_found(format!("there is no namespace `{parent}`")));
        }
        state.namespaces.insert(namespace.clone(), properties);
        Ok(())
    }

    async fn change_namespace(
        &self,
        namespace: &Namespace,
        set: BTreeMap<String, String>,
        remove: Vec<String>,
    ) -> Result<()> {
        let mut state = self.state();
        let Some(properties) = state.namespaces.get_mut(namespace) else {
            return Err(Error::not_found(format!("there is no namespace `{namespace}`")));
        };
        properties.retain(|name, _| !remove.contains(name));
        properties.extend(set);
        Ok(())
    }

    async fn remove_namespace(&self, namespace: &Namespace) -> Result<()> {
        let mut state = self.state();
        let is_parent = state.namespaces.keys().any(|n| State::is_in(n, Some(namespace)));
        if is_parent || state.entries.keys().any(|ident| ident.namespace() == namespace) {
            let message = format!("namespace `{namespace}` is not empty");
            return Err(Error::new(ErrorKind::ValidationFailed, message));
        }
        state.namespaces.remove(namespace);
        Ok(())
    }

    async fn names(&self, namespace: &Namespace, kind: EntryKind) -> Result<Vec<String>> {
        Ok(self.state().names(namespace, kind).map(str::to_owned).collect())
    }

    async fn pointer(&self, ident: &TableIdent, kind: EntryKind) -> Result<Option<String>> {
        let state = self.state();
        let found = state.entries.get(ident).filter(|(of, _)| *of == kind);
        Ok(found.map(|(_, location)| location.clone()))
    }

    async fn swap(&self, swaps: Vec<Swap>) -> Result<()> {
        let mut state = self.state();
        swaps.iter().try_for_each(|swap| state.check(swap))?;
        for Swap { ident, kind, new, .. } in swaps {
            state.entries.insert(ident, (kind, new));
        }
        Ok(())
    }

    async fn rename(&self, from: &TableIdent, to: &TableIdent, kind: EntryKind) -> Result<()> {
        let mut state = self.state();
        if state.entries.contains_key(to) {
            return Err(taken(to));
        }
        match state.entries.remove(from) {
            Some((of, location)) if of == kind => {
                state.entries.insert(to.clone(), (kind, location));
                Ok(())
            }
            other => {
                // Another kind of that name stays what it is.
                if let Some(other) = other {
                    state.entries.insert(from.clone(), other);
                }
                Err(match kind {
                    EntryKind::Table => missing(from),
                    EntryKind::View => views::missing(from),
                })
            }
        }
    }

    async fn remove(&self, ident: &TableIdent, kind: EntryKind) -> Result<bool> {
        let mut state = self.state();
        let there = state.entries.get(ident).is_some_and(|(of, _)| *of == kind);
        Ok(there && state.entries.remove(ident).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::suite::{self, Can, Subject};

    async fn subject() -> Option<Subject> {
        Some(Subject::new(Arc::new(MemoryCatalog::new("mem").unwrap()), Can::EVERYTHING))
    }

    suite::cases!(subject);
}
