//! The callee's side of a call: worker, own work, calls of its own, answer.

use super::{Caller, Cause, Failure, Frame, Phase, Ref, salt};
use crate::engine::MILLI;
use crate::plan::{CallKind, ROWS};
use crate::pod::Pause;
use crate::rng::join;
use crate::station::{Entry, Pool};
use crate::world::{Event, World};

/// Share of the own work that is done before an operation fails by itself.
const FAILS_AFTER: f64 = 0.3;

impl World {
    pub(crate) fn arrive(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let kind = self.plan.calls[frame.call as usize].kind;
        if kind == CallKind::Process {
            self.deliver(at);
        } else if kind == CallKind::Grpc && !frame.client_open {
            // The stream was reset before the request came.
            self.frames.remove(at);
        } else if self.at_home(frame) {
            self.enter(at);
        } else if frame.client_open {
            self.fail(at, Failure::Reset, 1);
        } else {
            self.frames.remove(at);
        }
    }

    /// The threads of the callee that work on calls of this kind.
    fn threads(&mut self, at: Ref) -> Option<&mut Pool<Ref>> {
        let frame = self.frames.get(at)?;
        let pod = &mut self.pods[frame.pod as usize];
        let message = self.plan.calls[frame.call as usize].kind == CallKind::Process;
        Some(if message { &mut pod.listeners } else { &mut pod.workers })
    }

    /// Takes a worker of the callee, or waits for one.
    pub(super) fn queue(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.phase = Phase::Queued;
        if self.threads(at).is_some_and(|threads| threads.enter(now, at) == Entry::Served) {
            self.serve(at);
        }
    }

    /// The worker is free for the next call.
    fn free(&mut self, at: Ref) {
        let now = self.events.now();
        if let Some(next) = self.threads(at).and_then(|threads| threads.leave(now)) {
            self.serve(next);
        }
    }

    /// A worker has taken the call: its own work is drawn and the first stretch begins.
    pub(super) fn serve(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let row_of = operation.lock;
        let pod = &mut self.pods[frame.pod as usize];
        pod.requests += 1;
        frame.phase = Phase::Serving;
        let mut draw = self.streams.work.at(frame.key);
        let work = draw.log_normal(operation.work, operation.sigma) * pod.work_factor(now);
        frame.work = work / f64::from(call.stretches);
        let store = call.kind.is_store();
        if !store {
            frame.served = now;
            let mut own = self.noise.error_draw(frame.key);
            if own.chance(self.error_rates[call.to as usize]) {
                frame.failure = Failure::Own;
            }
        }
        let delay = if store { 0 } else { self.advise(at) };
        let Some(frame) = self.frames.get_mut(at) else { return };
        if frame.failure != Failure::None {
            frame.work = work * FAILS_AFTER;
        }
        let (slot, allocation, key) = (frame.pod, draw.exponential(), frame.key);
        if !store {
            self.recorder.entered(now, frame);
        }
        self.allocate(slot, allocation, key);
        if let Some(first) = row_of
            && !self.lock_row(at, first, key)
        {
            return;
        }
        if delay > 0 {
            self.events.plan(now + delay, Event::Work(at));
        } else {
            self.work(at);
        }
    }

    /// Locks the row that a statement changes; whether it got the lock now. Else it waits, with its thread and connection.
    fn lock_row(&mut self, at: Ref, first: u32, key: u64) -> bool {
        let now = self.events.now();
        // Rows are as popular as what they stand for: a few are changed often.
        let row = self.streams.keys.at(key).unit().powi(3) * f64::from(ROWS);
        let lock = first + row as u32;
        if let Some(frame) = self.frames.get_mut(at) {
            frame.lock = Some(lock);
        }
        self.locks[lock as usize].enter(now, at) == Entry::Served
    }

