//! What a server offers (REST spec, `CatalogConfig.endpoints`).

use std::collections::BTreeSet;
use std::fmt;

/// A method and a resource of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Endpoint {
    ListNamespaces,
    CreateNamespace,
    LoadNamespace,
    NamespaceExists,
    UpdateNamespace,
    DropNamespace,
    ListTables,
    CreateTable,
    LoadTable,
    TableExists,
    CommitTable,
    DropTable,
    RegisterTable,
    RenameTable,
    LoadCredentials,
    PlanScan,
    FetchPlan,
    CancelPlan,
    FetchTasks,
    ReportMetrics,
    CommitTables,
    ListViews,
    CreateView,
    LoadView,
    ReplaceView,
    DropView,
    RenameView,
}

/// What a server offers that does not say so. It may never change: old servers count on it.
const BASE: &[Endpoint] = &[
    Endpoint::ListNamespaces,
    Endpoint::CreateNamespace,
    Endpoint::LoadNamespace,
    Endpoint::UpdateNamespace,
    Endpoint::DropNamespace,
    Endpoint::ListTables,
    Endpoint::CreateTable,
    Endpoint::LoadTable,
    Endpoint::CommitTable,
    Endpoint::DropTable,
    Endpoint::RegisterTable,
    Endpoint::RenameTable,
    Endpoint::CommitTables,
];

/// What such a server offers besides, if a property says that it knows views.
const VIEWS: &[Endpoint] = &[
    Endpoint::ListViews,
    Endpoint::CreateView,
    Endpoint::LoadView,
    Endpoint::ReplaceView,
    Endpoint::DropView,
    Endpoint::RenameView,
];

/// Those that nobody has to offer; there is another way.
const OPTIONAL: &[Endpoint] = &[
    Endpoint::NamespaceExists,
    Endpoint::TableExists,
    Endpoint::LoadCredentials,
    Endpoint::PlanScan,
    Endpoint::FetchPlan,
    Endpoint::CancelPlan,
    Endpoint::FetchTasks,
    Endpoint::ReportMetrics,
];

impl Endpoint {
    fn as_str(self) -> &'static str {
        match self {
            Endpoint::ListNamespaces => "GET /v1/{prefix}/namespaces",
            Endpoint::CreateNamespace => "POST /v1/{prefix}/namespaces",
            Endpoint::LoadNamespace => "GET /v1/{prefix}/namespaces/{namespace}",
            Endpoint::NamespaceExists => "HEAD /v1/{prefix}/namespaces/{namespace}",
            Endpoint::UpdateNamespace => "POST /v1/{prefix}/namespaces/{namespace}/properties",
            Endpoint::DropNamespace => "DELETE /v1/{prefix}/namespaces/{namespace}",
            Endpoint::ListTables => "GET /v1/{prefix}/namespaces/{namespace}/tables",
            Endpoint::CreateTable => "POST /v1/{prefix}/namespaces/{namespace}/tables",
            Endpoint::LoadTable => "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            Endpoint::TableExists => "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            Endpoint::CommitTable => "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            Endpoint::DropTable => "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            Endpoint::RegisterTable => "POST /v1/{prefix}/namespaces/{namespace}/register",
            Endpoint::RenameTable => "POST /v1/{prefix}/tables/rename",
            Endpoint::LoadCredentials => "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
            Endpoint::PlanScan => "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
            Endpoint::FetchPlan => "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
            Endpoint::CancelPlan => {
                "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
            }
            Endpoint::FetchTasks => "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
            Endpoint::ReportMetrics => "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
            Endpoint::CommitTables => "POST /v1/{prefix}/transactions/commit",
            Endpoint::ListViews => "GET /v1/{prefix}/namespaces/{namespace}/views",
            Endpoint::CreateView => "POST /v1/{prefix}/namespaces/{namespace}/views",
            Endpoint::LoadView => "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
            Endpoint::ReplaceView => "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
            Endpoint::DropView => "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
            Endpoint::RenameView => "POST /v1/{prefix}/views/rename",
        }
    }

    pub(super) fn is_of_views(self) -> bool {
        VIEWS.contains(&self)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The endpoints of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoints {
    offered: BTreeSet<Endpoint>,
    /// Whether the server said so itself.
    pub(super) listed: bool,
}

impl Endpoints {
    /// Those that the server lists; unknown ones are of no interest.
    pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().map(str::trim).collect();
        let known = BASE.iter().chain(VIEWS).chain(OPTIONAL);
        let offered = known.copied().filter(|e| names.contains(e.as_str())).collect();
        Self { offered, listed: true }
    }

    /// Those of a server that lists none.
    pub(super) fn assumed(views: bool) -> Self {
        let views = if views { VIEWS } else { &[] };
        Self { offered: BASE.iter().chain(views).copied().collect(), listed: false }
    }

    pub(super) fn offers(&self, endpoint: Endpoint) -> bool {
        self.offered.contains(&endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_what_it_offers() {
        let endpoints = Endpoints::listed([
            "GET /v1/{prefix}/namespaces",
            "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            "PATCH /v2/{prefix}/dreams",
        ]);
        assert!(endpoints.offers(Endpoint::ListNamespaces) && endpoints.offers(Endpoint::TableExists));
        assert!(!endpoints.offers(Endpoint::CreateNamespace) && !endpoints.offers(Endpoint::ListViews));
    }

    #[test]
    fn a_server_that_does_not_say_offers_the_base_set() {
        let base = Endpoints::assumed(false);
        assert!(base.offers(Endpoint::CommitTables) && base.offers(Endpoint::RegisterTable));
        for not in [Endpoint::TableExists, Endpoint::NamespaceExists, Endpoint::ListViews] {
            assert!(!base.offers(not), "{not}");
        }
        assert!(Endpoints::assumed(true).offers(Endpoint::ReplaceView));
    }
}
