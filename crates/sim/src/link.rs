//! Links between services: latency, and what TCP makes of segments that do not arrive.
//!
//! A link is directed: what one service's pods send to another's. Requests travel on the link there, answers on the link
//! back. Conditions on a link are set from outside ([`crate::effect`]); the link itself knows no reason for them.

use crate::engine::{MICRO, MILLI, SECOND, Time, nanos};
use crate::rng::Draw;
use crate::witness::{Meter, Meters};

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

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Condition {
    pub delay: Time,
    pub jitter: Time,
    /// Share of segments lost, 0 to 1.
    pub loss: f64,
    /// How much a draw resembles the one before, 0 to 1 (`netem`'s correlation).
    pub correlation: f64,
}

struct Active {
    number: u32,
    meter: Meter,
    condition: Condition,
    previous: f64,
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

/// One direction between two services.
#[derive(Default)]
pub struct Link {
    active: Vec<Active>,
}

impl Link {
    pub fn set(&mut self, number: u32, meter: Meter, condition: Condition) {
        self.clear(number);
        self.active.push(Active { number, meter, condition, previous: 0.5 });
    }

    pub fn clear(&mut self, number: u32) {
        self.active.retain(|active| active.number != number);
    }

    /// Sends a message of `bytes`; `attempt` counts from 0. `draw` belongs to this message and attempt.
    pub fn send(&mut self, bytes: u32, attempt: u32, draw: &mut Draw, meters: &mut Meters) -> Flight {
        // A retransmission carries what was lost; one segment stands for it.
        let segments = if attempt == 0 { bytes.div_ceil(SEGMENT).max(1) } else { 1 };
        let travel = nanos(draw.between(ONE_WAY.0, ONE_WAY.1));
        if self.active.is_empty() {
            return Flight::Arrives(travel);
        }
        let (delay, lost) = self.pass(segments, draw, meters);
        match lost {
            None => Flight::Arrives(travel + delay),
            Some(last_lost) if segments - 1 - last_lost >= DUPLICATE_ACKS => Flight::Arrives(3 * (travel + delay)),
            Some(_) if attempt >= DATA_RETRIES => Flight::GivenUp,
            Some(_) => Flight::Again(backed_off(RTO, attempt).min(RTO_MAX)),
        }
    }

    /// Opens a connection: the time for the handshake, or the wait before the next SYN.
    pub fn connect(&mut self, attempt: u32, draw: &mut Draw, meters: &mut Meters) -> Flight {
        let there_and_back = nanos(draw.between(ONE_WAY.0, ONE_WAY.1)) + nanos(draw.between(ONE_WAY.0, ONE_WAY.1));
        if self.active.is_empty() {
            return Flight::Arrives(there_and_back);
        }
        match self.pass(1, draw, meters) {
            (delay, None) => Flight::Arrives(there_and_back + delay),
            _ if attempt >= SYN_RETRIES => Flight::GivenUp,
            _ => Flight::Again(backed_off(SYN_RTO, attempt)),
        }
    }

    /// Added delay, and the position of the last segment lost.
    fn pass(&mut self, segments: u32, draw: &mut Draw, meters: &mut Meters) -> (Time, Option<u32>) {
        let (mut delay, mut lost) = (0, None);
        for active in &mut self.active {
            let (more, hit) = active.pass(segments, draw);
            meters.count(active.meter, more > 0 || hit.is_some());
            delay += more;
            lost = lost.max(hit);
        }
        (delay, lost)
    }
}

impl Active {
    fn pass(&mut self, segments: u32, draw: &mut Draw) -> (Time, Option<u32>) {
        let condition = self.condition;
        let mut delay = condition.delay;
        if condition.jitter > 0 {
            let spread = 2.0 * self.correlated(draw) - 1.0;
            delay = (delay + (spread * condition.jitter as f64) as Time).max(0);
        }
        let mut lost = None;
        if condition.loss > 0.0 {
            for segment in 0..segments {
                if self.correlated(draw) < condition.loss {
                    lost = Some(segment);
                }
            }
        }
        (delay, lost)
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

    fn sends(condition: Condition, bytes: u32) -> Vec<Flight> {
        let (mut link, mut meters) = (Link::default(), Meters::default());
        let meter = meters.add();
        link.set(1, meter, condition);
        let stream = Stream::new(1, "test");
        (0..20_000).map(|key| link.send(bytes, 0, &mut stream.at(key), &mut meters)).collect()
    }

    #[test]
    fn a_lost_tail_waits_for_the_timer_and_a_lost_head_of_a_long_message_does_not() {
        let loss = Condition { loss: 0.2, ..Condition::default() };
        let again = |flights: &[Flight]| flights.iter().filter(|f| matches!(f, Flight::Again(_))).count() as f64;
        let short = sends(loss, 500);
        assert!((again(&short) / 20_000.0 - 0.2).abs() < 0.02);
        // Of ten segments the last three decide: 1 - 0.8^3.
        let long = sends(loss, 10 * SEGMENT);
        assert!((again(&long) / 20_000.0 - 0.488).abs() < 0.02);
        assert!(short.iter().all(|flight| !matches!(flight, Flight::Again(wait) if *wait != RTO)));
    }

    #[test]
    fn a_delay_is_added_to_each_message_and_jitter_spreads_it() {
        let condition = Condition { delay: 100 * MILLI, jitter: 20 * MILLI, ..Condition::default() };
        let times: Vec<Time> = sends(condition, 500)
            .into_iter()
            .map(|flight| if let Flight::Arrives(time) = flight { time } else { panic!("nothing is lost") })
            .collect();
        assert!(times.iter().all(|&time| time > 80 * MILLI && time < 121 * MILLI));
        let mean = times.iter().sum::<Time>() as f64 / times.len() as f64;
        assert!((mean / MILLI as f64 - 100.35).abs() < 0.3);
    }

    #[test]
    fn timers_double() {
        assert_eq!((backed_off(RTO, 0), backed_off(RTO, 3)), (200 * MILLI, 1600 * MILLI));
    }
}
