//! How a call ends for its caller: with an answer, without one, by its clock, or because the caller is called off itself.

use super::calling::without_answer;
use super::{Caller, Cause, Failure, Phase, Ref, salt};
use crate::link::Flight;
use crate::plan::CallKind;
use crate::rng::join;
use crate::world::{Event, World};

/// A frame that resets a stream, with its headers.
const RESET_BYTES: u32 = 64;

impl World {
    /// The caller has the answer, or knows that there will be none.
    pub(crate) fn returned(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if frame.client_open {
            self.recorder.called(now, frame);
            self.give_back(at);
            self.tell(at);
        }
        self.frames.remove(at);
    }

    /// The caller's patience ended. What happens at the callee goes on, unless the protocol calls it off.
    pub(crate) fn impatient(&mut self, at: Ref) {
        if self.frames.get(at).is_some_and(|frame| frame.client_open) {
            self.close(at, Failure::Timeout);
            self.tell(at);
            self.let_go(at);
        }
    }

    /// The caller does not want the answer any more.
    fn abandon(&mut self, at: Ref) {
        if self.frames.get(at).is_some_and(|frame| frame.client_open) {
            self.close(at, Failure::Cancelled);
            self.let_go(at);
        }
    }

    /// Ends the caller's side without an answer.
    fn close(&mut self, at: Ref, failure: Failure) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let kind = self.plan.calls[frame.asked() as usize].kind;
        (frame.outcome, frame.status) = (failure, without_answer(kind, failure));
        let planned = frame.phase == Phase::Planned;
        let pooled = frame.phase == Phase::Pooled;
        if !planned {
            self.recorder.called(now, frame);
        }
        if pooled && let Some(channel) = self.channel(at) {
            channel.pool.give_up(now, at);
        }
        self.give_back(at);
    }

    /// The caller is gone from the call; a callee that works on it is told, if the protocol does that.
    fn let_go(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        (frame.client_open, frame.parent) = (false, None);
        let (phase, key, call) = (frame.phase, frame.key, &self.plan.calls[frame.asked() as usize]);
        let (there, ends) = (call.there, (frame.caller, frame.pod));
        if phase == Phase::Pooled {
            self.frames.remove(at);
        } else if call.kind == CallKind::Grpc && phase != Phase::Returning {
            // A lost reset frame is sent again like any other; one time-out stands for the wait.
            let flight = self.transmit(there, ends, RESET_BYTES, 0, join(key, salt::CANCEL));
            let (Flight::Arrives(after) | Flight::Again(after)) = flight else { return };
            self.events.plan(now + after, Event::Cancel(at));
        }
    }

    /// The callee learns that its work is not wanted any more.
    pub(crate) fn cancelled(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let slot = frame.pod as usize;
        match frame.phase {
            Phase::Queued if self.pods[slot].workers.give_up(now, at) => self.frames.remove(at),
            Phase::Serving => {
                frame.failure = Failure::Cancelled;
                if frame.waits > 0 {
                    frame.waits = 0;
                    let mut next = frame.child.take();
                    while let Some(child) = next {
                        next = self.frames.get(child).and_then(|child| child.sibling);
                        self.abandon(child);
                    }
                    self.finish(at);
                }
            }
            _ => {}
        }
    }

    /// Tells the caller how the call went, or tries again.
    fn tell(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let (id, body, unread) = (frame.asked(), frame.marks.body, self.reading(frame));
        let call = &self.plan.calls[id as usize];
        let unanswered = call.kind.failed(frame.outcome, frame.status);
        let failed = unanswered || unread.is_some();
        let cause = Cause { call: id, failure: unread.unwrap_or(frame.outcome), status: frame.status };
        let (parent, session, key) = (frame.parent, frame.session, frame.key);
        let (looks_up, fills, errand) = (call.looks_up, call.fills.filter(|_| !failed), frame.errand);
        let (fails, sibling, lasted) = (failed && !call.tolerated, frame.sibling, self.events.now() - frame.start);
        if unanswered && self.try_again(at) {
            return;
        }
        let now = self.events.now();
        if let Some(session) = session {
            self.entrance.record(now, lasted, failed);
            self.next_request(session, failed, key);
        }
        if let Some(errand) = errand {
            self.errand_over(errand, !failed);
        }
        let Some(parent) = parent else { return };
        self.unchain(parent, at, sibling);
        if let Some(cache) = looks_up {
            self.ask_cache(parent, cache, !failed);
        }
        if let Some(cache) = fills {
            self.fill(parent, cache);
        }
        let passes_on = self.passes_on(id);
        let Some(waiting) = self.frames.get_mut(parent) else { return };
        if passes_on {
            waiting.marks.body = body;
        }
        if fails {
            (waiting.failure, waiting.cause) = (Failure::Upstream, Some(cause));
        }
        waiting.waits = waiting.waits.saturating_sub(1);
        if waiting.waits == 0 {
            self.work(parent);
        }
    }

    /// Takes a call that is over out of its handling's list.
    fn unchain(&mut self, parent: Ref, at: Ref, sibling: Option<Ref>) {
        let Some(frame) = self.frames.get_mut(parent) else { return };
        if frame.child == Some(at) {
            frame.child = sibling;
            return;
        }
        let mut place = frame.child;
        while let Some(child) = place.and_then(|place| self.frames.get_mut(place)) {
            if child.sibling == Some(at) {
                child.sibling = sibling;
                return;
            }
            place = child.sibling;
        }
    }

    /// Plans another attempt of a failed call, if its caller makes one. A refusal by the callee itself is not repeated.
    fn try_again(&mut self, at: Ref) -> bool {
        let Some(frame) = self.frames.get(at) else { return false };
        let call = &self.plan.calls[frame.asked() as usize];
        let Some(retry) = call.retry.filter(|retry| frame.attempt < retry.times) else { return false };
        let own_fault = call.kind == CallKind::Http && (400..500).contains(&frame.status);
        if own_fault || frame.outcome == Failure::Cancelled {
            return false;
        }
        let attempt = frame.attempt + 1;
        let caller = Caller {
            parent: frame.parent,
            session: frame.session,
            pod: frame.caller,
            key: join(frame.key, salt::RETRY + u64::from(attempt)),
            trace: frame.trace,
            span: frame.parent_span,
        };
        let (id, sibling, errand) = (frame.asked(), frame.sibling, frame.errand);
        let pause = retry.back_off << (attempt - 1).min(20);
        let again = self.plan_call(id, caller);
        if let Some(parent) = caller.parent {
            self.unchain(parent, at, sibling);
            self.chain(parent, again);
        }
        if let Some(frame) = self.frames.get_mut(again) {
            (frame.attempt, frame.errand) = (attempt, errand);
        }
        self.events.plan(self.events.now() + pause, Event::Begin(again));
        true
    }

    /// Puts a call under way into its handling's list.
    pub(super) fn chain(&mut self, parent: Ref, at: Ref) {
        let before = self.frames.get_mut(parent).and_then(|frame| frame.child.replace(at));
        if let Some(frame) = self.frames.get_mut(at) {
            frame.sibling = before;
        }
    }
}
