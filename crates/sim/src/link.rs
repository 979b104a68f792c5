//! Links between services: latency, and what TCP makes of segments that do not arrive.
//!
//! A link is directed: what one service's pods send to another's. Requests travel on the link there, answers on the link
//! back. Conditions on a link are set from outside ([`crate::effect`]); the link itself knows no reason for them.

use crate::engine::{MICRO, MILLI, SECOND, Time, nanos};
use crate::pod::Pod;
use crate::rng::Draw;
use crate::witness::{Holds, Meter, Meters};
use crate::world::World;

/// One way inside a cluster takes 0.2 to 0.5 ms.
const ONE_WAY: (f64, f64) = (200.0 * MICRO as f64, 500.0 * MICRO as f64);
/// Payload of one segment on Ethernet.
const SEGMENT: u32 = 1448;
/// Linux: the least retransmission time-out, and its doubling up to 120 s.
const RTO: Time = 200 * MILLI;
const RTO_MAX: Time = 120 * SECOND;
/// A lost SYN is sent again after 1 s, doubling, six times (`net.ipv4.tcp_syn_retries`).
const SYN_RTO: Time = SECOND;
const SYN_RETRIES: u32 = 6;
/// Data is given up after 15 retransmissions (`net.ipv4.tcp_retries2`).
const DATA_RETRIES: u32 = 15;
/// So many later segments that arrive tell the sender of a gap at once (RFC 5681).
const DUPLICATE_ACKS: u32 = 3;

/// Ethernet, IP and TCP headers of one segment, which a rate limit counts too.
const HEADERS: u32 = 66;

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Condition {
    pub delay: Time,
    pub jitter: Time,
    /// Share of segments that do not arrive, or arrive damaged and are thrown away for their checksum; 0 to 1.
    pub loss: f64,
    /// Share of segments that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// How much a draw resembles the one before, 0 to 1 (`netem`'s correlation).
    pub correlation: f64,
    pub rate: Option<Rate>,
}

/// A token bucket (`tbf`): bytes per second, bytes that may wait for tokens, and bytes that may be sent at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub bytes_per_s: f64,
    pub limit: f64,
    pub buffer: f64,
}

struct Active {
    number: u32,
    meter: Meter,
    holds: Holds,
    condition: Condition,
    previous: f64,
    /// By sending pod: when its bucket is full again.
    buckets: Vec<(u16, f64)>,
}

/// What becomes of a message that is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flight {
    Arrives(Time),
    /// A retransmission timer runs; what is left is sent again after this time.
    Again(Time),
    /// The sender gives the connection up.
    GivenUp,
}

/// What was put on the wire beyond the message, and what became of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    delay: Time,
    /// Position of the last segment that did not arrive.
    lost: Option<u32>,
    /// Segments that arrived twice.
    copies: u32,
}

/// One direction between two services.
#[derive(Default)]
pub struct Link {
    active: Vec<Active>,
}

impl Link {
    pub fn set(&mut self, number: u32, meter: Meter, holds: Holds, condition: Condition) {
        self.clear(number);
        self.active.push(Active { number, meter, holds, condition, previous: 0.5, buckets: Vec::new() });
    }

    pub fn clear(&mut self, number: u32) {
        self.active.retain(|active| active.number != number);
    }

    /// Passes segments of `bytes` in all, sent by a pod at an instant.
    fn pass(
        &mut self,
        now: Time,
        sender: &Pod,
        (bytes, segments): (u32, u32),
        draw: &mut Draw,
        meters: &mut Meters,
    ) -> Passage {
        let mut sum = Passage { delay: 0, lost: None, copies: 0 };
        for active in self.active.iter_mut().filter(|active| active.holds.on(sender)) {
            let one = active.pass(now, sender.slot, (bytes, segments), draw);
            let touched = one.delay > 0 || one.lost.is_some() || one.copies > 0;
            if active.condition.rate.is_some() {
                let size = u64::from(bytes + segments * HEADERS);
                meters.count_many(active.meter, sender.slot, size, if touched { size } else { 0 });
            } else {
                meters.count(active.meter, sender.slot, touched);
            }
            sum.delay += one.delay;
            sum.lost = sum.lost.max(one.lost);
            sum.copies += one.copies;
        }
        sum
    }
}

