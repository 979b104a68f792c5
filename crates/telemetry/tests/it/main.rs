//! Behaviour of the signal store and of its receiver.

mod fixture;
mod grpc;
mod ingest;
mod reads;
mod steps;
