//! From a run's stored profile to what the detector and the datapack's validation take.

use model::{Problem, Result};

use api::spec::RunSpec;

fn registration(spec: &RunSpec) -> Result<system::Registration> {
    serde_json::from_value(spec.profile.clone()).map_err(|error| {
        Problem::internal("run.profile_unreadable", "a run's stored profile cannot be read").cause(error)
    })
}

/// What the detector needs to know of the system of a run.
pub fn detector(spec: &RunSpec) -> Result<rca::detector::Profile> {
    Ok(detector_of(&registration(spec)?))
}

/// What the detector needs to know of a system.
pub fn detector_of(registration: &system::Registration) -> rca::detector::Profile {
    use rca::detector::{Limits, PathTemplate, Profile};
    let detector = &registration.profile.detector;
    let limits = detector.new_endpoint_limits_s;
    Profile {
        entrance: registration.entrance.sli_service.clone(),
        load_generators: vec![registration.entrance.load_generator.clone()],
        success_codes: detector.success_codes.clone(),
        relative_ratio: detector.relative_ratio,
        min_absolute_latency_s: detector.min_absolute_latency_s,
        new_endpoint_limits_s: Limits { avg: limits.avg, p90: limits.p90, p95: limits.p95, p99: limits.p99 },
        new_endpoint_success_floor: detector.new_endpoint_success_floor,
        new_endpoint_timeout_s: detector.new_endpoint_timeout_s,
        disappeared_min_count: detector.disappeared_min_count,
        path_templates: registration
            .profile
            .path_templates
            .iter()
            .map(|template| PathTemplate {
                pattern: template.pattern.clone(),
                replacement: template.replacement.clone(),
            })
            .collect(),
        ignored: Vec::new(),
    }
}

/// Which signals the datapack must hold.
pub fn required(spec: &RunSpec) -> Result<datapack::Profile> {
    let registration = registration(spec)?;
    let required = registration.profile.required_signals.iter().map(|signal| {
        datapack::Signal::parse(signal.as_str())
            .ok_or_else(|| Problem::internal("profile.unknown_signal", "a required signal is no file of a datapack"))
    });
    Ok(datapack::Profile { required: required.collect::<Result<_>>()? })
}

/// Services that make requests and are no part of the system: never candidates.
pub fn load_generators(spec: &RunSpec) -> Result<Vec<String>> {
    Ok(vec![registration(spec)?.entrance.load_generator])
}
