//! Faults on HTTP messages, made by a proxy in the target's pod.

use model::{ErrorKind, Problem, Result};

use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule,
    WitnessRule, WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Effect, Param, Target, Unit};

const WITNESS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Requests,
    min_share: 0.5,
    min_count: 10,
    why: "the proxy touches every matching request, so less than half means that it was bypassed or came late; \
          from ten requests on a share and a 90th percentile say anything",
    unfelt: "no request passed the endpoint",
};

const REQUEST: Field = Field { path: "target", form: Form::Text("Request") };
const RESPONSE: Field = Field { path: "target", form: Form::Text("Response") };
const ABORT: Field = Field { path: "abort", form: Form::True };
const DELAY: Field = Field { path: "delay", form: Form::Text("{delay_ms}ms") };
const DELAY_MS: Param = Param::integer("delay_ms", Unit::Milliseconds, 1, 60_000, "how long each message is held");

const fn row(id: u8, name: &'static str, chaos_type: &'static str, fields: &'static [Field]) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Http,
        summary: "",
        target: TargetKind::Http,
        params: &[],
        requires: &[Requirement::ServesHttp, Requirement::TransparentProxy],
        length: Length::Window,
        object: ChaosObject { kind: "HTTPChaos", action: None, mode: Mode::All, fields },
        acts_on: Mechanism::Message,
        simulated: true,
        truth: TruthRule { peer: false, metric: None, function: false, span: true },
        witness: WITNESS,
        contract: Contract::NONE,
        check: None,
    }
}

