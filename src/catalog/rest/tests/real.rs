//! The suite and many writers against a real server: `ICEFLOE_TEST_REST` holds the catalog's
//! properties as a JSON object, and `ICEFLOE_TEST_REST_SIGV4` those of signing in in another way. Two
//! members are for the tests: `lacks` lists what the server can't do, by the names of the members of
//! `suite::Can`, and `fails` the cases that it fails.
//!
//! SeaweedFS lacks `need_parents`, `register`, `dotted_levels`, `clean_up`, and `views` (unless
//! `view-endpoints-supported` is set). It fails `namespaces_come_and_go` (those that are not there
//! are listed as empty), `namespaces_nest` (one with others in it can be dropped),
//! `tables_come_and_go`, `staged_tables`, `creators_at_the_same_time` and both cases of views (what
//! exists is given back as if it were created), `odd_names` (there is nothing but `a-z0-9_-`),
//! `several_tables_at_once` (none may be new), `a_table_is_what_it_was_loaded_as` (a commit's reply
//! is stamped earlier than the file), `metadata_files_are_logged_and_removed` (nothing is
//! compressed). It hands out no credentials unless it is set up for that.

use super::*;

/// The catalog that a variable describes, and what it can do; `None` if it fails the case.
async fn connect_as(variable: &str, case: &str) -> Option<(RestCatalog, Can)> {
    let text = crate::interchange::engine(variable)?;
    let mut properties: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut list = |name: &str| {
        let text = properties.remove(name).map(|text| text.as_str().unwrap().to_owned()).unwrap_or_default();
        text.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>()
    };
    let (lacks, fails) = (list("lacks"), list("fails"));
    if fails.iter().any(|failing| failing == case) {
        crate::interchange::skipped(&format!("the server fails `{case}`"));
        return None;
    }
    let properties = properties.into_iter().map(|(n, v)| (n, v.as_str().unwrap().to_owned())).collect();
    let catalog = RestCatalog::connect("real", properties).await.unwrap();
    let can = |what: &str| !lacks.iter().any(|lack| lack == what);
    let can = Can {
        nest: can("nest"),
        need_parents: can("need_parents"),
        namespace_properties: can("namespace_properties"),
        dotted_levels: can("dotted_levels"),
        slashes: false,
        rename: can("rename"),
        register: can("register"),
        place: can("place"),
        views: can("views"),
        show_files: can("show_files"),
        clean_up: can("clean_up"),
    };
    Some((catalog, can))
}

macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        cases!(@ oauth2, "ICEFLOE_TEST_REST", $($case),+);
        cases!(@ sigv4, "ICEFLOE_TEST_REST_SIGV4", $($case),+);
    };
    (@ $name:ident, $variable:literal, $($case:ident),+) => {
        mod $name {
            use super::*;
            use crate::catalog::writers_tests::{self, Checked};

            $(
                #[tokio::test]
                async fn $case() {
                    if let Some((catalog, can)) = connect_as($variable, stringify!($case)).await {
                        crate::catalog::suite::$case(&Subject::new(Arc::new(catalog), can)).await;
                    }
                }
            )+

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn sixteen_writers() {
                if let Some((catalog, can)) = connect_as($variable, "sixteen_writers").await {
                    let checked = match (can.show_files, can.clean_up) {
                        (false, _) => Checked::None,
                        (true, false) => Checked::AllButMetadata,
                        (true, true) => Checked::All,
                    };
                    writers_tests::sixteen_writers(Arc::new(catalog), checked).await;
                }
            }
        }
    };
}

cases!(
    namespaces_come_and_go,
    namespaces_nest,
    namespaces_have_properties,
    tables_come_and_go,
    tables_keep_what_they_were_created_with,
    a_table_is_what_it_was_loaded_as,
    tables_get_other_names,
    tables_are_registered,
    tables_lie_where_they_are_wanted,
    staged_tables,
    every_requirement_counts,
    failed_commits_leave_nothing,
    commits_need_a_table,
    writers_at_the_same_time,
    creators_at_the_same_time,
    several_tables_at_once,
    odd_names,
    views_come_and_go,
    tables_and_views_share_their_names,
    long_lists_are_whole,
    metadata_files_are_logged_and_removed,
    dropped_with_and_without_their_files,
    old_versions_are_upgraded,
);
