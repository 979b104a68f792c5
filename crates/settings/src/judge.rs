//! What to do about the difference between the values that the store accepted and those that a source holds.
//!
//! A pure function of both sides: the same view gives the same verdict, so that any process may judge at any time, again and
//! again. Nothing that an operator set is ever overwritten by a step; what cannot be healed is a finding for a person.

use std::collections::{BTreeMap, BTreeSet};

use model::{ErrorKind, Problem, nearest};

use crate::source::{INSTALLATION, Snapshot, parse_path, path};
use crate::{Declaration, Expect, Owner, SYSTEM_PREFIX};

/// A declared key with the value that the store accepted last.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub declaration: Declaration,
    pub accepted: Option<Accepted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub value: String,
    pub owner: Owner,
    /// The source's revision that holds this value; absent while it was never published.
    pub source_revision: Option<i64>,
}

/// Both sides.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// How the source calls itself.
    pub place: &'a str,
    pub known: &'a [Known],
    pub snapshot: &'a Snapshot,
    /// Keys of ours that stand outside the source's prefix, by their whole name.
    pub misplaced: &'a BTreeMap<String, crate::source::Entry>,
    /// Paths that a process is changing this moment: they are left alone.
    pub busy: &'a BTreeSet<String>,
    /// Keys that were removed here, with the values that they had.
    pub removed: &'a BTreeMap<String, String>,
    /// Codes of the systems that runs may use.
    pub enabled: &'a [String],
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put the value into the source: it was never there, or it went missing, or an older one is there.
    Publish { key: String, value: String, owner: Owner, expect: Expect, why: Why },
    /// Another tool set a legal value: it is an operator's from now on.
    Accept { key: String, value: String, source_revision: i64 },
    /// Both sides agree; the source wrote it again.
    Remember { key: String, source_revision: i64 },
    /// The key of something that is gone here.
    Remove { path: String, source_revision: i64 },
}

/// Why a value is put into the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Published,
    Restored,
}

impl Why {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Restored => "restored",
        }
    }
}

/// What to do, and what only a person can decide.
#[derive(Debug, Default)]
pub struct Verdict {
    pub steps: Vec<Step>,
    pub findings: Vec<Problem>,
}

/// Compares both sides.
pub fn judge(view: &View<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let held = mass_deletion(view);
    for known in view.known {
        let path = path(known.declaration.scope, &known.declaration.key);
        if view.busy.contains(&path) {
            continue;
        }
        match (view.snapshot.entries.get(&path), &known.accepted) {
            (Some(live), accepted) => verdict.take(present(view, known, accepted.as_ref(), &path, live)),
            (None, Some(accepted)) if accepted.source_revision.is_some() => {
                if held.is_none() {
                    verdict.steps.push(publish(known, accepted, Expect::Absent, Why::Restored));
                }
            }
            (None, Some(accepted)) => {
                verdict.steps.push(publish(known, accepted, Expect::Absent, Why::Published));
            }
            (None, None) => {
                let value = known.declaration.seed.clone().unwrap_or_else(|| known.declaration.default.clone());
                let accepted = Accepted { value, owner: Owner::Seed, source_revision: None };
                verdict.steps.push(publish(known, &accepted, Expect::Absent, Why::Published));
            }
        }
    }
    verdict.findings.extend(held);
    strays(view, &mut verdict);
    verdict
}

/// Every key that went missing, put back. For a person who decided so after a mass deletion.
pub fn restore(view: &View<'_>) -> Vec<Step> {
    let gone = missing(view).into_iter();
    gone.filter_map(|known| Some(publish(known, known.accepted.as_ref()?, Expect::Absent, Why::Restored))).collect()
}

enum One {
    Step(Step),
    Finding(Problem),
    Nothing,
}

impl Verdict {
    fn take(&mut self, one: One) {
        match one {
            One::Step(step) => self.steps.push(step),
            One::Finding(problem) => self.findings.push(problem),
            One::Nothing => {}
        }
    }
}

fn publish(known: &Known, accepted: &Accepted, expect: Expect, why: Why) -> Step {
    let (key, value) = (known.declaration.key.clone(), accepted.value.clone());
    Step::Publish { key, value, owner: accepted.owner, expect, why }
}

