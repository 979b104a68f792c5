//! The checks of the installation, one per known failure. Nothing is changed.
//!
//! What the checks look at is read once ([`facts`]); each check is a function from that to what it saw. Which checks there are, what
//! they are about and what each waits for is data: `api::doctor::ROWS`.

mod chart;
mod facts;
mod registry;
mod runs;
mod seed;
mod settings;
mod store;
mod telemetry;

use std::collections::BTreeMap;

use ::store::Sample;
use api::doctor::{Check, CheckState, ROWS, Repair, Report, Row, Runs};
use model::{Problem, Result};

use self::facts::Facts;
use super::App;

/// How many odd things are named.
const SHOWN: usize = 5;

/// What was seen.
enum Seen {
    Good(String),
    Bad {
        observed: String,
        fix: String,
        repair: Repair,
    },
    /// It cannot be looked at here, and why.
    Not(String),
}

/// A check: what it says of the facts.
type Look = fn(&Facts<'_>) -> Result<Seen>;

/// Every check of the server, by its id.
const LOOKS: [&[(&str, Look)]; 7] =
    [store::LOOKS, settings::LOOKS, registry::LOOKS, chart::LOOKS, seed::LOOKS, telemetry::LOOKS, runs::LOOKS];

impl App {
    /// # Errors
    /// Never; what fails is a check's result.
    pub async fn doctor(&self) -> Result<Report> {
        let facts = Facts::read(self).await;
        let mut checks: Vec<Check> = Vec::new();
        let mut states: BTreeMap<&str, CheckState> = BTreeMap::new();
        for row in ROWS.iter().filter(|row| row.runs != Runs::InClient) {
            let broken = row.after.iter().find(|id| states.get(*id).is_some_and(|state| *state == CheckState::Failed));
            let check = match broken {
                Some(id) => check(row, Ok(Seen::Not(format!("skipped, because {id}")))),
                None => check(row, look(row, &facts)),
            };
            states.insert(row.id, check.state);
            checks.push(check);
        }
        Ok(Report { ok: checks.iter().all(|check| check.state != CheckState::Failed), checks })
    }
}

fn look(row: &Row, facts: &Facts<'_>) -> Result<Seen> {
    if row.runs == Runs::OnKubernetes {
        return Ok(Seen::Not("needs a Kubernetes cluster".into()));
    }
    match LOOKS.iter().copied().flatten().find(|(id, _)| *id == row.id) {
        Some((_, look)) => look(facts),
        None => Err(Problem::internal("doctor.check_lost", "nothing makes this check")),
    }
}

/// A check that could not be made is a failed one: it must not look like a good one.
fn check(row: &Row, seen: Result<Seen>) -> Check {
    let bad = if row.is_error { CheckState::Failed } else { CheckState::Warning };
    let (state, observed, fix) = match seen {
        Ok(Seen::Good(observed)) => (CheckState::Ok, observed, None),
        Ok(Seen::Bad { observed, fix, repair }) => (bad, observed, Some((fix, repair))),
        Ok(Seen::Not(why)) => (CheckState::Skipped, why, None),
        Err(problem) => {
            let fix = problem.fix.clone().map(|fix| (fix, Repair::Person));
            (CheckState::Failed, format!("could not be checked: {problem}"), fix)
        }
    };
    let (fix, repair) = fix.unzip();
    Check {
        id: row.id.into(),
        severity: if row.is_error { "error" } else { "warning" }.into(),
        state,
        observed,
        why: row.why.into(),
        fix,
        repair,
        symptoms: row.symptoms.to_vec(),
    }
}

/// Odd things, each with what puts it right. The first one's fix is told: after it the next one's is.
#[derive(Default)]
struct Odd {
    things: Vec<String>,
    fix: Option<(String, Repair)>,
}

impl Odd {
    fn add(&mut self, thing: impl Into<String>, repair: Repair, fix: impl Into<String>) {
        self.things.push(thing.into());
        self.fix.get_or_insert_with(|| (fix.into(), repair));
    }

    /// The same with the two together.
    fn fixed_by(&mut self, thing: impl Into<String>, (fix, repair): (String, Repair)) {
        self.add(thing, repair, fix);
    }

    /// Good when nothing is odd.
    fn seen(self, good: impl Into<String>) -> Result<Seen> {
        let Some((fix, repair)) = self.fix else { return Ok(Seen::Good(good.into())) };
        Ok(Seen::Bad { observed: some_of(&self.things, self.things.len() as u64), fix, repair })
    }
}

/// The first of them, and how many more there are.
fn some_of<T: ToString>(items: &[T], total: u64) -> String {
    let mut names: Vec<String> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    let left = total.saturating_sub(names.len() as u64);
    if left > 0 {
        names.push(format!("and {left} more"));
    }
    names.join("; ")
}

/// Good when the store found none.
fn sampled<T: ToString>(odd: &Sample<T>, good: &str, what: &str, fix: &str, repair: Repair) -> Seen {
    if odd.total == 0 {
        return Seen::Good(good.to_owned());
    }
    let observed = format!("{} {what}: {}", odd.total, some_of(&odd.items, odd.total));
    Seen::Bad { observed, fix: fix.to_owned(), repair }
}

/// A problem that several checks met, for each of them.
fn again(problem: &Problem) -> Problem {
    Problem {
        kind: problem.kind,
        code: problem.code.clone(),
        message: problem.message.clone(),
        place: problem.place.clone(),
        found: problem.found.clone(),
        expected: problem.expected.clone(),
        fix: problem.fix.clone(),
        cause: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_of_the_table_is_made_or_says_why_it_is_not() {
        let made: Vec<&str> = LOOKS.iter().copied().flatten().map(|(id, _)| *id).collect();
        for row in ROWS {
            assert_eq!(made.contains(&row.id), row.runs == Runs::InServer, "{}", row.id);
        }
        assert!(made.iter().all(|id| api::doctor::row(id).is_some()), "{made:?}");
    }
}
