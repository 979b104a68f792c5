//! Behaviour of the signal store and its receiver.
