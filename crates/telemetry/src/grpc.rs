//! The OTLP receiver over gRPC.