fn present(
    view: &View<'_>,
    known: &Known,
    accepted: Option<&Accepted>,
    path: &str,
    live: &crate::source::Entry,
) -> One {
    let key = known.declaration.key.clone();
    if let Some(accepted) = accepted {
        if accepted.value == live.value {
            let is_known = accepted.source_revision == Some(live.revision);
            let remember = Step::Remember { key, source_revision: live.revision };
            return if is_known { One::Nothing } else { One::Step(remember) };
        }
        // What the store accepted is newer than what stands there: the source went back in time.
        if accepted.source_revision.is_some_and(|revision| revision > live.revision) {
            let expect = Expect::Revision(live.revision);
            return One::Step(publish(known, accepted, expect, Why::Restored));
        }
    }
    match known.declaration.check(&live.value) {
        Ok(()) => One::Step(Step::Accept { key, value: live.value.clone(), source_revision: live.revision }),
        Err(problem) => {
            let in_force = accepted.map_or(&known.declaration.default, |accepted| &accepted.value);
            let in_force = if known.declaration.is_secret { "the last legal one" } else { in_force };
            let expected = problem.expected.clone().map(|expected| format!("{expected}; ")).unwrap_or_default();
            One::Finding(
                problem
                    .place(format!("{}: {path}", view.place))
                    .expected(format!("{expected}`{in_force}` stays in force until then"))
                    .fix(format!("`aegisctl settings set {key} VALUE`")),
            )
        }
    }
}

/// Keys that were in the source and are there no longer.
fn missing<'a>(view: &View<'a>) -> Vec<&'a Known> {
    let published = view.known.iter().filter(|known| was_published(known));
    published
        .filter(|known| {
            let path = path(known.declaration.scope, &known.declaration.key);
            !view.busy.contains(&path) && !view.snapshot.entries.contains_key(&path)
        })
        .collect()
}

fn was_published(known: &Known) -> bool {
    known.accepted.as_ref().is_some_and(|accepted| accepted.source_revision.is_some())
}

/// So many keys went missing that it is more likely to be a mistake, or another etcd, than a wish.
fn mass_deletion(view: &View<'_>) -> Option<Problem> {
    let missing = missing(view);
    let all = view.known.iter().filter(|known| was_published(known)).count();
    let is_share = missing.len() > 1 && missing.len() * 5 > all;
    let whole = view.enabled.iter().find(|code| {
        let prefix = format!("{SYSTEM_PREFIX}{code}.");
        let is_its = |known: &&&Known| known.declaration.key.starts_with(&prefix);
        let gone = missing.iter().filter(|known| is_its(known)).count();
        gone > 1 && gone == view.known.iter().filter(|known| is_its(&known) && was_published(known)).count()
    });
    if !is_share && whole.is_none() {
        return None;
    }
    let first: Vec<&str> = missing.iter().map(|known| known.declaration.key.as_str()).take(3).collect();
    let of = whole.map(|code| format!(", all of the enabled system `{code}` among them")).unwrap_or_default();
    Some(
        Problem::new(
            ErrorKind::Conflict,
            "settings.mass_deletion",
            "many keys were deleted at once, so nothing is healed and nothing is given up without a person",
        )
        .place(view.place.to_owned())
        .found(format!("{} of {} published keys are gone{of}: {}, ...", missing.len(), all, first.join(", ")))
        .expected("the accepted values stay in force")
        .fix("put them back with `aegisctl settings restore`"),
    )
}

/// Paths below the prefix that nothing reads, with their revisions.
pub fn stray_paths(view: &View<'_>) -> BTreeMap<String, i64> {
    let is_read = |path: &str| {
        let place = parse_path(path);
        place.is_some_and(|(scope, key)| {
            view.known.iter().any(|known| known.declaration.key == key && known.declaration.scope == scope)
        })
    };
    let entries = view.snapshot.entries.iter();
    let strays = entries.filter(|(path, _)| *path != INSTALLATION && !view.busy.contains(*path) && !is_read(path));
    strays.map(|(path, entry)| (path.clone(), entry.revision)).collect()
}

/// What stands where nothing reads it.
fn strays(view: &View<'_>, verdict: &mut Verdict) {
    let declared: BTreeMap<&str, &Declaration> =
        view.known.iter().map(|known| (known.declaration.key.as_str(), &known.declaration)).collect();
    for (path, live) in &view.snapshot.entries {
        if path == INSTALLATION || view.busy.contains(path) {
            continue;
        }
        let place = format!("{}: {path}", view.place);
        match parse_path(path) {
            Some((scope, key)) => match declared.get(key) {
                Some(declaration) if declaration.scope == scope => {}
                Some(declaration) => verdict.findings.push(stray(
                    "setting.wrong_scope",
                    "a key stands in a scope where nothing reads it",
                    place,
                    format!("scope `{scope}`, value `{}`", shown(declaration, &live.value)),
                    format!("scope `{}`", declaration.scope),
                    format!("`aegisctl settings set {key} VALUE`, then delete this one where it was written"),
                )),
                None if view.removed.get(key) == Some(&live.value) => {
                    verdict.steps.push(Step::Remove { path: path.clone(), source_revision: live.revision });
                }
                None => verdict.findings.push(undeclared(key, &live.value, place, &declared)),
            },
            None => verdict.findings.push(at_root(place, path, &live.value, &declared)),
        }
    }
    for (path, live) in view.misplaced {
        let place = format!("{}: key {path} outside of the prefix", view.place);
        verdict.findings.push(at_root(place, path, &live.value, &declared));
    }
}

