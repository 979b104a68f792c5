//! The detector's decision on whole packs.

use model::Verdict;
use rca::detector::{Category, Conclusion, Detector, EntranceRule, PathTemplate, Profile};
use rca::frame::SpanStatus;

use crate::packs::{Call, Maker, call};

fn judge(maker: &Maker) -> Conclusion {
    let profile = Profile { entrance: "front".to_owned(), ..Profile::default() };
    Detector::new(profile).unwrap().judge(&maker.pack)
}

fn usual() -> Maker {
    let mut maker = Maker::new(60, 60, &["front", "orders"]);
    maker.traces(0.0, 60.0, 100, call("front", "GET /orders", 0.1), &[call("orders", "list", 0.05)]);
    maker
}

#[test]
fn an_unchanged_system_is_no_anomaly() {
    let mut maker = usual();
    maker.traces(60.0, 120.0, 100, call("front", "GET /orders", 0.11), &[call("orders", "list", 0.05)]);
    let conclusion = judge(&maker);
    assert_eq!(conclusion.verdict, Verdict::NoAnomaly, "{conclusion:?}");
    assert_eq!(conclusion.entrance.unwrap().rule, EntranceRule::EntranceService);
    assert!(conclusion.rows[0].issues.is_empty());
    assert_eq!(conclusion.rows[0].category, Category::NoIssues);
}

#[test]
fn slow_and_failing_endpoints_are_an_anomaly_with_evidence() {
    let mut maker = usual();
    let failed = Call { http: 503, ..call("front", "GET /orders", 0.4) };
    maker.traces(60.0, 120.0, 50, call("front", "GET /orders", 0.4), &[]);
    maker.traces(60.0, 120.0, 50, failed, &[]);
    let conclusion = judge(&maker);
    assert_eq!(conclusion.verdict, Verdict::Anomaly);
    let row = &conclusion.rows[0];
    assert_eq!(row.category, Category::BothLatencyAndSuccessRate);
    assert_eq!(row.issues["avg_duration"]["detection_method"], "relative_ratio");
    assert!((row.issues["avg_duration"]["absolute_change"].as_f64().unwrap() - 0.3).abs() < 1e-9);
    assert!(row.issues["succ_rate"]["p_value"].as_f64().unwrap() < 1e-6);
    assert!(conclusion.evidence.iter().any(|text| text.starts_with("GET /orders: success rate 0.500 against 1.000")));
}

#[test]
fn without_an_http_status_only_an_error_is_a_failure() {
    let mut maker = Maker::new(60, 60, &["front"]);
    let bare = Call { http: 0, ..call("front", "Checkout", 0.1) };
    maker.traces(0.0, 60.0, 60, bare, &[]);
    maker.traces(60.0, 120.0, 60, Call { status: SpanStatus::Error, ..bare }, &[]);
    let conclusion = judge(&maker);
    assert_eq!(conclusion.verdict, Verdict::Anomaly);
    assert_eq!(conclusion.rows[0].category, Category::SuccessRateOnly);
}

#[test]
fn the_entrance_of_the_normal_window_holds_for_both() {
    // The load generator falls silent in the abnormal window while the front service still has background work of its
    // own; choosing anew there would compare two different things.
    let mut maker = Maker::new(60, 60, &["front"]);
    maker.traces(0.0, 60.0, 60, call("loadgenerator", "GET /", 0.1), &[]);
    maker.traces(0.0, 120.0, 60, call("front", "refresh", 0.01), &[]);
    let conclusion = judge(&maker);
    assert_eq!(conclusion.verdict, Verdict::Anomaly);
    assert_eq!(conclusion.entrance.as_ref().unwrap().rule, EntranceRule::LoadGenerator);
    assert_eq!(conclusion.rows.len(), 1);
    assert_eq!(conclusion.rows[0].issues["entrance_unreachable"]["normal_spans"], 60);
}

