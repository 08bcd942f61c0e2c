//! Holds the table of ARCHITECTURE.md: modules know only what stands below them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn allowed() -> BTreeMap<String, Vec<String>> {
    let text = include_str!("../ARCHITECTURE.md");
    let names: Vec<String> = rows(text).map(|(name, _)| name).collect();
    rows(text)
        .map(|(name, uses)| {
            let uses: Vec<String> = match uses.as_str() {
                "all" => names.clone(),
                other => match other.strip_prefix("all but ") {
                    Some(but) => names.iter().filter(|n| format!("`{n}`") != but).cloned().collect(),
                    None => other.split(',').map(|u| u.trim().trim_matches('`').to_owned()).collect(),
                },
            };
            (name, uses)
        })
        .collect()
}

fn rows(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    text.lines().filter_map(|line| {
        let (name, uses) = line.strip_prefix("| `")?.split_once("` |")?;
        Some((name.to_owned(), uses.trim().trim_end_matches('|').trim().to_owned()))
    })
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// A file without the tests at its end. Other things may be for tests alone and stand in its middle.
fn production(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]\n").find(|(at, attribute)| {
        let next = text[at + attribute.len()..].lines().next().unwrap_or_default();
        next.contains("mod ") && next.ends_with('{')
    });
    &text[..tests.map_or(text.len(), |(at, _)| at)]
}

/// The modules of the crate that a file names, by `crate::module`, outside of its tests.
fn used(text: &str) -> Vec<String> {
    let code = production(text).lines().filter(|l| !l.trim_start().starts_with("//"));
    let mut used = Vec::new();
    for line in code {
        for part in line.split("crate::").skip(1) {
            let name: String = part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() {
                used.push(name);
            }
        }
    }
    used
}

/// Whether a file holds nothing but tests.
fn is_test(file: &Path) -> bool {
    let named = file.file_stem().is_some_and(|s| s.to_string_lossy().ends_with("tests"));
    named || file.parent().is_some_and(|dir| dir.ends_with("tests"))
}

#[test]
fn modules_know_only_what_stands_below_them() {
    let allowed = allowed();
    assert!(allowed.len() >= 11, "the table was not found: {allowed:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (module, allowed) in &allowed {
        let mut files = Vec::new();
        match root.join(module).is_dir() {
            true => sources(&root.join(module), &mut files),
            false => files.push(root.join(format!("{module}.rs"))),
        }
        for file in files {
            for name in used(&std::fs::read_to_string(&file).unwrap()) {
                let known = name == *module || !root.join(&name).is_dir() && name != "error";
                if !is_test(&file) && !known && !allowed.contains(&name) {
                    wrong.push(format!("{} uses {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_format_is_pure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root.join("spec"), &mut files);
    sources(&root.join("expr"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in production(&text).lines() {
            let imports = line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub use ");
            let impure = ["arrow::", "datafusion::", "object_store::", "tokio::", "parquet::"];
            if imports && !is_test(&file) {
                let own = line.contains("crate::") || line.contains("self::");
                assert!(own || !impure.iter().any(|i| line.contains(i)), "{}: {line}", file.display());
            }
        }
    }
}