impl World {
    /// Sends a message of `bytes` from one pod to another; `attempt` counts from 0, `key` belongs to this attempt.
    pub(crate) fn transmit(&mut self, link: u32, (from, to): (u16, u16), bytes: u32, attempt: u32, key: u64) -> Flight {
        let now = self.events.now();
        let mut draw = self.streams.travel.at(key);
        let travel = nanos(draw.between(ONE_WAY.0, ONE_WAY.1));
        let link = &mut self.links[link as usize];
        let mut sent = u64::from(bytes);
        let mut flight = Flight::Arrives(travel);
        if !link.active.is_empty() {
            // A retransmission carries what was lost; one segment stands for it.
            let size = if attempt == 0 { (bytes, bytes.div_ceil(SEGMENT).max(1)) } else { (bytes.min(SEGMENT), 1) };
            let passage = link.pass(now, &self.pods[from as usize], size, &mut draw, &mut self.meters);
            sent = u64::from(size.0 + passage.copies * SEGMENT.min(bytes));
            let whole = travel + passage.delay;
            flight = match passage.lost {
                None => Flight::Arrives(whole),
                Some(last) if size.1 - 1 - last >= DUPLICATE_ACKS => Flight::Arrives(3 * whole),
                Some(_) if attempt >= DATA_RETRIES => Flight::GivenUp,
                Some(_) => Flight::Again(backed_off(RTO, attempt).min(RTO_MAX)),
            };
        }
        self.pods[from as usize].traffic.sent += sent;
        if matches!(flight, Flight::Arrives(_)) {
            self.pods[to as usize].traffic.received += sent;
        }
        flight
    }

    /// Opens a connection: the time for the handshake, or the wait before the next SYN. A SYN that arrives is answered on
    /// the link back, whose condition counts as well.
    pub(crate) fn shake_hands(
        &mut self,
        (there, back): (u32, u32),
        (from, to): (u16, u16),
        attempt: u32,
        key: u64,
    ) -> Flight {
        let now = self.events.now();
        let mut draw = self.streams.travel.at(key);
        let mut takes = 0;
        for (link, sender) in [(there, from), (back, to)] {
            takes += nanos(draw.between(ONE_WAY.0, ONE_WAY.1));
            let link = &mut self.links[link as usize];
            if link.active.is_empty() {
                continue;
            }
            let passage = link.pass(now, &self.pods[sender as usize], (0, 1), &mut draw, &mut self.meters);
            if passage.lost.is_some() {
                return no_answer(attempt);
            }
            takes += passage.delay;
        }
        Flight::Arrives(takes)
    }
}

/// What the sender of a SYN does when nothing comes back.
pub fn no_answer(attempt: u32) -> Flight {
    if attempt >= SYN_RETRIES { Flight::GivenUp } else { Flight::Again(backed_off(SYN_RTO, attempt)) }
}

impl Active {
    fn pass(&mut self, now: Time, sender: u16, (bytes, segments): (u32, u32), draw: &mut Draw) -> Passage {
        let condition = self.condition;
        let mut passage = Passage { delay: condition.delay, lost: None, copies: 0 };
        if condition.jitter > 0 {
            let spread = 2.0 * self.correlated(draw) - 1.0;
            passage.delay = (passage.delay + (spread * condition.jitter as f64) as Time).max(0);
        }
        if condition.loss > 0.0 {
            for segment in 0..segments {
                if self.correlated(draw) < condition.loss {
                    passage.lost = Some(segment);
                }
            }
        }
        if condition.duplicate > 0.0 {
            passage.copies = (0..segments).filter(|_| self.correlated(draw) < condition.duplicate).count() as u32;
        }
        if let Some(rate) = condition.rate {
            let (delay, lost) = self.queue(now, sender, rate, (bytes, segments));
            passage.delay += delay;
            passage.lost = passage.lost.max(lost);
        }
        passage
    }

    /// Segments one after the other through the sender's bucket: the last one's wait, and the last one that found the
    /// queue full.
    fn queue(&mut self, now: Time, sender: u16, rate: Rate, (bytes, segments): (u32, u32)) -> (Time, Option<u32>) {
        let at = self.buckets.iter().position(|(slot, _)| *slot == sender).unwrap_or_else(|| {
            self.buckets.push((sender, now as f64));
            self.buckets.len() - 1
        });
        let full = &mut self.buckets[at].1;
        let per_byte = SECOND as f64 / rate.bytes_per_s;
        let (mut waits, mut lost) = (0.0_f64, None);
        for segment in 0..segments {
            let size = f64::from((bytes - (segment * SEGMENT).min(bytes)).min(SEGMENT) + HEADERS);
            let next = full.max(now as f64) + size * per_byte;
            let wait = (next - rate.buffer * per_byte - now as f64).max(0.0);
            // A segment larger than the bucket never finds enough tokens; one that finds the queue full is dropped.
            if size > rate.buffer || wait / per_byte > rate.limit {
                lost = Some(segment);
            } else {
                *full = next;
                waits = waits.max(wait);
            }
        }
        (waits as Time, lost)
    }

