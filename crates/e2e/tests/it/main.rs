//! Whole-product tests: `aegis` and `aegisctl` as programs, and nothing of ours in between.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad_input;
mod bad_start;
mod batch;
mod charts;
mod child;
mod consumers;
mod contracts;
mod control;
mod crash;
mod damage;
mod demo;
mod determinism;
mod disk;
mod doctor;
mod doctor_charts;
mod doctor_telemetry;
mod doctor_world;
mod evaluation;
mod external;
mod gone;
mod imported;
mod journey;
mod kill_switch;
mod leak;
mod metadata;
mod metrics_path;
mod ninth;
mod otel_check;
mod otel_render;
mod otlp;
mod otlp_collector;
mod pack;
mod paired;
mod real_seed;
mod registration;
mod round;
mod routes;
mod sdk;
mod seed;
mod stream;
mod tools;
mod truth;
mod world;
