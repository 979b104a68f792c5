//! Closed forms of queueing theory, on the parts that the simulation is built from.
//!
//! Of the intervals that the simulation reports for itself (batch means, 95 %) on the seeds 1 to 20, at least 17 must
//! cover the closed form, and each must be at most 2 % of it wide to either side: narrow enough to say something, and
//! an honest interval misses four times or more in 1.6 % of such series.

use sim::engine::{Events, SECOND, Time, nanos};
use sim::rng::{Stream, sigma_of_cv};
use sim::station::{Cpu, Entry, Pool};
use statrs::distribution::{ContinuousCDF, StudentsT};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
const COVERED: usize = 17;
const WIDEST: f64 = 0.02;
const BATCHES: usize = 30;

/// Mean and half width of the 95 % interval from batch means.
fn interval(values: &[f64]) -> (f64, f64) {
    let size = values.len() / BATCHES;
    let means: Vec<f64> = values.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).unwrap().inverse_cdf(0.975);
    (mean, t * (variance / n).sqrt())
}

fn check(name: &str, expect: f64, measure: impl Fn(u64) -> Vec<f64>) {
    check_each(&[(name.to_owned(), expect)], |seed| vec![measure(seed)]);
}

/// Several figures of one simulation: a name and the closed form of each.
fn check_each(figures: &[(String, f64)], measure: impl Fn(u64) -> Vec<Vec<f64>>) {
    let seeds: Vec<Vec<(f64, f64)>> =
        SEEDS.map(|seed| measure(seed).iter().map(|values| interval(values)).collect()).collect();
    for (at, (name, expect)) in figures.iter().enumerate() {
        let intervals: Vec<(f64, f64)> = seeds.iter().map(|seed| seed[at]).collect();
        let covered = intervals.iter().filter(|(mean, half)| (mean - expect).abs() <= *half).count();
        let widest = intervals.iter().map(|(_, half)| 100.0 * half / expect).fold(0.0, f64::max);
        println!("{name}: {expect:.5}, covered by {covered} of {}, widest {widest:.2} %", intervals.len());
        assert!(widest <= 100.0 * WIDEST, "{name}: an interval of {widest:.2} % of {expect}");
        assert!(covered >= COVERED, "{name}: only {covered} intervals cover {expect}: {intervals:.5?}");
    }
}

#[derive(Clone, Copy)]
enum Event {
    Arrival(usize),
    Done { station: usize, job: u32 },
}

/// Stations of servers with a queue each, exponential arrivals from outside, and a way on after each station.
struct Network<'a> {
    pools: Vec<Pool<u32>>,
    arrivals: Vec<f64>,
    service: &'a dyn Fn(usize, u64) -> f64,
    /// Station after this one, by a draw in `[0, 1)`; `None` leaves.
    next: &'a dyn Fn(usize, f64) -> Option<usize>,
}

/// What was seen after the warm-up.
#[derive(Default)]
struct Seen {
    sojourns: Vec<f64>,
    waits: Vec<f64>,
    refused: Vec<f64>,
    /// Mean number of jobs in each station, and throughput.
    number: Vec<f64>,
    seconds: f64,
    station_sojourns: Vec<Vec<f64>>,
}