fn shown<'a>(declaration: &Declaration, value: &'a str) -> &'a str {
    if declaration.is_secret { "a secret" } else { value }
}

fn stray(
    code: &'static str,
    message: &str,
    place: String,
    found: String,
    expected: impl Into<String>,
    fix: String,
) -> Problem {
    Problem::new(ErrorKind::Conflict, code, message).place(place).found(found).expected(expected).fix(fix)
}

fn at_root(place: String, path: &str, value: &str, declared: &BTreeMap<&str, &Declaration>) -> Problem {
    let key = path.rsplit('/').next().unwrap_or(path);
    let (value, expected) = match declared.get(key) {
        Some(declaration) => (shown(declaration, value), format!("`<prefix>/{}/{key}`", declaration.scope)),
        None => (value, "`<prefix>/<scope>/<key>`".to_owned()),
    };
    let fix = format!("`aegisctl settings set {key} VALUE`, then delete this one where it was written");
    stray("setting.at_root", "a key stands where nothing reads it", place, format!("value `{value}`"), expected, fix)
}

fn undeclared(key: &str, value: &str, place: String, declared: &BTreeMap<&str, &Declaration>) -> Problem {
    let found = format!("value `{value}`");
    let code = key.strip_prefix(SYSTEM_PREFIX).and_then(|rest| rest.split_once('.')).map(|(code, _)| code);
    let system_is_there = code.is_some_and(|code| {
        let prefix = format!("{SYSTEM_PREFIX}{code}.");
        declared.range(prefix.as_str()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    });
    let fix = match code {
        Some(code) if !system_is_there => {
            format!("register it with `aegisctl system register --name {code}`, or delete the key where it was written")
        }
        _ => match nearest(key, declared.keys().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "delete it where it was written".to_owned(),
        },
    };
    let message = "nothing declares this key, so its value has no effect";
    stray("setting.undeclared", message, place, found, "a declared key", fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Entry;
    use crate::{Bounds, Scope, ValueType};

    /// A key with bounds 1 to 9 whose accepted value was published at revision 10.
    fn known(key: &str, value: &str) -> Known {
        Known {
            declaration: Declaration {
                key: key.into(),
                scope: Scope::Global,
                value_type: ValueType::Int,
                default: "1".into(),
                seed: None,
                bounds: Bounds { min: Some(1.0), max: Some(9.0), ..Bounds::default() },
                description: String::new(),
                is_secret: false,
            },
            accepted: Some(Accepted { value: value.into(), owner: Owner::Operator, source_revision: Some(10) }),
        }
    }

    fn keys() -> Vec<Known> {
        (0..12).map(|number| known(&format!("injection.system.ts.k{number:02}"), "3")).collect()
    }

    /// The verdict on what these changes make of a source that agreed with the store.
    fn verdict(keys: &[Known], enabled: &[&str], change: impl FnOnce(&mut BTreeMap<String, Entry>)) -> Verdict {
        let entry = |known: &Known| Entry { value: known.accepted.as_ref().unwrap().value.clone(), revision: 10 };
        let mut entries =
            keys.iter().map(|known| (path(Scope::Global, &known.declaration.key), entry(known))).collect();
        change(&mut entries);
        let enabled: Vec<String> = enabled.iter().map(|&code| code.to_owned()).collect();
        judge(&View {
            place: "etcd",
            known: keys,
            snapshot: &Snapshot { revision: 20, entries },
            misplaced: &BTreeMap::new(),
            busy: &BTreeSet::new(),
            removed: &BTreeMap::from([("injection.system.gone.count".to_owned(), "4".to_owned())]),
            enabled: &enabled,
        })
    }

    fn codes(verdict: &Verdict) -> Vec<&str> {
        verdict.findings.iter().map(|finding| &*finding.code).collect()
    }

    #[test]
    fn both_sides_equal_is_nothing_to_do() {
        let verdict = verdict(&keys(), &["ts"], |_| {});
        assert!(verdict.steps.is_empty() && verdict.findings.is_empty(), "{verdict:?}");
    }

    #[test]
    fn a_legal_value_of_another_tool_is_accepted_and_an_illegal_one_is_told() {
        let set = |value: &str| {
            let entry = Entry { value: value.into(), revision: 15 };
            verdict(&keys(), &[], |live| drop(live.insert("global/injection.system.ts.k03".into(), entry)))
        };
        let key = "injection.system.ts.k03".to_owned();
        assert_eq!(set("7").steps, [Step::Accept { key, value: "7".into(), source_revision: 15 }]);
        for (value, code) in [("12", "setting.out_of_bounds"), ("many", "setting.wrong_type")] {
            let verdict = set(value);
            assert_eq!((codes(&verdict), verdict.steps.len()), (vec![code], 0));
            assert!(verdict.findings[0].to_string().contains("`3` stays in force"), "{}", verdict.findings[0]);
        }
    }

    #[test]
    fn one_deleted_key_comes_back_with_the_operators_value_and_many_wait_for_a_person() {
        let one = verdict(&keys(), &["ts"], |live| drop(live.remove("global/injection.system.ts.k03")));
        let [Step::Publish { value, owner: Owner::Operator, why: Why::Restored, .. }] = one.steps.as_slice() else {
            panic!("{one:?}")
        };
        assert_eq!(value, "3");
        // 3 of 12 are more than 20 %.
        let many =
            verdict(&keys(), &[], |live| live.retain(|path, _| path > &"global/injection.system.ts.k02".to_owned()));
        assert_eq!((codes(&many), many.steps.len()), (vec!["settings.mass_deletion"], 0));
        // All of an enabled system, although they are few among all.
        let mut two = (0..30).map(|number| known(&format!("a.k{number}"), "3")).collect::<Vec<_>>();
        two.extend([known("injection.system.hs.count", "3"), known("injection.system.hs.status", "1")]);
        let gone = |live: &mut BTreeMap<String, Entry>| live.retain(|path, _| !path.contains(".hs."));
        assert_eq!(codes(&verdict(&two, &["hs"], gone)), ["settings.mass_deletion"]);
        assert_eq!(verdict(&two, &[], gone).steps.len(), 2, "a disabled system's few keys are healed");
    }

    #[test]
    fn what_was_never_published_is_and_what_is_older_than_the_store_is_restored() {
        let mut keys = keys();
        keys[0].accepted = None;
        keys[1].accepted.as_mut().unwrap().source_revision = Some(19);
        let verdict = verdict(&keys[2..].iter().chain(&keys[1..2]).cloned().collect::<Vec<_>>(), &[], |live| {
            live.insert("global/injection.system.ts.k01".into(), Entry { value: "2".into(), revision: 12 });
        });
        let [Step::Publish { why: Why::Restored, expect: Expect::Revision(12), .. }] = verdict.steps.as_slice() else {
            panic!("{verdict:?}")
        };
        let fresh = judge(&View {
            place: "etcd",
            known: &keys[..1],
            snapshot: &Snapshot::default(),
            misplaced: &BTreeMap::new(),
            busy: &BTreeSet::new(),
            removed: &BTreeMap::new(),
            enabled: &[],
        });
        let [Step::Publish { value, why: Why::Published, .. }] = fresh.steps.as_slice() else { panic!("{fresh:?}") };
        assert_eq!(value, "1", "a key that only the code declares is published with its default");
    }

    #[test]
    fn what_stands_where_nothing_reads_it_is_told_with_its_place() {
        let put = |path: &str, value: &str| {
            let entry = Entry { value: value.into(), revision: 15 };
            verdict(&keys(), &[], |live| drop(live.insert(path.into(), entry)))
        };
        for (path, code) in [
            ("consumer/injection.system.ts.k03", "setting.wrong_scope"),
            ("injection.system.ts.k03", "setting.at_root"),
            ("global/injection.system.ts.k3", "setting.undeclared"),
            ("global/injection.system.mm.count", "setting.undeclared"),
        ] {
            let verdict = put(path, "4");
            assert_eq!((codes(&verdict), verdict.steps.len()), (vec![code], 0), "{path}");
            assert!(verdict.findings[0].place.as_ref().unwrap().contains(path));
        }
        let gone = put("global/injection.system.gone.count", "4");
        assert_eq!((gone.steps.len(), gone.findings.len()), (1, 0), "the key of a system that is gone goes");
        assert_eq!(codes(&put("global/injection.system.gone.count", "5")), ["setting.undeclared"]);
    }
}
