//! A container's processor: shared equally by its runnable threads, bounded by cores and by a quota per period.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::engine::{MILLI, Time};

/// The kernel enforces a quota per period of this length (`cpu.cfs_period_us`).
const PERIOD: Time = 100 * MILLI;
/// Rounding slack when virtual time is compared with a finish mark.
const SLACK: f64 = 0.5;

struct Running<J> {
    finish: f64,
    number: u64,
    job: J,
}

impl<J> PartialEq for Running<J> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<J> Eq for Running<J> {}
impl<J> PartialOrd for Running<J> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<J> Ord for Running<J> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.finish.total_cmp(&self.finish).then(other.number.cmp(&self.number))
    }
}

/// Processor sharing in virtual time: every runnable job progresses at the same rate, so the next to finish is the one
/// with the least finish mark. Other threads of the container (`background`) share the processor and burn the quota.
pub struct Cpu<J> {
    /// Threads that can run at once, and cores that are there for them now.
    parallel: f64,
    cores: f64,
    /// CPU-nanoseconds per period.
    quota: Option<f64>,
    jobs: BinaryHeap<Running<J>>,
    number: u64,
    /// CPU-nanoseconds that each job present since the beginning would have got.
    virtual_time: f64,
    since: Time,
    background: f64,
    /// The part of the background that is no thread of the service's process.
    beside: f64,
    spent_beside: f64,
    period_start: Time,
    spent_in_period: f64,
    throttled: bool,
    stopped_until: Time,
    spent: f64,
    periods: u64,
    throttled_periods: u64,
    throttled_time: Time,
    /// Whether a job was there, and whether one was held up, in the present period.
    had_job: bool,
    held_job: bool,
    work_periods: u64,
    held_periods: u64,
}

impl<J> Cpu<J> {
    /// `cores` bounds parallelism; `quota_cores` bounds the time spent per period.
    pub fn new(cores: f64, quota_cores: Option<f64>) -> Self {
        Self {
            parallel: cores,
            cores,
            quota: quota_cores.map(|share| share * PERIOD as f64),
            jobs: BinaryHeap::new(),
            number: 0,
            virtual_time: 0.0,
            since: 0,
            background: 0.0,
            beside: 0.0,
            spent_beside: 0.0,
            period_start: 0,
            spent_in_period: 0.0,
            throttled: false,
            stopped_until: 0,
            spent: 0.0,
            periods: 0,
            throttled_periods: 0,
            throttled_time: 0,
            had_job: false,
            held_job: false,
            work_periods: 0,
            held_periods: 0,
        }
    }

    /// A job comes with `work` CPU-nanoseconds of its own.
    pub fn add(&mut self, now: Time, job: J, work: f64) {
        self.advance(now);
        self.jobs.push(Running { finish: self.virtual_time + work, number: self.number, job });
        self.number += 1;
    }

    /// Moves to `now` and takes out one finished job, if there is one.
    pub fn finished(&mut self, now: Time) -> Option<J> {
        self.advance(now);
        if self.jobs.peek()?.finish <= self.virtual_time + SLACK {
            return self.jobs.pop().map(|running| running.job);
        }
        None
    }

    /// When to look again: the next finish, or the next change of rate before it. `None` while there is no job.
    pub fn next_change(&self) -> Option<Time> {
        let left = self.jobs.peek()?.finish - self.virtual_time;
        let now = self.since;
        if self.stopped_until > now {
            return Some(self.stopped_until);
        }
        let period_end = self.period_start + PERIOD;
        if self.throttled {
            return Some(period_end);
        }
        let finish = now + (left / self.rate()).ceil().max(0.0) as Time;
        let Some(quota) = self.quota else { return Some(finish) };
        let use_rate = self.use_rate();
        let exhausted = now + ((quota - self.spent_in_period) / use_rate).max(0.0) as Time;
        if finish <= exhausted && finish <= period_end {
            Some(finish)
        } else if exhausted < period_end {
            Some(exhausted.max(now + 1))
        } else if use_rate * PERIOD as f64 <= quota {
            Some(finish)
        } else {
            Some(period_end)
        }
    }

    /// Work that was done on the side, in CPU-nanoseconds, and delayed nothing.
    pub fn charge(&mut self, work: f64) {
        self.spent += work;
    }

    /// Demand of the container's other threads, in cores.
    pub fn set_background(&mut self, now: Time, cores: f64) {
        self.advance(now);
        self.background = cores.max(0.0);
    }

    /// How much of the background, as it was set last, is no thread of the service's process.
    pub fn set_beside(&mut self, cores: f64) {
        self.beside = cores.clamp(0.0, self.background);
    }

    /// CPU-nanoseconds that threads outside the service's process have spent, as of the last change or look.
    pub const fn spent_beside(&self) -> f64 {
        self.spent_beside
    }

    /// Cores that the container may use now; whether that is a change.
    pub fn grant(&mut self, now: Time, cores: f64) -> bool {
        if self.cores == cores {
            return false;
        }
        self.advance(now);
        self.cores = cores;
        true
    }

    /// Cores that the container would use now if they were there.
    pub fn wanted(&self) -> f64 {
        let quota = self.quota.map_or(f64::INFINITY, |quota| quota / PERIOD as f64);
        if self.jobs.is_empty() {
            self.background.min(quota)
        } else if self.throttled || self.stopped_until > self.since {
            0.0
        } else {
            self.threads().min(self.parallel)
        }
    }

    pub const fn background(&self) -> f64 {
        self.background
    }

