//! The connections of one pod to one service: idle ones, the shared one, and the pool that bounds them.

use super::Pool;
use crate::engine::Time;
use crate::plan::CallKind;
use crate::profile::Client;
use crate::request::Ref;

/// Attempts to connect wait at most this long (gRPC connection backoff protocol), and grow by this factor.
const RECONNECT_MAX: Time = 120 * crate::engine::SECOND;
const RECONNECT_GROWTH: f64 = 1.6;

pub struct Channel {
    pub kind: CallKind,
    pub client: Client,
    /// Calls that hold or wait for a connection, where their number is bounded.
    pub pool: Pool<Ref>,
    /// Pods behind idle connections; the one used last is taken first.
    idle: Vec<u16>,
    /// Pod behind the shared connection.
    shared: Option<u16>,
    /// Until then every call fails at once; the delay before the attempt after the next.
    closed_until: Time,
    reconnect: Time,
}

impl Channel {
    pub fn new(kind: CallKind, client: Client) -> Self {
        Self {
            kind,
            client,
            pool: Pool::new(client.connections, u32::MAX),
            idle: Vec::new(),
            shared: None,
            closed_until: 0,
            reconnect: client.reconnect.unwrap_or_default(),
        }
    }

    pub const fn bounded(&self) -> bool {
        self.client.connections != u32::MAX
    }

    /// The pod behind a connection that is open. A shared one stays; another is taken out.
    pub fn open(&mut self) -> Option<u16> {
        if self.client.shared { self.shared } else { self.idle.pop() }
    }

    /// A connection was opened.
    pub fn opened(&mut self, pod: u16) {
        self.reconnect = self.client.reconnect.unwrap_or_default();
        if self.client.shared {
            self.shared = Some(pod);
        }
    }

    /// An answer came over the connection: it can be used again.
    pub fn keep(&mut self, pod: u16) {
        if !self.client.shared && self.idle.len() < usize::from(self.client.idle) {
            self.idle.push(pod);
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
        self.idle.retain(|&other| other != pod);
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
