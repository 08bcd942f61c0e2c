//! Any history of actions leaves the table as a model of it says.

use proptest::prelude::*;

use super::*;
use crate::spec::{ManifestStatus, SequenceNumber};

#[derive(Debug, Clone)]
enum Step {
    Append {
        merge: bool,
        files: Vec<(u8, u8)>,
    },
    /// Removes the nth live file, adds one.
    Overwrite(usize, u8),
    /// Removes all files of a partition.
    DeletePartition(u8),
    Replace(u8),
    /// Puts one file in the place of the first two of a partition.
    Compact(u8, bool),
    DeleteRows(usize),
    RewriteManifests,
    Upgrade,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), prop::collection::vec((0u8..3, 1u8..5), 1..4))
            .prop_map(|(merge, files)| Step::Append { merge, files }),
        2 => (0usize..20, 0u8..3).prop_map(|(n, p)| Step::Overwrite(n, p)),
        1 => (0u8..3).prop_map(Step::DeletePartition),
        1 => (0u8..3).prop_map(Step::Replace),
        2 => (0u8..3, any::<bool>()).prop_map(|(p, old)| Step::Compact(p, old)),
        2 => (0usize..20).prop_map(Step::DeleteRows),
        1 => Just(Step::RewriteManifests),
        1 => Just(Step::Upgrade),
    ]
}

/// What should be in the table.
#[derive(Default)]
struct Model {
    data: BTreeMap<String, (ContentFile, SequenceNumber)>,
    vectors: BTreeMap<String, ContentFile>,
    next: usize,
}

impl Model {
    fn new_file(&mut self, p: u8, rows: i64) -> ContentFile {
        self.next += 1;
        file(&format!("{}", self.next), Some(p.into()), rows)
    }

    fn nth(&self, n: usize) -> Option<ContentFile> {
        let files: Vec<_> = self.data.values().collect();
        (!files.is_empty()).then(|| files[n % files.len()].0.clone())
    }

    fn of(&self, p: u8) -> Vec<ContentFile> {
        let p = vec![Some(Value::Int(p.into()))];
        self.data.values().map(|(f, _)| f).filter(|f| f.partition == p).cloned().collect()
    }

    fn add(&mut self, files: &[ContentFile], number: SequenceNumber) {
        self.data.extend(files.iter().map(|f| (name(f), (f.clone(), number))));
    }

    fn remove(&mut self, files: &[ContentFile]) {
        for file in files {
            self.data.remove(&name(file));
            self.vectors.remove(&name(file));
        }
    }
}

async fn run(version: u8, min_merge: &str, steps: Vec<Step>) {
    let properties = [("commit.manifest.min-count-to-merge", min_merge)];
    let (catalog, mut table) = TestCatalog::with_table(version, &properties).await;
    let mut model = Model::default();
    let mut row_ids: BTreeMap<String, i64> = BTreeMap::new();
    for step in steps {
        let number = match table.metadata().format_version {
            1 => SequenceNumber(0),
            _ => SequenceNumber(table.metadata().last_sequence_number.0 + 1),
        };
        let start = table.transaction();
        let transaction = match &step {
            Step::Append { merge, files } => {
                let files: Vec<_> =
                    files.iter().map(|(p, rows)| model.new_file(*p, (*rows).into())).collect();
                model.add(&files, number);
                let append = if *merge { Append::merging() } else { Append::fast() };
                start.apply(append.files(files))
            }
            Step::Overwrite(n, p) => {
                let Some(old) = model.nth(*n) else { continue };
                let new = model.new_file(*p, 2);
                model.remove(std::slice::from_ref(&old));
                model.add(std::slice::from_ref(&new), number);
                start.apply(Overwrite::new().remove_files([old]).add_files([new]))
            }
            Step::DeletePartition(p) => {
                model.remove(&model.of(*p));
                start.apply(DeleteFiles::new().rows_of(filter("p", Test::Eq(Value::Int((*p).into())))))
            }
            Step::Replace(p) => {
                let new = model.new_file(*p, 2);
                model.remove(&model.of(*p));
                model.add(std::slice::from_ref(&new), number);
                start.apply(ReplacePartitions::new().files([new]))
            }
            Step::Compact(p, old_number) => {
                let old: Vec<_> = model.of(*p).into_iter().take(2).collect();
                if old.is_empty() || table.metadata().current_snapshot_id.is_none() {
                    continue;
                }
                let oldest = old.iter().map(|f| model.data[&name(f)].1).min().unwrap();
                let new = model.new_file(*p, old.iter().map(|f| f.record_count).sum());
                model.remove(&old);
                let keeps_age = *old_number && table.metadata().format_version > 1;
                let number = if keeps_age { oldest } else { number };
                model.add(std::slice::from_ref(&new), number);
                let rewrite = RewriteFiles::new()
                    .remove_data(old)
                    .add_data([new])
                    .validate_from_snapshot(current(&table).snapshot_id);
                start.apply(match keeps_age {
                    true => rewrite.data_sequence_number(number),
                    false => rewrite,
                })
            }
            Step::DeleteRows(n) => {
                let Some(data) = model.nth(*n).filter(|_| table.metadata().format_version == 3) else {
                    continue;
                };
                model.next += 1;
                let new = vector(&format!("v{}", model.next), &data, 4);
                let old = model.vectors.insert(name(&data), new.clone());
                start.apply(RowDelta::new().add_deletes([new]).remove_deletes(&old))
            }
            Step::RewriteManifests => {
                if table.metadata().current_snapshot_id.is_none() {
                    continue;
                }
                start.apply(RewriteManifests::new().cluster_by(|f| format!("{:?}", f.partition)))
            }
            Step::Upgrade => {
                let next = (table.metadata().format_version + 1).min(3);
                start.apply(Upgrade(next))
            }
        };
        table = transaction.commit(&catalog).await.unwrap();
        if table.metadata().current_snapshot_id.is_some() {
            check(&table, &model, &mut row_ids, &step).await;
        }
    }
    assert_eq!(catalog.files().await, referenced(&table).await, "orphans");
}

