//! The proof that a seed is live: each value read back from every place that it passes, down to the releases.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ::seed::{Change, ChangeKind, Field, Object, ObjectId, ObjectKind, field};
use ::settings::Live;
use ::settings::source::path;
use ::store::{Acquired, Process, SeedLive};
use api::seed::{Hop, HopState, Proof, ProofLine, RestartReply, SeedQuery};
use cluster::{Fence, ReleaseObservation};
use model::{Problem, Result, RunId, Slot, SystemCode, WallTime};

use super::super::App;
use super::super::chart::short;
use super::super::release::newest;
use super::Present;

/// How long a process that stopped in the middle keeps a slot that it was clearing.
const SLOT_TTL: Duration = Duration::from_secs(60);

/// How long a process that follows settings is never silent, in microseconds.
const SILENT_US: i64 = 60_000_000;

/// A release beside what a run would install in its place.
struct Release {
    namespace: String,
    slot: Slot,
    is_old: bool,
    found: String,
}

/// What lies behind the store, for the pedestal of one system.
struct Behind {
    /// The version that runs use.
    version: String,
    hops: Vec<Hop>,
}

/// What lies behind the store, for settings.
struct Readers {
    /// What the store accepted last.
    live: BTreeMap<String, Live>,
    /// Texts by path, where values are published beside the store.
    published: Option<BTreeMap<String, String>>,
    processes: Vec<Process>,
}

impl Readers {
    fn hops(&self, key: &str, secret: bool) -> Vec<Hop> {
        let Some(live) = self.live.get(key) else { return Vec::new() };
        let mut hops = Vec::new();
        if let Some(published) = &self.published {
            let found = published.get(&path(live.scope, key));
            let state = match found {
                None => HopState::Missing,
                Some(value) if *value == live.value => HopState::Same,
                Some(_) => HopState::Differs,
            };
            let shown = |value: &String| if secret { "a secret".to_owned() } else { value.clone() };
            let found = found.map_or_else(|| "nothing".to_owned(), shown);
            hops.push(Hop { hop: "setting".to_owned(), state, found });
        }
        for process in &self.processes {
            let state = if process.revision >= live.revision { HopState::Same } else { HopState::Differs };
            hops.push(Hop {
                hop: format!("process {} {}@{}", process.role, process.pid, process.host),
                state,
                found: format!("applies revision {}, the value is of {}", process.revision, live.revision),
            });
        }
        hops
    }
}

