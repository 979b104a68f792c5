//! The callee's side of a call: worker, own work, calls of its own, answer.

use super::{Caller, Failure, Frame, Phase, Ref, salt};
use crate::engine::MILLI;
use crate::gate::{Advice, Rewrite};
use crate::plan::CallKind;
use crate::pod::Pause;
use crate::rng::join;
use crate::station::Entry;
use crate::world::{Event, World};

/// Share of the own work that is done before an operation fails by itself.
const FAILS_AFTER: f64 = 0.3;

impl World {
    pub(crate) fn arrive(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let kind = self.plan.calls[frame.call as usize].kind;
        let pod = &self.pods[frame.pod as usize];
        if kind == CallKind::Process {
            self.deliver(at);
            return;
        }
        if pod.epoch != frame.epoch || !pod.serves() {
            if frame.client_open {
                self.fail(at, Failure::Reset, 1)
            } else {
                self.frames.remove(at)
            }
            return;
        }
        self.queue(at);
    }

    /// Takes a worker of the callee, or waits for one.
    pub(super) fn queue(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.phase = Phase::Queued;
        match self.pods[frame.pod as usize].workers.enter(now, at) {
            Entry::Served => self.serve(at),
            Entry::Waits => {}
            Entry::Refused if frame.client_open => self.fail(at, Failure::Reset, 1),
            Entry::Refused => self.frames.remove(at),
        }
    }

    /// A worker has taken the call: its own work is drawn and the first stretch begins.
    pub(super) fn serve(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let pod = &mut self.pods[frame.pod as usize];
        pod.requests += 1;
        frame.phase = Phase::Serving;
        let mut draw = self.streams.work.at(frame.key);
        let work = draw.log_normal(operation.work, operation.sigma) * pod.work_factor(now);
        frame.work = work / (call.children.len() + 1) as f64;
        let mut delay = 0;
        if call.kind != CallKind::Sql {
            frame.served = now;
            let mut own = self.noise.error_draw(frame.key);
            if own.chance(self.error_rates[call.to as usize]) {
                frame.failure = Failure::Own;
            }
            for set in &self.gates[call.operation as usize].advice {
                self.meters.count(set.meter, true);
                match set.what {
                    Advice::Delay(by) => delay += by,
                    Advice::Throw(number) => frame.failure = Failure::Thrown(number),
                }
            }
            if frame.failure != Failure::None {
                frame.work = work * FAILS_AFTER;
            }
        }
        let (slot, allocation, key) = (frame.pod, draw.exponential(), frame.key);
        if call.kind != CallKind::Sql {
            self.recorder.entered(now, frame);
        }
        self.allocate(slot, allocation, key);
        if delay > 0 {
            self.events.plan(now + delay, Event::Work(at));
        } else {
            self.work(at);
        }
    }

    /// Memory of one request; a collection that it causes stops the process.
    pub(super) fn allocate(&mut self, slot: u16, share: f64, key: u64) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        let Some(heap) = &mut pod.heap else { return };
        let bytes = heap.plan.per_request * share;
        if let Some(Pause { lasts, full }) = heap.allocate(bytes, &mut self.streams.collections.at(key)) {
            pod.cpu.stop(now, now + lasts);
            self.recorder.collection(slot, lasts, full);
        }
    }

    /// Puts the next stretch of own work on the processor.
    pub(crate) fn work(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if frame.phase != Phase::Serving {
            return;
        }
        let (slot, work) = (frame.pod, frame.work);
        self.pods[slot as usize].cpu.add(now, at, work);
        self.watch(slot);
    }

    /// A stretch of own work is done.
    pub(crate) fn worked(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        if self.plan.calls[frame.call as usize].kind == CallKind::Sql {
            self.answer(at);
        } else {
            self.proceed(at);
        }
    }

    /// Makes the next call of the handling, or ends it.
    pub(super) fn proceed(&mut self, at: Ref) {
        while let Some(frame) = self.frames.get_mut(at) {
            let plan = &self.plan.calls[frame.call as usize];
            let Some(&child) = plan.children.get(frame.next_child as usize).filter(|_| frame.failure == Failure::None)
            else {
                self.finish(at);
                return;
            };
            frame.next_child += 1;
            let call = &self.plan.calls[child as usize];
            let key = join(frame.key, salt::CHILD + u64::from(frame.next_child));
            let caller = Caller {
                parent: (!call.detached).then_some(at),
                session: None,
                pod: frame.pod,
                key,
                trace: frame.trace,
                span: self.recorder.inner_span(frame),
            };
            if call.chance < 1.0 && !self.streams.work.at(key ^ 1).chance(call.chance) {
                continue;
            }
            let detached = call.detached;
            self.call(child, caller);
            if !detached {
                return;
            }
        }
    }

    /// The handling is over: the worker is free, the answer leaves.
    pub(super) fn finish(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        frame.status = answer_status(frame, self.plan.services[call.to as usize].kind);
        self.recorder.handled(now, frame);
        let slot = frame.pod;
        if call.kind == CallKind::Process {
            self.frames.remove(at);
        } else {
            for set in &self.gates[call.operation as usize].rewrites {
                self.meters.count(set.meter, true);
                match set.what {
                    Rewrite::Status(status) => frame.status = status,
                }
            }
        }
        if let Some(next) = self.pods[slot as usize].workers.leave(now) {
            self.serve(next);
        }
        self.reply(at);
    }

    /// A statement is done.
    pub(super) fn answer(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.status = 200;
        let slot = frame.pod as usize;
        if let Some(next) = self.pods[slot].workers.leave(now) {
            self.serve(next);
        }
        self.reply(at);
    }

    pub(super) fn reply(&mut self, at: Ref) {
        if let Some(frame) = self.frames.get_mut(at) {
            frame.phase = Phase::Returning;
            self.send(at, 0);
        }
    }

    /// The process on `slot` ends: its connections break, its own calls have no caller any more.
    pub(crate) fn break_connections(&mut self, slot: u16) {
        let epoch = self.pods[slot as usize].epoch;
        for at in self.frames.all() {
            let Some(frame) = self.frames.get_mut(at) else { continue };
            let kind = self.plan.calls[frame.call as usize].kind;
            let at_callee = matches!(frame.phase, Phase::Queued | Phase::Serving);
            if kind != CallKind::Process && frame.caller == slot && frame.caller_epoch == epoch {
                (frame.client_open, frame.parent) = (false, None);
                if frame.phase == Phase::Pooled {
                    self.frames.remove(at);
                    continue;
                }
            }
            let Some(frame) = self.frames.get_mut(at) else { continue };
            if frame.pod != slot || frame.epoch != epoch || !at_callee {
                continue;
            }
            if kind == CallKind::Process {
                // Another attempt is other work, with spans of its own.
                frame.key = join(frame.key, salt::DELIVERY + (u64::from(epoch) << 8));
                (frame.phase, frame.next_child, frame.failure) = (Phase::Going, 0, Failure::None);
                let service = self.plan.calls[frame.call as usize].to;
                let at = self.frames.renew(at);
                self.undelivered[service as usize].push_back(at);
            } else {
                self.fail(at, Failure::Reset, MILLI);
            }
        }
    }
}

/// The status that leaves the handling.
fn answer_status(frame: &Frame, kind: system::Kind) -> u16 {
    match (frame.failure, kind, frame.cause) {
        (Failure::None, ..) => 200,
        (Failure::Upstream, system::Kind::Gateway, Some(cause)) => match (cause.status, cause.failure) {
            (0, Failure::Timeout) => 504,
            (0, _) => 502,
            (status, _) => status,
        },
        _ => 500,
    }
}