#[test]
fn endpoints_that_come_and_go_are_told() {
    let mut maker = usual();
    maker.traces(0.0, 60.0, 20, call("front", "GET /gone", 0.1), &[]);
    maker.traces(0.0, 60.0, 9, call("front", "GET /rare", 0.1), &[]);
    maker.traces(60.0, 120.0, 100, call("front", "GET /orders", 0.1), &[]);
    maker.traces(60.0, 120.0, 20, call("front", "GET /new", 4.0), &[]);
    let conclusion = judge(&maker);
    let names: Vec<&str> = conclusion.rows.iter().map(|row| row.span_name.as_str()).collect();
    assert_eq!(names, ["GET /gone", "GET /new", "GET /orders"], "nine requests are too few to be missed");
    assert_eq!(conclusion.rows[0].issues["endpoint_disappeared"]["normal_count"], 20);
    assert_eq!(conclusion.rows[1].issues["avg_duration"]["threshold"], 3.0);
    assert!(conclusion.rows[1].issues["avg_duration"]["change_rate"].is_null());
}

#[test]
fn too_little_data_is_never_no_anomaly() {
    let check = |maker: Maker, expect| {
        let conclusion = judge(&maker);
        assert_eq!(conclusion.verdict, expect, "{conclusion:?}");
    };
    // Nothing at all; too few requests; too few in the abnormal window; a window too short.
    check(Maker::new(60, 60, &[]), Verdict::NoData);
    let mut few = Maker::new(60, 60, &[]);
    few.traces(0.0, 120.0, 12, call("front", "GET /", 0.1), &[]);
    check(few, Verdict::InsufficientData);
    let mut fading = usual();
    fading.traces(60.0, 120.0, 3, call("front", "GET /orders", 0.1), &[]);
    check(fading, Verdict::InsufficientData);
    let mut short = Maker::new(20, 20, &[]);
    short.traces(0.0, 40.0, 200, call("front", "GET /", 0.1), &[]);
    check(short, Verdict::InsufficientData);
    // Many endpoints with two requests each carry no judgement either.
    let mut thin = Maker::new(60, 60, &[]);
    for index in 0..50 {
        let name = format!("GET /{index}");
        thin.traces(0.0, 60.0, 2, call("front", &name, 0.1), &[]);
        thin.traces(60.0, 120.0, 2, call("front", &name, 0.1), &[]);
    }
    check(thin, Verdict::InsufficientData);
}

#[test]
fn templates_fold_names_and_a_malformed_one_is_refused() {
    let template =
        |pattern: &str| vec![PathTemplate { pattern: pattern.to_owned(), replacement: "orders/{id}".to_owned() }];
    let profile =
        Profile { entrance: "front".to_owned(), path_templates: template("orders/[^/ ]+"), ..Profile::default() };
    let mut maker = Maker::new(60, 60, &[]);
    for index in 0..40 {
        let name = format!("GET /orders/{index}");
        maker.trace(f64::from(index), call("front", &name, 0.1), &[]);
        maker.trace(60.0 + f64::from(index), call("front", &name, 0.1), &[]);
    }
    let conclusion = Detector::new(profile.clone()).unwrap().judge(&maker.pack);
    assert_eq!(conclusion.verdict, Verdict::NoAnomaly);
    assert_eq!(conclusion.rows[0].span_name, "GET /orders/{id}");
    let problem = Detector::new(Profile { path_templates: template("orders/["), ..profile }).unwrap_err();
    assert_eq!(problem.code, "detector.template_malformed");
}

#[test]
fn conclusions_survive_the_way_between_processes() {
    let mut maker = usual();
    maker.traces(60.0, 120.0, 100, call("front", "GET /orders", 2.5), &[]);
    let conclusion = judge(&maker);
    let text = serde_json::to_string(&conclusion).unwrap();
    assert_eq!(serde_json::from_str::<Conclusion>(&text).unwrap(), conclusion);
}
