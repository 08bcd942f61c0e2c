//! Every call of a commit goes wrong in every way, for every catalog and every kind of commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::fault_catalog::Forced;
use super::ident;
use super::operations::Operation;
use super::prepared::{Prepared, creation};
use super::rig::{Domain, Kind, Rig};
use super::state::{Look, State, look, query, see};
use crate::catalog::Catalog;
#[cfg(feature = "catalog-rest")]
use crate::catalog::rest_server::Wrong;
use crate::error::{ErrorKind, Result};
use crate::storage::fault::Fault;
use crate::table::Table;
use crate::transaction::Append;

/// What happens to the first commit anyway. Whatever goes wrong besides does so from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    Smooth,
    /// Somebody else commits just before it.
    Overtaken,
    /// Its reply is lost.
    Lost,
    /// It is refused.
    Refused,
    /// It is lost, and nobody says so.
    InDoubt,
}

impl Course {
    const ALL: [Course; 5] =
        [Course::Smooth, Course::Overtaken, Course::Lost, Course::Refused, Course::InDoubt];

    fn forced(self, rig: &Arc<Rig>, prepared: &Prepared) -> Option<Forced> {
        match self {
            Self::Smooth => None,
            Self::Overtaken => Some(Forced::Overtaken(rig.rival(&prepared.start, &prepared.overtaken))),
            Self::Lost => Some(Forced::Fault(Fault::Lost)),
            Self::Refused => Some(Forced::Fault(Fault::Refused)),
            Self::InDoubt => Some(Forced::Fault(Fault::InDoubt)),
        }
    }