impl App {
    /// Without a filter: what the newest revision wrote, and whatever is old.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn seed_proof(&self, query: &SeedQuery) -> Result<Proof> {
        self.require_known_system(query.system.as_deref()).await?;
        let stored = self.store().seed_live().await?;
        let present = Present::read(&stored, query.system.as_deref())?;
        let revision = self.store().newest_seed_revision().await?;
        let written = self.written(revision).await?;
        let behind = self.behind(query.system.as_deref()).await?;
        let readers = self.readers(&stored).await?;
        let all = query.system.is_some() || query.key.is_some();
        let mut lines = Vec::new();
        for (id, object) in &present.base.objects {
            let live = present.live.objects.get(id);
            for (name, field) in &object.fields {
                let label = format!("{} {name}", id.name);
                if query.key.as_deref().is_some_and(|key| !label.contains(key)) {
                    continue;
                }
                let line = line(id, object, name, field, live, &behind, &readers);
                // An old release makes every value of its version old: one of them says so.
                let old = line.first_difference.is_some();
                let told =
                    old && (id.kind != ObjectKind::Version || !line.hops[0].state.is_good() || name == field::CHART);
                let asked = all || written.contains(&(id.clone(), name.clone())) || told;
                lines.extend(asked.then_some(line));
            }
        }
        Ok(Proof { revision, complete: lines.iter().all(|line| line.first_difference.is_none()), lines })
    }

    /// Who reads settings, and what is published for them.
    async fn readers(&self, stored: &SeedLive) -> Result<Readers> {
        let live = stored.settings.iter().filter_map(|setting| setting.live.clone());
        let live: BTreeMap<String, Live> = live.map(|live| (live.key.clone(), live)).collect();
        let published = match self.store().source() {
            Some(source) => {
                let entries = source.snapshot().await?.entries;
                Some(entries.into_iter().map(|(path, entry)| (path, entry.value)).collect())
            }
            None => None,
        };
        // Each says every few seconds that it is there: one that is silent has ended and reads nothing.
        let since = WallTime::now().0 - SILENT_US;
        let mut processes = self.store().setting_processes().await?;
        processes.retain(|process| process.reported_at.0 > since);
        Ok(Readers { live, published, processes })
    }

    /// What the newest revision wrote.
    async fn written(&self, revision: Option<i32>) -> Result<HashSet<(ObjectId, String)>> {
        let Some(revision) = revision else { return Ok(HashSet::new()) };
        let changes: Vec<Change> = serde_json::from_value(self.store().seed_revision(revision).await?.changes)
            .map_err(|error| Problem::internal("seed.revision_malformed", "a revision cannot be read").cause(error))?;
        let of = |change: Change| {
            let id = ObjectId { kind: change.object, name: change.name };
            (change.kind != ChangeKind::Removed).then_some((id, change.field?))
        };
        Ok(changes.into_iter().filter_map(of).collect())
    }

    /// The chart and the releases of each system that has a pedestal.
    async fn behind(&self, limit: Option<&str>) -> Result<BTreeMap<String, Behind>> {
        let mut behind = BTreeMap::new();
        let releases = self.cluster().releases().await?;
        for system in self.store().systems().await? {
            let code = system.code.as_str();
            if limit.is_some_and(|limit| limit != code) {
                continue;
            }
            let layers = self.store().layers(code).await?;
            let Some(version) = newest(&layers.database) else { continue };
            let mut hops: Vec<Hop> = version.chart.as_ref().map(|chart| self.chart_hop(chart)).into_iter().collect();
            for release in self.releases_of(&system, &releases).await? {
                let state = if release.is_old { HopState::Differs } else { HopState::Same };
                hops.push(Hop { hop: format!("release {}", release.namespace), state, found: release.found });
            }
            behind.insert(code.to_owned(), Behind { version: version.name.clone(), hops });
        }
        Ok(behind)
    }

    fn chart_hop(&self, chart: &::store::Chart) -> Hop {
        let name = format!("{} {}", chart.name, chart.version);
        let (state, found) = match (&chart.archive_digest, self.cluster().info().needs_chart) {
            (Some(digest), _) => match self.charts().state(digest) {
                ::chart::Kept::Whole(_) => (HopState::Same, format!("{name}, archive {}", short(digest))),
                state => (HopState::Missing, format!("{name}: {}", self.charts().problem(digest, &state).message)),
            },
            (None, false) => (HopState::NotFetched, name),
            (None, true) => (HopState::Missing, format!("{name} is in no archive")),
        };
        Hop { hop: "chart".to_owned(), state, found }
    }

    /// The releases in the slots of a system, each beside what a run would install there now.
    async fn releases_of(&self, system: &::store::System, all: &[ReleaseObservation]) -> Result<Vec<Release>> {
        let slot = |release: &ReleaseObservation| number_of(&system.code, &release.release);
        let own: Vec<(u32, &ReleaseObservation)> = all.iter().filter_map(|one| Some((slot(one)?, one))).collect();
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<u32> = own.iter().map(|(number, _)| *number).collect();
        let wanted = self.release(system, &numbers).await?;
        let mut releases = Vec::with_capacity(own.len());
        for ((number, there), values) in own.into_iter().zip(&wanted.per_slot) {
            // A release from before the archive was known is as good as its version.
            let archives = there.chart_digest.as_ref().zip(wanted.chart_digest.as_ref());
            let same_archive = archives.is_none_or(|(there, wanted)| there == wanted);
            let same_chart = there.chart == wanted.chart && there.chart_version == wanted.chart_version && same_archive;
            releases.push(Release {
                namespace: there.release.clone(),
                slot: Slot::new(system.code.clone(), number),
                is_old: !(same_chart && there.values_digest == values.digest),
                found: format!("{} {}, values {}", there.chart, there.chart_version, short(&there.values_digest)),
            });
        }
        Ok(releases)
    }

    /// Removes releases that hold old values, each under the lease of its slot; one that a run holds is left.
    ///
    /// # Errors
    /// `system.unknown`, and whatever the cluster fails with.
    pub async fn seed_restart_slots(&self, query: &SeedQuery) -> Result<RestartReply> {
        self.require_known_system(query.system.as_deref()).await?;
        let mut reply = RestartReply { removed: Vec::new(), held: Vec::new() };
        for system in self.store().systems().await? {
            if query.system.as_deref().is_some_and(|limit| limit != system.code.as_str()) {
                continue;
            }
            let all = self.cluster().releases().await?;
            for old in self.releases_of(&system, &all).await?.into_iter().filter(|release| release.is_old) {
                self.clear(old, &mut reply).await?;
            }
        }
        Ok(reply)
    }

    async fn clear(&self, old: Release, reply: &mut RestartReply) -> Result<()> {
        let resource = format!("slot:{}", old.namespace);
        let lease = match self.store().acquire(&resource, self.incarnation(), SLOT_TTL, "an old release goes").await? {
            Acquired::Yes(lease) => lease,
            Acquired::No(held) => {
                reply.held.push(format!("{}: held by {}", old.namespace, held.note));
                return Ok(());
            }
        };
        // A run that has no name: what the cluster compares is the token.
        let fence = Fence { run: RunId::random(), token: lease.fence };
        let removed = self.cluster().remove_namespace(&fence, &old.slot).await;
        self.store().release(&lease).await?;
        removed?;
        reply.removed.push(old.namespace);
        Ok(())
    }
}