async fn check(table: &Table, model: &Model, row_ids: &mut BTreeMap<String, i64>, step: &Step) {
    let entries = entries(table, ManifestContent::Data).await;
    let found: BTreeMap<String, SequenceNumber> = entries
        .iter()
        .filter(|e| e.is_live())
        .map(|e| (name(&e.data_file), e.sequence_number.unwrap()))
        .collect();
    let expected = model.data.iter().map(|(n, (_, number))| (n.clone(), *number)).collect();
    assert_eq!(found, expected, "{step:?}");
    assert_eq!(entries.iter().filter(|e| e.is_live()).count(), found.len(), "twice: {step:?}");

    let scanned = scanned(table).await;
    for data in model.data.keys() {
        let vectors: BTreeSet<String> = model.vectors.get(data).map(name).into_iter().collect();
        assert_eq!(scanned[data], vectors, "{data} {step:?}");
    }
    let snapshot = current(table);
    let rows: i64 = model.data.values().map(|(f, _)| f.record_count).sum();
    for (name, n) in [
        ("total-data-files", model.data.len() as i64),
        ("total-records", rows),
        ("total-files-size", 100 * model.data.len() as i64 + 40 * model.vectors.len() as i64),
        ("total-delete-files", model.vectors.len() as i64),
        ("total-position-deletes", model.vectors.len() as i64),
    ] {
        assert_eq!(number(&snapshot, name), n, "{name} after {step:?}");
    }
    for manifest in manifests(table).await {
        let read = table.manifest(&manifest).await.unwrap();
        let count = |status| read.entries.iter().filter(|e| e.status == status).count() as i32;
        assert_eq!(manifest.added_files_count, Some(count(ManifestStatus::Added)));
        assert_eq!(manifest.existing_files_count, Some(count(ManifestStatus::Existing)));
        assert_eq!(manifest.deleted_files_count, Some(count(ManifestStatus::Deleted)));
        let numbers = read.entries.iter().filter(|e| e.is_live()).map(|e| e.sequence_number.unwrap());
        if let Some(min) = numbers.min() {
            assert!(manifest.min_sequence_number <= min, "{manifest:?}");
        }
        let own = manifest.added_snapshot_id == Some(snapshot.snapshot_id);
        for entry in read.entries.iter().filter(|e| e.status == ManifestStatus::Deleted && own) {
            assert_eq!(entry.snapshot_id, Some(snapshot.snapshot_id));
        }
    }
    if snapshot.first_row_id.is_some() {
        let mut ranges = Vec::new();
        for entry in entries.iter().filter(|e| e.is_live()) {
            let first = entry.data_file.first_row_id.unwrap();
            let before = row_ids.insert(name(&entry.data_file), first);
            assert!(before.is_none_or(|b| b == first), "the row ids of a file changed: {step:?}");
            ranges.push((first, first + entry.data_file.record_count));
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "row ids overlap: {ranges:?}");
        assert!(ranges.last().is_none_or(|r| r.1 <= table.metadata().next_row_id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_table_is_as_its_history_says(
        version in 1u8..=3,
        min_merge in prop::sample::select(vec!["1", "2", "3", "100"]),
        steps in prop::collection::vec(step(), 1..16),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(version, min_merge, steps));
    }
}
