//! A configuration as it may be shown: every key, and no password.

use super::{Config, IN_STORE, WatchedSeed};

impl Config {
    /// What is in force, one key a line, with no password in it.
    pub fn shown(&self) -> String {
        let or = |value: Option<String>, default: &str| value.unwrap_or_else(|| default.to_owned());
        let lines = [
            ("data", self.data.display().to_string()),
            ("listen", self.listen.to_string()),
            ("otlp_grpc", or(self.otlp_grpc.map(|address| address.to_string()), "not received")),
            ("otlp_http", or(self.otlp_http.map(|address| address.to_string()), "not received")),
            ("otlp_past_hours", self.otlp_past_hours.to_string()),
            ("otlp_future_minutes", self.otlp_future_minutes.to_string()),
            ("telemetry_hours", self.telemetry_hours.to_string()),
            ("telemetry_gib", self.telemetry_gib.to_string()),
            ("telemetry", or(self.telemetry.as_deref().map(store::redacted), "a collector sends it to this server")),
            ("store", or(self.store.as_deref().map(store::redacted), "SQLite in the data folder")),
            ("settings", redacted_settings(&self.settings)),
            ("charts", or(self.charts.clone(), "in the data folder")),
            ("helm", or(self.helm.as_ref().map(|program| program.display().to_string()), "the first on PATH")),
            ("chart_seconds", self.chart_seconds.to_string()),
            ("mirror", mirrors(&self.mirror)),
            ("repository", logins(&self.repository)),
            ("seed", seed(self.seed.as_ref())),
            ("nodes", format!("platforms: {}", named(&self.nodes.platforms, "nobody said"))),
            ("answer_seconds", self.answer_seconds.to_string()),
            ("workers", self.workers.to_string()),
            ("systems", or(self.systems.as_ref().map(|folder| folder.display().to_string()), "the built-in ones")),
            ("algorithm_seconds", self.algorithm_seconds.to_string()),
            ("algorithm_memory_mib", self.algorithm_memory_mib.to_string()),
        ];
        lines.iter().map(|(key, value)| format!("{key:<20} {value}\n")).collect()
    }
}

fn named(names: &[String], none: &str) -> String {
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

fn mirrors(rules: &[chart::Mirror]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("{} -> {}", rule.from, rule.to)).collect();
    named(&rules, "no rules")
}

fn logins(logins: &[chart::Login]) -> String {
    named(&logins.iter().map(chart::Login::shown).collect::<Vec<_>>(), "no logins")
}

fn seed(seed: Option<&WatchedSeed>) -> String {
    let shown = |seed: &WatchedSeed| format!("{} (auto: {})", seed.folder.display(), seed.auto.as_str());
    seed.map_or_else(|| "none is watched".to_owned(), shown)
}

fn redacted_settings(settings: &str) -> String {
    if settings == IN_STORE { "in the store alone".to_owned() } else { store::redacted(settings) }
}
