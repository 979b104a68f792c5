//! Evaluations: datapack by datapack, as many at once as there are processors, under one lease each.
//!
//! A datapack is read once for all built-in algorithms. What a process was at when it died is found open by the next one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::spec::RunSpec;
use datapack::Pack;
use model::{EvaluationId, InjectionId, Problem, Result};
use store::{Acquired, ExecutionResult, Findings, Item, ItemEnd, Lease, TaskError, evaluation_resource};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::child::{Child, Limits, RankTask};
use crate::external::{self, BUILTIN, Job};
use crate::rank::{self, Ran};
use crate::{CLAIM_TTL, Parts, killpoint};

/// How long to wait for work when there is none; a change in this process's own store is seen at once.
const IDLE: Duration = Duration::from_secs(1);
/// How long a datapack is left alone on which something of ours or of the machine's went wrong.
const PAUSE: Duration = Duration::from_secs(15);

/// One datapack of one evaluation.
type Place = (EvaluationId, InjectionId);

/// Works until `stop` becomes true. What is under way then is cut off and found again.
pub async fn run(parts: Arc<Parts>, mut stop: watch::Receiver<bool>) {
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    let mut changes = parts.store.changes();
    let mut running: JoinSet<(Place, bool)> = JoinSet::new();
    let mut mine = BTreeSet::new();
    let mut later: HashMap<Place, Instant> = HashMap::new();
    while !*stop.borrow() {
        later.retain(|_, since| since.elapsed() < PAUSE);
        while running.len() < width {
            let busy = |place: &Place| mine.contains(place) || later.contains_key(place);
            let Some((place, lease)) = next(&parts, busy, width + later.len()).await else { break };
            mine.insert(place);
            let parts = Arc::clone(&parts);
            running.spawn(async move { (place, attend(&parts, place, lease).await) });
        }
        tokio::select! {
            Some(ended) = running.join_next() => match ended {
                Ok((place, done)) => {
                    mine.remove(&place);
                    if !done {
                        later.insert(place, Instant::now());
                    }
                }
                Err(error) => {
                    // Which one it was is not told; all that run are looked at again.
                    tracing::error!("an evaluation's datapack ended abnormally: {error}");
                    running.abort_all();
                    while running.join_next().await.is_some() {}
                    later.extend(std::mem::take(&mut mine).into_iter().map(|place| (place, Instant::now())));
                }
            },
            _ = changes.changed(), if running.len() < width => {}
            () = tokio::time::sleep(IDLE) => {}
            _ = stop.changed() => {}
        }
    }
    // Children end with the futures that wait for them.
    running.shutdown().await;
}

/// The next datapack that nobody is at, leased. A store that does not answer is asked again later.
async fn next(parts: &Parts, busy: impl Fn(&Place) -> bool, under_way: usize) -> Option<(Place, Lease)> {
    let most = u64::try_from(under_way).unwrap_or(u64::MAX).saturating_add(64);
    let open = match parts.store.open_evaluation_packs(most).await {
        Ok(open) => open,
        Err(problem) => {
            tracing::warn!("cannot look for evaluations now: {}", problem.chain());
            return None;
        }
    };
    for place in open.into_iter().filter(|place| !busy(place)) {
        let resource = evaluation_resource(place.0, place.1);
        match parts.store.acquire(&resource, parts.incarnation, CLAIM_TTL, "evaluation").await {
            Ok(Acquired::Yes(lease)) => return Some((place, lease)),
            Ok(Acquired::No(_)) => {}
            Err(problem) => tracing::warn!("cannot lease a datapack now: {}", problem.chain()),
        }
    }
    None
}

/// Does what is left to do on one datapack and gives it back. False: it is to be tried again.
async fn attend(parts: &Parts, place: Place, lease: Lease) -> bool {
    let done = match work(parts, place, &lease).await {
        Ok(()) => true,
        Err(problem) if problem.code == "evaluation.cancelled" => true,
        Err(problem) => {
            let (evaluation, pack) = place;
            tracing::warn!(%evaluation, %pack, "a datapack is evaluated later: {}", problem.chain());
            false
        }
    };
    if let Err(problem) = parts.store.release(&lease).await {
        tracing::warn!("cannot give a datapack back: {}", problem.chain());
    }
    done
}

async fn work(parts: &Parts, (evaluation, injection): Place, lease: &Lease) -> Result<()> {
    parts.store.evaluation_wanted(evaluation).await?;
    let items = parts.store.open_items(evaluation, injection).await?;
    let Some(pack) = opened(parts, evaluation, injection, lease).await? else { return Ok(()) };
    let run = parts.store.run(parts.store.injection(injection).await?.run).await?;
    let spec = RunSpec::from_json(&run.spec)?;
    let (built_in, commands): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|item| item.version == BUILTIN);
    let bench = Bench { parts, evaluation, lease, pack: &pack, spec: &spec };
    let candidates = bench.built_in(&built_in).await?;
    for item in &commands {
        parts.store.evaluation_wanted(evaluation).await?;
        bench.command(item, &candidates).await?;
    }
    Ok(())
}

