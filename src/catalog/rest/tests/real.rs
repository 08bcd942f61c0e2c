//! The suite against a real server: `ICEFLOE_TEST_REST` holds the catalog's properties as a JSON
//! object. A member `can` lists what the server can't do, by the names of `suite::Can`.

use super::*;

async fn subject() -> Option<Subject> {
    let Ok(text) = std::env::var("ICEFLOE_TEST_REST") else {
        eprintln!("skipped: ICEFLOE_TEST_REST is not set");
        return None;
    };
    let mut properties: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    let lacks = properties.remove("lacks").map(|l| l.as_str().unwrap().to_owned()).unwrap_or_default();
    let properties = properties.into_iter().map(|(n, v)| (n, v.as_str().unwrap().to_owned())).collect();
    let catalog = RestCatalog::connect("real", properties).await.unwrap();
    let can = |what: &str| !lacks.split(',').any(|lack| lack.trim() == what);
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
    Some(Subject::new(Arc::new(catalog), can))
}

crate::catalog::suite::cases!(subject);