    /// The error that the commit ends with if nothing else goes wrong.
    fn error(self, operation: Operation) -> Option<ErrorKind> {
        match self {
            Self::Overtaken if operation == Operation::CreateStaged => Some(ErrorKind::AlreadyExists),
            Self::Smooth | Self::Overtaken | Self::Lost => None,
            Self::Refused => Some(ErrorKind::Io),
            Self::InDoubt => Some(ErrorKind::CommitStateUnknown),
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
enum What {
    Fault(Fault),
    #[cfg(feature = "catalog-rest")]
    Wrong(Wrong),
}

impl What {
    /// What can go wrong with a call of that name.
    fn all(kind: Kind, domain: Domain, name: &str, course: Course) -> Vec<What> {
        use Fault::{Conflict, CrashAfter, CrashBefore, InDoubt, Lost, LostInOutage, Outage, Refused};
        if domain == Domain::Requests {
            return Self::of_request(name, course);
        }
        let changes =
            ["put", "delete", "copy", "commit", "swap"].iter().any(|change| name.starts_with(change));
        let faults: &[Fault] = match domain {
            // Whether files are there is asked all the time in directories.
            _ if name.starts_with("head") && !matches!(course, Course::Smooth | Course::Lost) => &[],
            // What becomes of a server that dies is its own affair.
            Domain::ServerStorage => &[Refused, Lost],
            Domain::Catalog | Domain::Pointers if changes => {
                &[Refused, Lost, CrashBefore, CrashAfter, Outage, LostInOutage, InDoubt, Conflict]
            }
            Domain::Catalog | Domain::Pointers if course != Course::Smooth => &[Refused, Outage],
            _ if changes && course == Course::Smooth => {
                &[Refused, Lost, CrashBefore, CrashAfter, LostInOutage]
            }
            // To die before a change is to die after the one before it.
            _ if changes => &[Refused, Lost, CrashAfter],
            _ if kind == Kind::Memory && course == Course::Smooth => {
                &[Refused, Lost, CrashBefore, CrashAfter, Outage]
            }
            // To read something and to lose it is the same as not to read it; and whoever dies then
            // leaves behind what the change before it did.
            _ => &[Refused],
        };
        faults.iter().copied().map(What::Fault).collect()
    }

    #[cfg(feature = "catalog-rest")]
    fn of_request(name: &str, course: Course) -> Vec<What> {
        use Wrong::{DoneBut, Garbage, LostReply, Refused};
        let wrong: &[Wrong] = match (name.starts_with("GET"), course) {
            (false, _) => &[
                Refused(403, false),
                Refused(409, false),
                Refused(429, true),
                Refused(500, false),
                Refused(503, true),
                DoneBut(500, false),
                DoneBut(503, true),
                DoneBut(504, false),
                LostReply,
                Garbage,
            ],
            (true, Course::Smooth) => {
                &[Refused(403, false), Refused(500, true), Refused(503, true), LostReply, Garbage]
            }
            (true, _) => &[Refused(403, false), Refused(500, true), Garbage],
        };
        wrong.iter().copied().map(What::Wrong).collect()
    }

    #[cfg(not(feature = "catalog-rest"))]
    fn of_request(_: &str, _: Course) -> Vec<What> {
        Vec::new()
    }
}

/// How a commit ended for the one who made it.
enum Outcome {
    Ended(Result<Option<Table>>),
    Died,
    Hangs,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(Ok(_)) => f.write_str("committed"),
            Self::Ended(Err(e)) => write!(f, "failed ({e})"),
            Self::Died => f.write_str("died"),
            Self::Hangs => f.write_str("hangs"),
        }
    }
}

/// What may be seen after a commit.
struct Expected {
    old: State,
    /// `None` if the commit can't succeed.
    new: Option<State>,
    error: Option<ErrorKind>,
}

/// What was found out.
#[derive(Debug, Default)]
struct Report {
    points: BTreeMap<(Kind, Domain), u64>,
    faults: BTreeMap<String, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Report {
    fn add(&mut self, other: Report) {
        other.points.into_iter().for_each(|(key, n)| *self.points.entry(key).or_default() += n);
        other.faults.into_iter().for_each(|(key, n)| *self.faults.entry(key).or_default() += n);
        other.outcomes.into_iter().for_each(|(key, n)| *self.outcomes.entry(key).or_default() += n);
        self.violations.extend(other.violations);
    }
}

/// One kind of commit to one catalog.
struct Examined {
    rig: Arc<Rig>,
    operation: Operation,
    prepared: Prepared,
    report: Report,
    /// The courses and states of which the rows have been queried.
    queried: BTreeSet<(Course, bool)>,
    /// The courses and states, with nothing left over, that the table has been written to after.
    written: BTreeSet<(Course, bool)>,
}

async fn examine(kind: Kind, operation: Operation) -> Report {
    let rig = Arc::new(Rig::new(kind).await);
    if operation == Operation::TwoTables && !rig.catalog.commits_several_tables() {
        return Report::default();
    }
    let prepared = Prepared::new(&rig, operation).await;
    let report = Report::default();
    let (queried, written) = (BTreeSet::new(), BTreeSet::new());
    let mut examined = Examined { rig, operation, prepared, report, queried, written };
    for course in Course::ALL {
        examined.examine(course).await;
    }
    examined.report
}

impl Examined {
    async fn examine(&mut self, course: Course) {
        let place = format!("{:?} {:?} {course:?}", self.rig.kind, self.operation);
        let before = match course {
            Course::Overtaken => &self.prepared.overtaken,
            _ => &self.prepared.start,
        };
        self.rig.reset(before).await;
        let old = self.look().await.unwrap_or_else(|e| panic!("{place}: {e}")).state;
        // As it goes if nothing else goes wrong.
        self.start(course).await;
        let outcome = self.run().await;
        let calls = self.calls();
        let from = self.rig.forced_at.lock().unwrap().clone();
        self.rig.calm();
        let error = course.error(self.operation);
        match &outcome {
            Outcome::Ended(Ok(_)) if error.is_none() => {}
            Outcome::Ended(Err(e)) if Some(e.kind()) == error => {}
            other => panic!("{place}: {other:?}, but {error:?} is expected"),
        }
        let new = self.look().await.unwrap_or_else(|e| panic!("{place}: {e}")).state;
        let new = error.is_none().then_some(new);
        assert_ne!(new.as_ref(), Some(&old), "{place}: nothing has changed");
        let expected = Expected { old, new, error };

        for (domain, names) in &calls {
            if self.is_known(course, *domain) {
                continue;
            }
            let mut from = from.get(domain).copied().unwrap_or_default();
            if *domain == Domain::Catalog && !matches!(course, Course::Smooth | Course::Overtaken) {
                // The commit has gone wrong already.
                from += 1;
            }
            for (call, name) in (0..).zip(names).skip(from as usize) {
                for what in What::all(self.rig.kind, *domain, name, course) {
                    self.start(course).await;
                    match what {
                        What::Fault(fault) => self.rig.domains[domain].arm(call, fault),
                        #[cfg(feature = "catalog-rest")]
                        What::Wrong(wrong) => self.rig.wrong(call, wrong),
                    }
                    let outcome = self.run().await;
                    let reached = self.calls()[domain].get(call as usize).cloned();
                    self.rig.calm();
                    let Some(reached) = reached else {
                        self.violation(&place, *domain, call, name, what, "the call is not made again");
                        continue;
                    };
                    *self.report.points.entry((self.rig.kind, *domain)).or_default() += 1;
                    *self.report.faults.entry(format!("{what:?}")).or_default() += 1;
                    let told = match &outcome {
                        Outcome::Ended(Ok(_)) => "committed",
                        Outcome::Ended(Err(e)) if e.kind() == ErrorKind::CommitStateUnknown => "in doubt",
                        Outcome::Ended(Err(_)) => "failed",
                        Outcome::Died => "died",
                        Outcome::Hangs => "hangs",
                    };
                    *self.report.outcomes.entry(told).or_default() += 1;
                    let checked = self.check(course, &expected, *domain, &reached, what, &outcome).await;
                    if let Err(e) = checked {
                        let e = format!("it {outcome:?}; {e}");
                        self.violation(&place, *domain, call, &reached, what, &e);
                    }
                }
            }
        }
    }