/// The pack as it was built. One that was changed or is gone since is taken out of the evaluation, and the funnel says so.
async fn opened(
    parts: &Parts,
    evaluation: EvaluationId,
    injection: InjectionId,
    lease: &Lease,
) -> Result<Option<Pack>> {
    let stored = parts.store.injection(injection).await?;
    let folder = stored.pack_path.as_ref().map(|path| parts.packs.join(path));
    let Some(folder) = folder else {
        parts.store.exclude_pack(lease, evaluation, injection, "no datapack").await?;
        return Ok(None);
    };
    let digest = stored.pack_digest;
    let read = tokio::task::spawn_blocking(move || {
        let pack = Pack::open(&folder)?.recorded(digest);
        pack.verify()?;
        Ok::<_, Problem>(pack)
    });
    match read.await.map_err(|error| Problem::internal("datapack.read_panicked", error.to_string()))? {
        Ok(pack) => Ok(Some(pack)),
        Err(problem) if problem.kind.retryable() => Err(problem),
        Err(problem) => {
            tracing::warn!(%evaluation, pack = stored.name, "a damaged datapack is not evaluated: {}", problem.chain());
            parts.store.exclude_pack(lease, evaluation, injection, "damaged").await?;
            Ok(None)
        }
    }
}

/// One datapack with what is needed to run algorithms on it.
struct Bench<'a> {
    parts: &'a Parts,
    evaluation: EvaluationId,
    lease: &'a Lease,
    pack: &'a Pack,
    spec: &'a RunSpec,
}

impl Bench<'_> {
    /// Runs the built-in algorithms in one child; whom an algorithm may name.
    async fn built_in(&self, items: &[Item]) -> Result<Vec<String>> {
        let seed = self.spec.environment.seed;
        let task = |item: &Item| RankTask { algorithm: item.algorithm.clone(), seed, onset: item.onset };
        let tasks: Vec<RankTask> = items.iter().map(task).collect();
        let folder = self.parts.scratch.join(self.lease.resource.replace(':', "-"));
        let limits = self.limits();
        let child = Child { program: &self.parts.program, folder: &folder, threads: Some(1), limits };
        let load_generators = crate::profile::load_generators(self.spec)?;
        let ranked = rank::run(&child, &self.pack.open_part(), &load_generators, &tasks).await?;
        let candidates = ranked.candidates;
        let ends: Vec<ItemEnd> =
            items.iter().zip(ranked.ran).map(|(item, ran)| self.end(item, &candidates, ran, None)).collect();
        killpoint::reach("evaluation.before-record");
        self.parts.store.end_items(self.lease, self.evaluation, &ends, ranked.reading_s).await?;
        killpoint::reach("evaluation.after-record");
        Ok(candidates)
    }

    async fn command(&self, item: &Item, candidates: &[String]) -> Result<()> {
        let store = &self.parts.store;
        let seed = self.spec.environment.seed;
        let execution = store.start_item(self.lease, self.evaluation, item, seed).await?;
        let command = external::command(store, &item.algorithm, &item.version).await?;
        let Some(command) = command else {
            return Err(Problem::internal("algorithm.not_a_command", "a built-in algorithm came as a command"));
        };
        let job = Job {
            command: &command,
            pack: self.pack,
            execution,
            datapack: item.injection,
            system: self.spec.system.as_str(),
            algorithm: &item.algorithm,
            candidates,
        };
        let (ran, isolation) = external::run(self.parts, &job).await?;
        let end = self.end(item, candidates, ran, Some(isolation.to_owned()));
        store.end_items(self.lease, self.evaluation, &[end], 0.0).await
    }

    /// The limits that the run was submitted with hold for its datapack.
    fn limits(&self) -> Limits {
        let detector = &self.spec.detector;
        Limits { seconds: detector.limit_seconds, memory_mib: detector.limit_memory_mib }
    }

    fn end(&self, item: &Item, candidates: &[String], ran: Ran, isolation: Option<String>) -> ItemEnd {
        let outcome = match ran.answers {
            Ok(answers) => Ok(Findings { answers, detector: Vec::new() }),
            Err(problem) => Err(TaskError::from(&problem)),
        };
        ItemEnd {
            item: item.clone(),
            seed: self.spec.environment.seed,
            result: ExecutionResult {
                duration_s: ran.seconds,
                peak_memory: ran.peak_memory,
                isolation,
                candidates: candidates.to_vec(),
                outcome,
            },
        }
    }
}