    fn correlated(&mut self, draw: &mut Draw) -> f64 {
        let fresh = draw.unit();
        let value = fresh + self.condition.correlation * (self.previous - fresh);
        self.previous = value;
        value
    }
}

fn backed_off(first: Time, attempt: u32) -> Time {
    first.saturating_mul(1 << attempt.min(20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn passages(condition: Condition, bytes: u32, every: Time) -> Vec<Passage> {
        let mut active = Active {
            number: 1,
            meter: Meters::default().add(),
            holds: Holds::nothing(),
            condition,
            previous: 0.5,
            buckets: Vec::new(),
        };
        let stream = Stream::new(1, "test");
        let size = (bytes, bytes.div_ceil(SEGMENT));
        (0..20_000_i64).map(|key| active.pass(key * every, 0, size, &mut stream.at(key as u64))).collect()
    }

    #[test]
    fn each_segment_is_lost_or_doubled_on_its_own() {
        let lost = passages(Condition { loss: 0.2, ..Condition::default() }, 10 * SEGMENT, MILLI);
        // Of ten segments the last three decide whether a timer runs: 1 - 0.8^3.
        let tails = lost.iter().filter(|passage| passage.lost.is_some_and(|last| last >= 7)).count() as f64;
        assert!((tails / 20_000.0 - 0.488).abs() < 0.02);
        let doubled = passages(Condition { duplicate: 0.5, ..Condition::default() }, 10 * SEGMENT, MILLI);
        let copies = doubled.iter().map(|passage| f64::from(passage.copies)).sum::<f64>();
        assert!((copies / 200_000.0 - 0.5).abs() < 0.01);
        assert!(doubled.iter().all(|passage| passage.delay == 0 && passage.lost.is_none()));
    }

    #[test]
    fn a_delay_is_added_to_each_message_and_jitter_spreads_it() {
        let condition = Condition { delay: 100 * MILLI, jitter: 20 * MILLI, ..Condition::default() };
        let passages = passages(condition, 500, MILLI);
        assert!(passages.iter().all(|p| p.delay > 79 * MILLI && p.delay < 121 * MILLI));
        let mean = passages.iter().map(|passage| passage.delay).sum::<Time>() as f64 / passages.len() as f64;
        assert!((mean / MILLI as f64 - 100.0).abs() < 0.3);
    }

    #[test]
    fn a_bucket_lets_the_rate_through_holds_what_waits_and_drops_the_rest() {
        let rate = Rate { bytes_per_s: 100_000.0, limit: 20_000.0, buffer: 3_000.0 };
        let condition = Condition { rate: Some(rate), ..Condition::default() };
        // 934 + 66 bytes every 20 ms are half of the rate; every 5 ms they are twice the rate.
        let calm = passages(condition, 934, 20 * MILLI);
        assert!(calm.iter().all(|passage| passage.delay == 0 && passage.lost.is_none()));
        let crowded = passages(condition, 934, 5 * MILLI);
        let dropped = crowded.iter().filter(|passage| passage.lost.is_some()).count() as f64;
        assert!((dropped / 20_000.0 - 0.5).abs() < 0.01, "{dropped}");
        // The queue holds 20 kB, which take 0.2 s.
        let longest = crowded.iter().map(|passage| passage.delay).max().unwrap();
        assert!((190 * MILLI..=200 * MILLI).contains(&longest), "{longest}");
        let small = Rate { buffer: 500.0, ..rate };
        let never = passages(Condition { rate: Some(small), ..Condition::default() }, 934, SECOND);
        assert!(never.iter().all(|passage| passage.lost == Some(0)), "larger than the bucket");
    }

    #[test]
    fn timers_double() {
        assert_eq!((backed_off(RTO, 0), backed_off(RTO, 3)), (200 * MILLI, 1600 * MILLI));
        assert_eq!(no_answer(0), Flight::Again(SECOND));
        assert_eq!(no_answer(SYN_RETRIES), Flight::GivenUp);
    }
}