    /// Whether the calls are those of the catalog in memory, made by the same code: what becomes of a
    /// transaction's files after its commit has nothing to do with these catalogs.
    fn is_known(&self, course: Course, domain: Domain) -> bool {
        let is_like_memory = match self.rig.kind {
            Kind::Memory | Kind::Filesystem | Kind::ObjectStore => false,
            #[cfg(feature = "catalog-sql")]
            Kind::Sqlite => true,
            #[cfg(feature = "catalog-rest")]
            Kind::Rest => true,
        };
        let of_storage = matches!(domain, Domain::Storage | Domain::ServerStorage);
        is_like_memory && of_storage && !matches!(course, Course::Smooth | Course::Overtaken)
    }

    fn violation(&mut self, place: &str, domain: Domain, call: u64, name: &str, what: What, e: &str) {
        self.report.violations.push(format!("{place}: {what:?} of call {call} of {domain:?}, `{name}`: {e}"));
    }

    /// Begins anew, up to the fault that is looked at.
    async fn start(&self, course: Course) {
        self.rig.reset(&self.prepared.start).await;
        self.rig.catalog.force(course.forced(&self.rig, &self.prepared));
    }

    async fn run(&self) -> Outcome {
        tokio::select! {
            biased;
            ended = self.operation.run(&self.prepared, self.rig.catalog.as_ref()) => Outcome::Ended(ended),
            () = self.rig.crashed() => Outcome::Died,
            () = tokio::time::sleep(Duration::from_secs(120)) => Outcome::Hangs,
        }
    }

    /// The names of all calls.
    fn calls(&self) -> BTreeMap<Domain, Vec<String>> {
        let mut calls: BTreeMap<Domain, Vec<String>> =
            self.rig.domains.iter().map(|(domain, faults)| (*domain, faults.names())).collect();
        if let Some(requests) = self.rig.requests() {
            calls.insert(Domain::Requests, requests);
        }
        calls
    }

    async fn look(&self) -> Result<Look, String> {
        self.look_at(self.rig.reopened().await.as_ref()).await
    }

    async fn look_at(&self, catalog: &dyn Catalog) -> Result<Look, String> {
        look(&self.rig, catalog, self.operation.tables(), &self.prepared.rows).await
    }

    async fn check(
        &mut self,
        course: Course,
        expected: &Expected,
        domain: Domain,
        name: &str,
        what: What,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let catalog = self.rig.reopened().await;
        let now = self.look_at(catalog.as_ref()).await?;
        let (is_old, is_new) = (now.state == expected.old, expected.new.as_ref() == Some(&now.state));
        if !is_old && !is_new {
            return Err(format!("neither the old state nor the new one is there: {:?}", now.state));
        }
        let mut has_rest = true;
        match outcome {
            Outcome::Hangs => return Err("for two minutes".to_owned()),
            Outcome::Died => {}
            Outcome::Ended(Ok(table)) => {
                if !is_new {
                    return Err("the old state is there".to_owned());
                }
                let given = table.as_ref().map(|t| t.metadata().current_snapshot_id);
                if given.is_some_and(|given| given != now.tables["t"].metadata().current_snapshot_id) {
                    return Err("another table was given".to_owned());
                }
                has_rest = self.check_left_over(&now, domain, name, what).await?;
            }
            Outcome::Ended(Err(e)) if e.kind() == ErrorKind::CommitStateUnknown => {}
            Outcome::Ended(Err(e)) => {
                if !is_old {
                    return Err("the new state is there".to_owned());
                }
                let for_a_name = self.operation == Operation::CreateStaged
                    && matches!(what, What::Fault(Fault::Conflict))
                    && e.kind() == ErrorKind::AlreadyExists;
                // Somebody was faster, and then it could not be tried again.
                let gave_up = course == Course::Overtaken && e.kind() == ErrorKind::CommitConflict;
                if ![Some(ErrorKind::Io), expected.error].contains(&Some(e.kind()))
                    && !for_a_name
                    && !gave_up
                    && domain != Domain::Requests
                {
                    return Err("that is another kind of error".to_owned());
                }
                has_rest = self.check_left_over(&now, domain, name, what).await?;
            }
        }
        // Without anything left over, one state is as good as another that is the same.
        if !has_rest && !self.written.insert((course, is_new)) {
            return Ok(());
        }
        // Whoever is alive goes on with the catalog that he has.
        let own = Arc::clone(&self.rig.catalog) as Arc<dyn Catalog>;
        let catalog = if matches!(outcome, Outcome::Ended(_)) { own } else { catalog };
        self.go_on(course, is_new, &now, catalog.as_ref()).await
    }

