//! What gates do to a call: requests and answers at the proxy, advice around methods, statements in the driver, and what
//! callers make of answers that are not right.

use super::{Failure, Frame, Phase, Ref};
use crate::engine::{MICRO, Time};
use crate::gate::{Address, Advice, Body, Driver, Gate, Inbound, Outbound, Route};
use crate::plan::{CallId, CallKind, Plan};
use crate::pod::Pod;
use crate::rng::{Stream, join, name_key};
use crate::witness::Meters;
use crate::world::{Event, World};

/// The end of a connection reaches its other side.
const CLOSING: Time = 300 * MICRO;
/// A framework's own answer costs so much, in CPU-nanoseconds.
const FRAMEWORK_WORK: f64 = 300.0 * MICRO as f64;
/// Share of callers that read the answers to requests which only change something, in percent.
const READS_CHANGES: u8 = 50;

/// How an answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    After(Time),
    /// The connection is closed instead, after so long.
    Never(Time),
}

impl Gate {
    /// Advice on the methods that handle a call: added time, and what it changes in the handling.
    pub(super) fn advise(&self, frame: &mut Frame, pod: &Pod, meters: &mut Meters) -> (Time, bool) {
        let (mut delay, mut skips) = (0, false);
        for set in self.advice.iter().filter(|set| set.holds.on(pod)) {
            meters.count(set.meter, pod.slot, true);
            match set.what {
                Advice::Delay(by) => delay += by,
                Advice::Throw(number) => frame.failure = Failure::Thrown(number),
                Advice::Result { skips: skip, body } => {
                    skips |= skip;
                    frame.marks.body = body;
                }
            }
        }
        (delay, skips)
    }

    /// What becomes of an answer.
    fn pass_out(&self, frame: &mut Frame, pod: &Pod, meters: &mut Meters) -> Leaves {
        let (mut hold, mut aborts) = (0, false);
        for set in self.outbound.iter().filter(|set| set.holds.on(pod)) {
            meters.count(set.meter, pod.slot, true);
            match set.what {
                Outbound::Abort => aborts = true,
                Outbound::Hold(by) => hold += by,
                Outbound::Status(status) => frame.status = status,
                Outbound::Body(body) => frame.marks.body = body,
            }
        }
        if aborts { Leaves::Never(hold + CLOSING) } else { Leaves::After(hold) }
    }
}