impl Network<'_> {
    fn run(mut self, seed: u64, jobs: usize) -> Seen {
        let warm = jobs / 10;
        let (arrive, serve, route) =
            (Stream::new(seed, "arrive"), Stream::new(seed, "serve"), Stream::new(seed, "route"));
        let mut events = Events::default();
        let mut seen = Seen { station_sojourns: vec![Vec::new(); self.pools.len()], ..Seen::default() };
        let mut draws = 0_u64;
        // Time of entry into the network, into the present station, and number of visits.
        let mut state: Vec<(Time, Time, u64)> = Vec::new();
        for station in 0..self.pools.len() {
            if self.arrivals[station] > 0.0 {
                events.plan(0, Event::Arrival(station));
            }
        }
        let mut base: Option<(Time, Vec<f64>)> = None;
        while let Some(event) = events.next_before(Time::MAX) {
            let now = events.now();
            let mut begin: Vec<(usize, u32)> = Vec::new();
            match event {
                Event::Arrival(station) => {
                    draws += 1;
                    let pause = arrive.at(draws).exponential() / self.arrivals[station];
                    if state.len() < jobs {
                        events.plan(now + nanos(pause * SECOND as f64), Event::Arrival(station));
                    } else {
                        break;
                    }
                    if state.len() == warm {
                        base = Some((now, self.areas(now)));
                    }
                    let job = state.len() as u32;
                    state.push((now, now, 0));
                    begin.push((station, job));
                }
                Event::Done { station, job } => {
                    if let Some(waiting) = self.pools[station].leave(now) {
                        self.serve(&mut events, serve, &state, station, waiting, &mut seen, warm);
                    }
                    let (entered, came, visits) = state[job as usize];
                    if job as usize >= warm {
                        seen.station_sojourns[station].push((now - came) as f64 / SECOND as f64);
                    }
                    let draw = route.at(u64::from(job) << 8 | visits).unit();
                    state[job as usize] = (entered, now, visits + 1);
                    match (self.next)(station, draw) {
                        Some(next) => begin.push((next, job)),
                        None if job as usize >= warm => seen.sojourns.push((now - entered) as f64 / SECOND as f64),
                        None => {}
                    }
                }
            }
            for (station, job) in begin {
                let entry = self.pools[station].enter(now, job);
                if job as usize >= warm {
                    seen.refused.push(f64::from(u8::from(entry == Entry::Refused)));
                }
                if entry == Entry::Served {
                    self.serve(&mut events, serve, &state, station, job, &mut seen, warm);
                }
            }
        }
        let (since, before) = base.unwrap();
        let end = events.now();
        seen.seconds = (end - since) as f64 / SECOND as f64;
        let after = self.areas(end);
        seen.number =
            after.iter().zip(&before).map(|(after, before)| (after - before) / (end - since) as f64).collect();
        seen
    }

    fn areas(&mut self, now: Time) -> Vec<f64> {
        self.pools.iter_mut().map(|pool| pool.areas(now)).map(|(busy, waiting)| busy + waiting).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "a test's inner step")]
    fn serve(
        &self,
        events: &mut Events<Event>,
        stream: Stream,
        state: &[(Time, Time, u64)],
        station: usize,
        job: u32,
        seen: &mut Seen,
        warm: usize,
    ) {
        let (_, came, visits) = state[job as usize];
        if job as usize >= warm {
            seen.waits.push((events.now() - came) as f64 / SECOND as f64);
        }
        let key = stream.id(u64::from(job) << 8 | visits);
        let time = nanos((self.service)(station, key) * SECOND as f64);
        events.plan(events.now() + time, Event::Done { station, job });
    }
}

const JOBS: usize = 300_000;
/// For figures that vary more.
const MANY: usize = 700_000;
const MOST: usize = 1_600_000;

fn exponential(mean: f64) -> impl Fn(usize, u64) -> f64 {
    move |_, key| mean * Stream::new(key, "s").at(0).exponential()
}

fn single<'a>(servers: u32, room: u32, rate: f64, service: &'a dyn Fn(usize, u64) -> f64) -> Network<'a> {
    Network { pools: vec![Pool::new(servers, room)], arrivals: vec![rate], service, next: &|_, _| None }
}

#[test]
fn one_exponential_server() {
    // T = 1 / (mu - lambda).
    let service = exponential(0.1);
    check("M/M/1", 1.0 / (10.0 - 5.0), |seed| single(1, u32::MAX, 5.0, &service).run(seed, JOBS).sojourns);
}

#[test]
fn several_exponential_servers() {
    // Erlang C: W = C(c, a) / (c mu - lambda).
    let (servers, load) = (3_u32, 1.8_f64);
    let term = |k: u32| load.powi(k as i32) / (1..=k).map(f64::from).product::<f64>().max(1.0);
    let last = term(servers) * f64::from(servers) / (f64::from(servers) - load);
    let wait_chance = last / ((0..servers).map(term).sum::<f64>() + last);
    let expect = wait_chance / (f64::from(servers) - load);
    let service = exponential(1.0);
    check("M/M/c", expect, |seed| single(servers, u32::MAX, load, &service).run(seed, MOST).waits);
}

#[test]
fn constant_and_general_service() {
    // Pollaczek-Khinchine: W = rho S (1 + cv^2) / (2 (1 - rho)).
    let expect = |rho: f64, mean: f64, cv: f64| rho * mean * (1.0 + cv * cv) / (2.0 * (1.0 - rho));
    let constant = |_: usize, _: u64| 0.1;
    check("M/D/1", expect(0.5, 0.1, 0.0), |seed| single(1, u32::MAX, 5.0, &constant).run(seed, JOBS).waits);
    let cv = 0.8_f64;
    let sigma = sigma_of_cv(cv);
    let median = 0.1 / (sigma * sigma / 2.0).exp();
    let general = move |_: usize, key: u64| Stream::new(key, "s").at(0).log_normal(median, sigma);
    check("M/G/1", expect(0.5, 0.1, cv), |seed| single(1, u32::MAX, 5.0, &general).run(seed, MANY).waits);
}