    /// All threads stand still until `until` (a stop-the-world collection).
    pub fn stop(&mut self, now: Time, until: Time) {
        self.advance(now);
        self.stopped_until = self.stopped_until.max(until);
    }

    /// The process is gone with everything that it ran.
    pub fn clear(&mut self, now: Time) {
        self.advance(now);
        self.jobs.clear();
        (self.background, self.beside) = (0.0, 0.0);
        self.stopped_until = 0;
    }

    pub fn runnable(&self) -> usize {
        self.jobs.len()
    }

    /// CPU-nanoseconds spent so far.
    pub fn spent(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.spent
    }

    /// Periods with activity, periods that were cut short, and the time stood still, so far.
    pub const fn throttling(&self) -> (u64, u64, Time) {
        (self.periods, self.throttled_periods, self.throttled_time)
    }

    /// Periods in which there was a job, and those of them in which the quota held one up, so far.
    pub const fn work_periods(&self) -> (u64, u64) {
        (self.work_periods, self.held_periods)
    }

    fn threads(&self) -> f64 {
        self.jobs.len() as f64 + self.background
    }

    /// Progress of one job per nanosecond. A job is one thread, so it never exceeds one core.
    fn rate(&self) -> f64 {
        (self.cores / self.threads()).min(1.0)
    }

    /// CPU-nanoseconds that the container burns per nanosecond.
    fn use_rate(&self) -> f64 {
        self.threads().min(self.cores)
    }

    /// Brings progress and accounting to `now`.
    fn advance(&mut self, now: Time) {
        while self.since < now {
            if self.threads() == 0.0 {
                self.skip_idle(now);
                return;
            }
            let stretch = now.min(self.period_start + PERIOD);
            self.had_job |= !self.jobs.is_empty();
            self.held_job |= self.throttled && !self.jobs.is_empty();
            if self.stopped_until > self.since {
                self.since = stretch.min(self.stopped_until);
            } else if self.throttled {
                self.throttled_time += stretch - self.since;
                self.since = stretch;
            } else {
                self.run(stretch);
            }
            if self.since >= self.period_start + PERIOD {
                self.begin_period();
            }
        }
    }

    /// Runs at the present rate to `to`, or until the quota of the period is used up.
    fn run(&mut self, to: Time) {
        let use_rate = self.use_rate();
        let mut to = to;
        if let Some(quota) = self.quota {
            let left = (quota - self.spent_in_period).max(0.0);
            if use_rate * (to - self.since) as f64 > left {
                to = self.since + (left / use_rate) as Time;
                self.throttled = true;
                self.throttled_periods += 1;
            }
        }
        let passed = (to - self.since) as f64;
        if self.spent_in_period == 0.0 && passed > 0.0 {
            self.periods += 1;
        }
        self.virtual_time += passed * self.rate();
        self.spent_in_period += passed * use_rate;
        self.spent += passed * use_rate;
        self.spent_beside += passed * use_rate * self.beside / self.threads();
        self.since = to;
    }

    fn begin_period(&mut self) {
        self.period_start += (self.since - self.period_start) / PERIOD * PERIOD;
        self.spent_in_period = 0.0;
        self.throttled = false;
        self.work_periods += u64::from(self.had_job);
        self.held_periods += u64::from(self.held_job);
        (self.had_job, self.held_job) = (false, false);
    }

    fn skip_idle(&mut self, now: Time) {
        self.since = now;
        if now >= self.period_start + PERIOD {
            self.begin_period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish_times(cpu: &mut Cpu<u32>, until: Time) -> Vec<(Time, u32)> {
        let mut done = Vec::new();
        while let Some(at) = cpu.next_change().filter(|&at| at <= until) {
            while let Some(job) = cpu.finished(at) {
                done.push((at, job));
            }
        }
        done
    }

    #[test]
    fn two_jobs_share_one_core() {
        let mut cpu = Cpu::new(1.0, None);
        cpu.add(0, 1, 10e6);
        cpu.add(0, 2, 20e6);
        assert_eq!(finish_times(&mut cpu, 1000 * MILLI), [(20 * MILLI, 1), (30 * MILLI, 2)]);
    }

    #[test]
    fn past_the_quota_the_group_stands_still_until_the_next_period() {
        let mut cpu = Cpu::new(4.0, Some(0.5));
        cpu.add(0, 1, 60e6);
        // 50 ms of quota, then the rest of the period still, then 10 ms more.
        assert_eq!(finish_times(&mut cpu, 1000 * MILLI), [(110 * MILLI, 1)]);
        assert_eq!(cpu.throttling(), (2, 1, 50 * MILLI));
    }

    #[test]
    fn other_threads_slow_a_job_only_when_cores_or_quota_run_out() {
        let alone = |background, quota| {
            let mut cpu = Cpu::new(4.0, quota);
            cpu.set_background(0, background);
            cpu.add(0, 1, 80e6);
            finish_times(&mut cpu, 10_000 * MILLI)[0].0
        };
        assert_eq!(alone(0.0, Some(2.0)), 80 * MILLI);
        assert_eq!(alone(1.0, Some(2.0)), 80 * MILLI);
        assert!(alone(3.0, Some(2.0)) > 120 * MILLI);
        assert_eq!(alone(7.0, None), 160 * MILLI);
    }

    #[test]
    fn a_stop_delays_everything_by_its_length() {
        let mut cpu = Cpu::new(1.0, None);
        cpu.add(0, 1, 10e6);
        cpu.stop(5 * MILLI, 12 * MILLI);
        assert_eq!(finish_times(&mut cpu, 1000 * MILLI), [(17 * MILLI, 1)]);
    }
}