const LATENCY: TruthRule = TruthRule { peer: false, metric: Some("http_latency"), function: false, span: true };

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Closes the connection when a matching request arrives.",
        contract: Contract {
            must: &[Sign::CallsFailAtOnce, Sign::ServerSpansVanish],
            must_not: &[Sign::CallsHang, Sign::ServerSpansFail, Sign::ContainerRestarted],
            why: "the proxy closes the connection before the service sees the request, so the service has nothing \
              to report",
        },
        ..row(5, "http_request_abort", "HTTPRequestAbort", &[REQUEST, ABORT])
    },
    Capability {
        summary: "Lets the service work and closes the connection instead of answering.",
        contract: Contract {
            must: &[Sign::CallsFail],
            must_not: &[Sign::ServerSpansVanish, Sign::ServerSpansFail, Sign::CallsHang],
            why: "the service has done its work and reports a success; only then is the connection closed",
        },
        ..row(6, "http_response_abort", "HTTPResponseAbort", &[RESPONSE, ABORT])
    },
    Capability {
        summary: "Holds a matching request before the service sees it.",
        params: &[DELAY_MS],
        truth: LATENCY,
        contract: Contract {
            must: &[Sign::CallsSlow],
            must_not: &[Sign::ServerSpansSlow, Sign::CallsFail, Sign::CallsFailAtOnce],
            why: "the proxy holds the request in front of the service, whose own time does not change",
        },
        ..row(7, "http_request_delay", "HTTPRequestDelay", &[REQUEST, DELAY])
    },
    Capability {
        summary: "Holds the answer to a matching request.",
        params: &[DELAY_MS],
        truth: LATENCY,
        contract: Contract {
            must: &[Sign::CallsSlow],
            must_not: &[Sign::ServerSpansSlow, Sign::CallsFail, Sign::CallsFailAtOnce],
            why: "the proxy holds the answer behind the service, whose own time does not change",
        },
        ..row(8, "http_response_delay", "HTTPResponseDelay", &[RESPONSE, DELAY])
    },
    Capability {
        summary: "Replaces the body of the answer; a caller that parses it fails.",
        params: &[Param::text(
            "body",
            1024,
            "new body; the default is one blank, because an empty body is dropped from the object and changes nothing",
        )
        .or_text(" ")
        .public("body_type")],
        contract: Contract {
            must: &[Sign::CallersFail],
            must_not: &[Sign::CallsFail, Sign::ServerSpansFail, Sign::ServerSpansVanish],
            why: "status and time stay; a caller that reads the body fails with an error of its own, and one that \
              only passes it on does not",
        },
        ..row(
            9,
            "http_response_replace_body",
            "HTTPResponseReplaceBody",
            &[RESPONSE, Field { path: "replace.body", form: Form::Base64("body") }],
        )
    },
    Capability {
        summary: "Merges a JSON object into the body of the answer.",
        params: &[Param::text("patch_json", 1024, "JSON object whose members replace those of the body")
            .or_text(r#"{"data":null}"#)],
        check: Some(patch_is_json),
        contract: Contract {
            must: &[],
            must_not: &[Sign::CallsFail, Sign::CallsSlow, Sign::ServerSpansFail, Sign::ServerSpansVanish],
            why: "the answer stays an object with its status and in its time; readers do not mind members that they do \
              not know, and most do not read the one that changed, so there are points where nothing can show. \
              Where a caller reads it, its own handling fails",
        },
        ..row(
            10,
            "http_response_patch_body",
            "HTTPResponsePatchBody",
            &[
                RESPONSE,
                Field { path: "patch.body.type", form: Form::Text("JSON") },
                Field { path: "patch.body.value", form: Form::Value("patch_json") },
            ],
        )
    },
    Capability {
        summary: "Sends a matching request to another path of the service.",
        params: &[Param::text("new_path", 512, "path that the service sees instead, without variable segments")],
        check: Some(path_changes),
        contract: Contract {
            must: &[Sign::CallsFail],
            must_not: &[Sign::ServerSpansFail, Sign::CallsHang],
            why: "the service is asked for something else: its framework answers 404 (another of its routes \
              answers as it does), which the caller did not ask for",
        },
        ..row(
            11,
            "http_request_replace_path",
            "HTTPRequestReplacePath",
            &[REQUEST, Field { path: "replace.path", form: Form::Value("new_path") }],
        )
    },
    Capability {
        summary: "Changes the method of a matching request.",
        params: &[Param::choice(
            "new_method",
            &["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"],
            "method that the service sees instead",
        )
        .public("replace_method")],
        check: Some(method_changes),
        contract: Contract {
            must: &[Sign::CallsFail, Sign::ServerRefuses],
            must_not: &[Sign::ServerSpansFail, Sign::CallsHang],
            why: "the service's framework answers 405, or 400 where a body is missing, without asking a handler; \
              where another handler serves the method, that one runs",
        },
        ..row(
            12,
            "http_request_replace_method",
            "HTTPRequestReplaceMethod",
            &[REQUEST, Field { path: "replace.method", form: Form::Value("new_method") }],
        )
    },
    Capability {
        summary: "Replaces the status code of the answer; the body stays.",
        params: &[Param::integer("status_code", Unit::None, 100, 599, "status code that the caller sees")],
        simulated: true,
        contract: Contract {
            must: &[Sign::CallsFail],
            must_not: &[Sign::ServerSpansFail, Sign::ServerSpansVanish, Sign::CallsHang],
            why: "only the status line changes on the way out: the service reports the status that it gave, the \
              caller the other one; a code below 400 is no failure",
        },
        ..row(
            13,
            "http_response_replace_code",
            "HTTPResponseReplaceCode",
            &[RESPONSE, Field { path: "replace.code", form: Form::Value("status_code") }],
        )
    },
];

fn patch_is_json(_: &Target, effect: &Effect) -> Result<()> {
    let Effect::HttpResponsePatchBody { patch_json } = effect else { return Ok(()) };
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(patch_json) {
        Ok(patch) if !patch.is_empty() => Ok(()),
        Ok(_) => Err(no_effect("params.patch_json", "an empty patch changes nothing")),
        Err(error) => Err(Problem::new(ErrorKind::Invalid, "param.malformed", "the patch is not a JSON object")
            .place("params.patch_json")
            .found(format!("`{patch_json}`: {error}"))
            .expected(r#"a JSON object such as `{"data":null}`"#)),
    }
}

fn path_changes(target: &Target, effect: &Effect) -> Result<()> {
    let (Effect::HttpRequestReplacePath { new_path }, Target::Http { path, .. }) = (effect, target) else {
        return Ok(());
    };
    if !new_path.starts_with('/') || new_path.contains(['*', '{', ' ']) {
        return Err(Problem::new(ErrorKind::Invalid, "param.malformed", "the new path is not a concrete path")
            .place("params.new_path")
            .found(format!("`{new_path}`"))
            .expected("a path that starts with `/`, without blanks, `*` or `{name}`"));
    }
    if path.matches(new_path) {
        return Err(no_effect("params.new_path", "the new path is answered like the old one"));
    }
    Ok(())
}

fn method_changes(target: &Target, effect: &Effect) -> Result<()> {
    match (effect, target) {
        (Effect::HttpRequestReplaceMethod { new_method }, Target::Http { method, .. }) if new_method == method => {
            Err(no_effect("params.new_method", "the request has this method already"))
        }
        _ => Ok(()),
    }
}

fn no_effect(place: &str, message: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "param.no_effect", message).place(place).expected("a value that changes something")
}