#[test]
fn full_servers_refuse() {
    // Erlang B, and that it does not depend on the form of the service time.
    let (servers, load) = (5_u32, 4.0);
    let expect = (1..=servers).fold(1.0, |b, n| load * b / (f64::from(n) + load * b));
    let service = exponential(1.0);
    check("Erlang B", expect, |seed| single(servers, 0, load, &service).run(seed, JOBS).refused);
    let constant = |_: usize, _: u64| 1.0;
    check("Erlang B, constant", expect, |seed| single(servers, 0, load, &constant).run(seed, JOBS).refused);
}

#[test]
fn a_network_of_three_stations() {
    // Jackson: from 0 half goes to 1, the rest to 2; from 1 a fifth goes back to 0.
    let next = |station: usize, draw: f64| match station {
        0 if draw < 0.5 => Some(1),
        0 => Some(2),
        1 if draw < 0.2 => Some(0),
        _ => None,
    };
    let means = [0.1, 0.15, 0.2];
    let service = move |station: usize, key: u64| means[station] * Stream::new(key, "s").at(0).exponential();
    let outside = 5.0;
    let rate_0 = outside / (1.0 - 0.5 * 0.2);
    let rates = [rate_0, 0.5 * rate_0, 0.5 * rate_0];
    let number = |station: usize| rates[station] * means[station] / (1.0 - rates[station] * means[station]);
    let network = |seed| {
        let pools = (0..3).map(|_| Pool::new(1, u32::MAX)).collect();
        Network { pools, arrivals: vec![outside, 0.0, 0.0], service: &service, next: &next }.run(seed, MANY)
    };
    let mut figures = vec![("Jackson, whole".to_owned(), (0..3).map(number).sum::<f64>() / outside)];
    figures.extend((0..3).map(|station| (format!("Jackson, station {station}"), number(station) / rates[station])));
    check_each(&figures, |seed| {
        let seen = network(seed);
        std::iter::once(seen.sojourns).chain(seen.station_sojourns).collect()
    });
    // Little's law at every station holds for the measured figures themselves.
    let seen = network(9);
    for station in 0..3 {
        let visits = &seen.station_sojourns[station];
        let throughput = visits.len() as f64 / seen.seconds;
        let little = throughput * visits.iter().sum::<f64>() / visits.len() as f64;
        assert!(
            (little / seen.number[station] - 1.0).abs() < 0.01,
            "station {station}: {little} {}",
            seen.number[station]
        );
    }
}

/// Sojourn times at a shared processor with log-normal work.
fn shared(seed: u64, cores: f64, rate: f64, mean: f64, cv: f64) -> Vec<f64> {
    let (arrive, serve) = (Stream::new(seed, "arrive"), Stream::new(seed, "serve"));
    let sigma = sigma_of_cv(cv);
    let median = mean / (sigma * sigma / 2.0).exp();
    let mut cpu: Cpu<usize> = Cpu::new(cores, None);
    let (mut came, mut sojourns): (Vec<Time>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut next_arrival = 0;
    while came.len() < MANY {
        let change = cpu.next_change().unwrap_or(Time::MAX);
        if change <= next_arrival {
            while let Some(job) = cpu.finished(change) {
                sojourns.push((change - came[job]) as f64 / SECOND as f64);
            }
            continue;
        }
        let job = came.len();
        came.push(next_arrival);
        let work = serve.at(job as u64).log_normal(median, sigma);
        cpu.add(next_arrival, job, work * SECOND as f64);
        next_arrival += nanos(arrive.at(job as u64).exponential() / rate * SECOND as f64);
    }
    sojourns.split_off(MANY / 10)
}

#[test]
fn a_shared_processor() {
    // M/G/1 with processor sharing: T = S / (1 - rho), whatever the form of the work.
    for cv in [0.6, 1.5] {
        check("M/G/1-PS", 0.1 / (1.0 - 0.5), |seed| shared(seed, 1.0, 5.0, 0.1, cv));
    }
}
