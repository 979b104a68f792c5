//! The connections of one pod to one service: idle ones, the shared one, and the pool that bounds them.

use super::Pool;
use crate::engine::Time;
use crate::plan::CallKind;
use crate::profile::Client;
use crate::request::Ref;
use crate::reuse::Reuse;

/// Attempts to connect wait at most this long (gRPC connection backoff protocol), and grow by this factor.
const RECONNECT_MAX: Time = 120 * crate::engine::SECOND;
const RECONNECT_GROWTH: f64 = 1.6;

/// A connection that waits for its next request.
#[derive(Debug, Clone, Copy)]
struct Idle {
    pod: u16,
    since: Time,
    /// Requests that it has carried.
    carried: u16,
}

pub struct Channel {
    pub kind: CallKind,
    pub client: Client,
    /// Calls that hold or wait for a connection, where their number is bounded.
    pub pool: Pool<Ref>,
    pub reuse: Reuse,
    /// Connections that wait; the one used last is taken first.
    idle: Vec<Idle>,
    /// Pod behind the shared connection.
    shared: Option<u16>,
    /// Until then every call fails at once; the delay before the attempt after the next.
    closed_until: Time,
    reconnect: Time,
    /// Pods whose addresses a registry gave, and which of the pods that took the place it was.
    known: Vec<(u16, u32)>,
}

impl Channel {
    pub fn new(kind: CallKind, client: Client, reuse: Reuse) -> Self {
        Self {
            kind,
            client,
            pool: Pool::new(client.connections, u32::MAX),
            reuse,
            idle: Vec::new(),
            shared: None,
            closed_until: 0,
            reconnect: client.reconnect.unwrap_or_default(),
            known: Vec::new(),
        }
    }

    /// Whether the address of this pod is the one that the registry gave last.
    pub fn knows(&self, pod: u16, generation: u32) -> bool {
        let known = self.known.iter().find(|(slot, _)| *slot == pod).map_or(0, |&(_, known)| known);
        known == generation
    }

    /// The registry gave the pod's address.
    pub fn learn(&mut self, pod: u16, generation: u32) {
        match self.known.iter_mut().find(|(slot, _)| *slot == pod) {
            Some(place) => place.1 = generation,
            None => self.known.push((pod, generation)),
        }
    }

    pub const fn bounded(&self) -> bool {
        self.client.connections != u32::MAX
    }

    /// The pod behind a connection that is open, and the requests that it has carried. A shared one stays; another is
    /// taken out.
    pub fn open(&mut self, now: Time) -> Option<(u16, u16)> {
        if self.client.shared {
            return self.shared.map(|pod| (pod, 0));
        }
        match self.idle.pop() {
            Some(idle) if now - idle.since < self.reuse.idle => Some((idle.pod, idle.carried)),
            _ => {
                // The others have waited longer still.
                self.idle.clear();
                None
            }
        }
    }

    /// A connection was opened.
    pub fn opened(&mut self, pod: u16) {
        self.reconnect = self.client.reconnect.unwrap_or_default();
        if self.client.shared {
            self.shared = Some(pod);
        }
    }

    /// An answer came over the connection: it can be used again.
    pub fn keep(&mut self, now: Time, pod: u16, carried: u16) {
        let open = carried < self.reuse.requests && self.reuse.idle > 0;
        if open && !self.client.shared && self.idle.len() < usize::from(self.client.idle) {
            self.idle.push(Idle { pod, since: now, carried });
        }
    }

    /// An attempt to connect failed: calls fail at once until the next attempt.
    pub fn closed(&mut self, now: Time) {
        if self.client.reconnect.is_some() && now >= self.closed_until {
            self.closed_until = now + self.reconnect;
            self.reconnect = ((self.reconnect as f64 * RECONNECT_GROWTH) as Time).min(RECONNECT_MAX);
        }
    }

    pub const fn fails_at_once(&self, now: Time) -> bool {
        now < self.closed_until
    }

    /// The process on `pod` ended: its connections are closed.
    pub fn forget(&mut self, pod: u16) {
        self.idle.retain(|idle| idle.pod != pod);
        self.shared = self.shared.filter(|&other| other != pod);
    }

    /// The process that holds the connections ended.
    pub fn clear(&mut self, now: Time) {
        self.pool.clear(now);
        self.idle.clear();
        self.shared = None;
        self.closed_until = 0;
        self.reconnect = self.client.reconnect.unwrap_or_default();
    }

    /// Open connections, used or idle, where each call takes its own.
    pub fn connections(&self) -> u32 {
        let used = if self.bounded() { self.pool.busy() } else { 0 };
        used + self.idle.len() as u32 + u32::from(self.shared.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SECOND;

    #[test]
    fn a_connection_is_used_until_it_is_old_or_has_carried_enough() {
        let client = Client {
            connections: u32::MAX,
            idle: 2,
            shared: false,
            wait: None,
            persistent: false,
            reconnect: None,
            timeout: None,
        };
        let mut channel = Channel::new(CallKind::Http, client, Reuse { idle: 5 * SECOND, requests: 3 });
        assert_eq!(channel.open(0), None);
        channel.keep(0, 7, 1);
        channel.keep(SECOND, 7, 2);
        assert_eq!(channel.open(4 * SECOND), Some((7, 2)), "the last one first");
        channel.keep(4 * SECOND, 7, 3);
        assert_eq!(channel.open(4 * SECOND), Some((7, 1)), "the server closed the one with three requests");
        channel.keep(4 * SECOND, 7, 1);
        assert_eq!(channel.open(9 * SECOND), None);
    }
}