    /// The row is free for the next statement that waits for it.
    fn unlock_row(&mut self, at: Ref) {
        let now = self.events.now();
        let lock = self.frames.get_mut(at).and_then(|frame| frame.lock.take());
        if let Some(next) = lock.and_then(|lock| self.locks[lock as usize].leave(now)) {
            self.work(next);
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

    /// A full collection that something asks for: all threads stand still for the time that is given back.
    pub(crate) fn collect_now(&mut self, slot: u16, key: u64) -> crate::engine::Time {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        let Some(heap) = &mut pod.heap else { return 0 };
        let Pause { lasts, full } = heap.collect(&mut self.streams.collections.at(key));
        pod.cpu.stop(now, now + lasts);
        self.recorder.collection(slot, lasts, full);
        self.watch(slot);
        lasts
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
        if self.plan.calls[frame.call as usize].kind.is_store() {
            self.answer(at);
        } else {
            self.proceed(at);
        }
    }

    /// Makes the next calls of the handling, or ends it.
    fn proceed(&mut self, at: Ref) {
        loop {
            let Some(frame) = self.frames.get(at) else { return };
            let plan = &self.plan.calls[frame.call as usize];
            let next = plan.children.get(frame.next_child as usize).filter(|_| frame.failure == Failure::None);
            let Some(&child) = next else {
                if frame.waits == 0 {
                    self.finish(at);
                }
                return;
            };
            // Calls that are made at the same time begin together; any other waits for those before it.
            if frame.waits > 0 && !self.plan.calls[child as usize].parallel {
                return;
            }
            self.make(at, child);
        }
    }

    /// Begins one call of a handling.
    fn make(&mut self, at: Ref, child: u32) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.next_child += 1;
        let call = &self.plan.calls[child as usize];
        if let Some(cache) = call.cache
            && !self.missed(at, cache)
        {
            return;
        }
        let call = &self.plan.calls[child as usize];
        let Some(frame) = self.frames.get_mut(at) else { return };
        let key = join(frame.key, salt::CHILD + u64::from(frame.next_child));
        let caller = Caller {
            parent: (!call.detached).then_some(at),
            session: None,
            pod: frame.pod,
            key,
            trace: frame.trace,
            span: self.recorder.inner_span(frame),
        };
        let (detached, fills) = (call.detached, call.fills);
        frame.waits += u16::from(!detached);
        let made = self.plan_call(child, caller);
        if !detached {
            self.chain(at, made);
        } else if let Some(cache) = fills {
            // Nobody waits for it; that it is under way is all that the handling knows.
            self.fill(at, cache);
        }
        self.begin(made);
    }

    /// The handling is over: the worker is free, the answer leaves.
    pub(super) fn finish(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        let status = self.framework_status(frame).unwrap_or_else(|| self.plan.answer_status(frame));
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.status = status;
        self.recorder.handled(now, frame);
        let message = self.plan.calls[frame.call as usize].kind == CallKind::Process;
        self.free(at);
        if message {
            self.acknowledge(at);
            self.frames.remove(at);
        } else {
            self.leave(at);
        }
    }

    /// A statement is done.
    fn answer(&mut self, at: Ref) {
        if let Some(frame) = self.frames.get_mut(at) {
            frame.status = 200;
            self.unlock_row(at);
            self.free(at);
            self.reply(at);
        }
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
        let mut messages = Vec::new();
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
                if kind == CallKind::Grpc && at_callee && frame.pod != slot {
                    self.events.plan(self.events.now() + MILLI, Event::Cancel(at));
                }
            }
            let Some(frame) = self.frames.get_mut(at) else { continue };
            if frame.pod != slot || frame.epoch != epoch || !at_callee {
                continue;
            }
            if kind == CallKind::Process {
                messages.push(at);
            } else {
                if let Some(lock) = frame.lock.take() {
                    // What waits for the row ends with the same process.
                    self.locks[lock as usize].clear(self.events.now());
                }
                self.fail(at, Failure::Reset, MILLI);
            }
        }
        self.consumer_lost(slot, messages);
    }
}

impl crate::plan::Plan {
    /// The status that leaves a handling, in the protocol's own numbers.
    fn answer_status(&self, frame: &Frame) -> u16 {
        let call = &self.calls[frame.call as usize];
        let cause_kind = frame.cause.map(|cause| self.calls[cause.call as usize].kind);
        match call.kind {
            CallKind::Grpc => grpc_status(frame.failure, frame.cause, cause_kind),
            CallKind::Thrift => u16::from(frame.failure != Failure::None),
            _ if frame.failure == Failure::None => self.operations[call.operation as usize].success,
            _ => http_status(frame, self.services[call.to as usize].kind, cause_kind),
        }
    }
}

fn http_status(frame: &Frame, service: system::Kind, cause_kind: Option<CallKind>) -> u16 {
    match (frame.failure, service, frame.cause) {
        (Failure::Upstream, system::Kind::Gateway, Some(cause)) if cause_kind == Some(CallKind::Http) => {
            match (cause.status, cause.failure) {
                (0, Failure::Timeout) => 504,
                (0, _) => 502,
                (status, _) => status,
            }
        }
        _ => 500,
    }
}

/// gRPC's numbers: 1 cancelled, 2 unknown (an error without a status), 13 internal. A status from further down is passed
/// on as it is.
fn grpc_status(failure: Failure, cause: Option<Cause>, cause_kind: Option<CallKind>) -> u16 {
    match (failure, cause, cause_kind) {
        (Failure::None, ..) => 0,
        (Failure::Cancelled, ..) => 1,
        (Failure::Upstream, Some(cause), Some(CallKind::Grpc)) => cause.status,
        (Failure::Upstream, ..) => 13,
        _ => 2,
    }
}