    /// That there are no files of the commit but those that the tables need; whether there is one
    /// that can't be helped.
    async fn check_left_over(
        &self,
        now: &Look,
        domain: Domain,
        name: &str,
        what: What,
    ) -> Result<bool, String> {
        let (before, rivals) = (&self.prepared.start.files, &self.prepared.overtaken.files);
        // It could not be removed.
        let excused = match what {
            What::Fault(fault) if fault != Fault::Lost => name.strip_prefix("delete "),
            _ => None,
        };
        let files = self.rig.files().await;
        let left = files.keys().filter(|file| {
            !now.needed.contains(file) && !before.contains_key(file) && !rivals.contains_key(file)
        });
        let (excused, left): (Vec<_>, Vec<_>) =
            left.map(ToString::to_string).partition(|file| Some(file.as_str()) == excused);
        let is_out =
            domain == Domain::Storage && matches!(what, What::Fault(Fault::Outage | Fault::LostInOutage));
        match left.is_empty() || is_out {
            true => Ok(is_out || !excused.is_empty()),
            false => Err(format!("files were left over: {left:?}")),
        }
    }

    /// That the table can be written to as if nothing had happened.
    async fn go_on(
        &mut self,
        course: Course,
        is_new: bool,
        now: &Look,
        catalog: &dyn Catalog,
    ) -> Result<(), String> {
        let append = async {
            let table = match now.tables.get("t") {
                Some(table) => table.clone(),
                None => catalog.create_table(&ident("t"), creation(3)).await?,
            };
            let append = Append::fast().files([self.prepared.file("next")]);
            table.transaction().apply(append).commit(catalog).await
        };
        let table = append.await.map_err(|e| format!("the next append fails: {e}"))?;
        let (mut rows, snapshots) =
            now.state.get("t").map(|t| (t.rows.clone(), t.snapshots)).unwrap_or_default();
        rows.extend([200, 201, 202]);
        let files = self.rig.files().await;
        let then = see(&table, &self.prepared.rows, &files, &mut BTreeSet::new()).await?;
        if (&then.rows, then.snapshots) != (&rows, snapshots + 1) {
            return Err(format!("after the next append: {then:?}"));
        }
        // Planning tells the rows as well, and sooner.
        if self.queried.insert((course, is_new)) && query(&table).await? != rows {
            return Err("a query finds other rows".to_owned());
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_leaves_the_old_state_or_the_new_one() {
    let began = Instant::now();
    let mut all = JoinSet::new();
    for kind in Kind::ALL {
        for operation in Operation::ALL {
            // The same as the other directories but for what an error means.
            let is_new = *kind != Kind::ObjectStore
                || matches!(
                    operation,
                    Operation::FastAppend | Operation::TwoActions | Operation::CreateStaged
                );
            if !is_new {
                continue;
            }
            all.spawn(examine(*kind, operation));
        }
    }
    let mut report = Report::default();
    while let Some(examined) = all.join_next().await {
        report.add(examined.unwrap());
    }
    let total: u64 = report.points.values().sum();
    for ((kind, domain), points) in &report.points {
        println!("{kind:?}, {domain:?}: {points}");
    }
    println!("{:?}\n{:?}", report.faults, report.outcomes);
    println!("{total} points in {:.1} s", began.elapsed().as_secs_f64());
    for violation in report.violations.iter().take(40) {
        println!("{violation}");
    }
    assert_eq!(report.violations.len(), 0, "of {total}");
    for kind in Kind::ALL {
        let points: u64 = report.points.iter().filter(|((of, _), _)| of == kind).map(|(_, n)| n).sum();
        assert!(points > if *kind == Kind::ObjectStore { 300 } else { 1500 }, "{kind:?}: {points}");
    }
}