/// The number of a system's slot, from the name of its namespace.
pub fn number_of(code: &SystemCode, namespace: &str) -> Option<u32> {
    let digits = namespace.strip_prefix(code.as_str())?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn line(
    id: &ObjectId,
    object: &Object,
    name: &str,
    field: &Field,
    live: Option<&Object>,
    behind: &BTreeMap<String, Behind>,
    readers: &Readers,
) -> ProofLine {
    let found = live.and_then(|live| live.fields.get(name));
    let secret = field.secret || found.is_some_and(|found| found.secret);
    let shown = |field: &Field| if secret { "a secret".to_owned() } else { ::seed::words(field) };
    let mut hops = vec![store_hop(field, found, shown)];
    if id.kind == ObjectKind::Setting && name == field::DEFAULT {
        hops.extend(readers.hops(&id.name, secret));
    }
    if let (ObjectKind::Version, Some(behind)) = (id.kind, object.system.as_ref().and_then(|code| behind.get(code))) {
        // Runs install the newest version only; where it comes to bear is what its chart and its releases say.
        let used = id.name == format!("pedestal {} {}", object.system.as_deref().unwrap_or_default(), behind.version);
        if used && name != field::GITHUB_LINK {
            hops.extend(behind.hops.iter().cloned());
        }
    }
    let first = hops.iter().find(|hop| !hop.state.is_good());
    ProofLine {
        system: object.system.clone(),
        object: id.kind,
        name: id.name.clone(),
        field: name.to_owned(),
        value: shown(field),
        place: field.at.as_ref().or(object.at.as_ref()).map(ToString::to_string),
        first_difference: first.map(|hop| why(hop, found)),
        hops,
    }
}

fn store_hop(field: &Field, found: Option<&Field>, shown: impl Fn(&Field) -> String) -> Hop {
    let (state, text) = match found {
        None => (HopState::Missing, "nothing".to_owned()),
        Some(found) if found.value == field.value => (HopState::Same, shown(found)),
        Some(found) => (HopState::Differs, shown(found)),
    };
    Hop { hop: "store".to_owned(), state, found: text }
}

fn why(hop: &Hop, found: Option<&Field>) -> String {
    let reason = match hop.hop.as_str() {
        "store" if found.is_some_and(|found| found.operators) => "an operator set it at run time",
        "store" if hop.state == HopState::Missing => "the installation lost it; apply the seed again",
        "store" => "it was changed by another way than a seed",
        "setting" => "another tool changed it where settings are published",
        process if process.starts_with("process ") => "the process has not followed yet",
        "chart" => "the chart's archive is not at hand; `aegisctl pedestal helm verify` fetches it",
        _ => "the release was installed before; it is replaced when its slot is leased next, or by `--restart-slots`",
    };
    format!("{}: {}: {reason}", hop.hop, hop.found)
}