impl World {
    /// The request has come to the callee's port: the proxy in front of it, if there is one, and then the queue.
    pub(super) fn enter(&mut self, at: Ref) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        let gate = &self.gates[self.plan.calls[frame.call as usize].operation as usize];
        let pod = &self.pods[frame.pod as usize];
        let (mut hold, mut aborts) = (0, false);
        for set in gate.inbound.iter().filter(|set| set.holds.on(pod)) {
            self.meters.count(set.meter, pod.slot, true);
            match set.what {
                Inbound::Abort => aborts = true,
                Inbound::Hold(by) => hold += by,
                Inbound::Elsewhere(Route::Known(call, body)) => {
                    frame.marks.asked = frame.marks.asked.or(Some(frame.call));
                    (frame.call, frame.marks.body) = (call, body);
                }
                Inbound::Elsewhere(Route::Detour(number)) => frame.marks.detour = Some(number),
            }
        }
        if aborts {
            self.fail(at, Failure::Closed, hold + CLOSING);
        } else if hold > 0 {
            self.events.plan(self.events.now() + hold, Event::Admit(at));
        } else {
            self.queue(at);
        }
    }

    /// The proxy lets a request through that it held. When the caller has gone meanwhile, there is nothing to let through.
    pub(crate) fn admit(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
        } else if self.at_home(frame) {
            self.queue(at);
        } else {
            self.fail(at, Failure::Reset, 1);
        }
    }

    /// Whether the process that a request was sent to is there.
    pub(super) fn at_home(&self, frame: &Frame) -> bool {
        let pod = &self.pods[frame.pod as usize];
        pod.epoch == frame.epoch && pod.serves()
    }

    /// The handling begins: advice, and the framework's own answer where no handler of the plan is asked. The time that
    /// passes before its own work.
    pub(super) fn advise(&mut self, at: Ref) -> Time {
        let Some(frame) = self.frames.get_mut(at) else { return 0 };
        let call = &self.plan.calls[frame.call as usize];
        let detour = frame.marks.detour.map(|number| &self.recorder.detours[usize::from(number)]);
        if let Some(detour) = detour {
            frame.marks.body = detour.body;
        }
        let by_framework = detour.is_some_and(|detour| detour.status.is_some());
        let (delay, skips) = if by_framework {
            frame.failure = Failure::None;
            (0, true)
        } else {
            let gate = &self.gates[call.operation as usize];
            gate.advise(frame, &self.pods[frame.pod as usize], &mut self.meters)
        };
        if skips {
            (frame.work, frame.next_child) = (FRAMEWORK_WORK, call.children.len() as u16);
        }
        delay
    }

    /// The status of an answer that the call's own handler does not give.
    pub(super) fn framework_status(&self, frame: &Frame) -> Option<u16> {
        frame.marks.detour.and_then(|number| self.recorder.detours[usize::from(number)].status)
    }

    /// The handling has ended: the answer passes the proxy, or the connection is closed.
    pub(super) fn leave(&mut self, at: Ref) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        if let Some(asked) = frame.marks.asked.take() {
            frame.call = asked;
        }
        let gate = &self.gates[self.plan.calls[frame.call as usize].operation as usize];
        match gate.pass_out(frame, &self.pods[frame.pod as usize], &mut self.meters) {
            Leaves::After(0) => self.reply(at),
            Leaves::After(hold) => self.events.plan(self.events.now() + hold, Event::Reply(at)),
            Leaves::Never(after) => self.fail(at, Failure::Closed, after),
        }
    }

    /// The proxy lets an answer through that it held; a process that has ended meanwhile has broken the connection.
    pub(crate) fn let_out(&mut self, at: Ref) {
        if self.frames.get(at).is_some_and(|frame| frame.phase == Phase::Serving) {
            self.reply(at);
        }
    }

    /// A statement goes through the client's driver and is sent.
    pub(super) fn drive(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let gate = &self.gates[self.plan.calls[frame.call as usize].operation as usize];
        let client = &self.pods[frame.caller as usize];
        let (mut hold, mut throws) = (0, None);
        for set in gate.driver.iter().filter(|set| set.holds.on(client)) {
            self.meters.count(set.meter, client.slot, true);
            match set.what {
                Driver::Hold(by) => hold += by,
                Driver::Throw(number) => throws = Some(number),
            }
        }
        match throws {
            Some(number) => self.fail(at, Failure::Thrown(number), hold.max(1)),
            None if hold > 0 => self.events.plan(self.events.now() + hold, Event::Send { at, attempt: 0 }),
            None => self.send(at, 0),
        }
    }

    /// The connection has carried so many requests.
    pub(crate) fn mark_carried(&mut self, at: Ref, carried: u16) {
        if let Some(frame) = self.frames.get_mut(at) {
            frame.marks.carried = carried;
        }
    }

    /// The name that the caller looked up leads there.
    pub(crate) fn mark_address(&mut self, at: Ref, address: Address) {
        if let Some(frame) = self.frames.get_mut(at) {
            frame.marks.address = address;
        }
    }

    /// What the caller makes of an answer that arrived whole: an error of its own when it reads what is not right.
    pub(super) fn reading(&self, frame: &Frame) -> Option<Failure> {
        let failed = self.plan.calls[frame.asked() as usize].kind.failed(frame.outcome, frame.status);
        if frame.marks.body == Body::Right || failed {
            return None;
        }
        reading(&self.plan, frame.asked(), frame.marks.body)
    }

    /// What a service that only passes answers on makes of one: the body goes on as it is.
    pub(super) fn passes_on(&self, call: CallId) -> bool {
        let caller = self.plan.calls[call as usize].from;
        self.plan.services[caller as usize].kind == system::Kind::Gateway
    }
}

/// Which callers read what is a property of the system's code that its data does not tell. A fixed draw by caller,
/// operation and member stands for it, the same in every run: what is asked for by GET, POST or a remote procedure is read,
/// answers to other methods are read by half of the callers. The generator of load looks at statuses alone.
fn reading(plan: &Plan, call: CallId, body: Body) -> Option<Failure> {
    let call = &plan.calls[call as usize];
    let operation = &plan.operations[call.operation as usize];
    let caller = &plan.services[call.from as usize];
    if !call.kind.is_remote() || matches!(caller.kind, system::Kind::Gateway | system::Kind::Loadgen) {
        return None;
    }
    let lot = |key: u64| {
        let mut draw = Stream::new(name_key(&caller.name), &operation.name).at(join(key, 21));
        100.0 * draw.unit()
    };
    let asks = call.kind != CallKind::Http || matches!(operation.method.as_str(), "GET" | "POST");
    if call.detached || (!asks && lot(0) >= f64::from(READS_CHANGES)) {
        return None;
    }
    match body {
        Body::Right => None,
        Body::Unreadable => Some(Failure::Unreadable),
        Body::Wrong { key, percent } => (lot(key) < f64::from(percent)).then_some(Failure::Unusable),
    }
}
