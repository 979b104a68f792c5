//! The table as JSON, for user interfaces and documentation.

use serde_json::{Value, json};

use crate::{Capability, Domain, Length, Literal, Param, Presence, capabilities};

/// Every row with its target keys, parameters, needs, object, ground truth and witness.
pub fn schema() -> Value {
    json!({ "format": 1, "capabilities": capabilities().iter().map(describe).collect::<Vec<_>>() })
}

/// One row with everything that the table says.
pub fn describe(capability: &Capability) -> Value {
    json!({
        "id": capability.id,
        "name": capability.name,
        "chaos_type": capability.chaos_type,
        "family": capability.family,
        "summary": capability.summary,
        "target": { "kind": capability.target, "fields": capability.target.fields() },
        "params": capability.params.iter().map(param).collect::<Vec<_>>(),
        "requires": capability.requires,
        "length": match capability.length { Length::OneShot => "one_shot", Length::Window => "window" },
        "object": capability.object,
        "acts_on": capability.acts_on,
        "simulated": capability.simulated,
        "truth": capability.truth,
        "witness": capability.witness,
        "contract": capability.contract,
    })
}

fn param(param: &Param) -> Value {
    let mut form = json!({
        "name": param.name,
        "unit": param.unit,
        "required": param.presence == Presence::Required,
        "doc": param.doc,
        "expected": param.expected(),
    });
    match param.domain {
        Domain::Integer { min, max } | Domain::NonZero { min, max } => {
            form["type"] = json!("integer");
            form["min"] = json!(min);
            form["max"] = json!(max);
            form["zero"] = json!(min <= 0 && max >= 0 && matches!(param.domain, Domain::Integer { .. }));
        }
        Domain::Choice(choices) => {
            form["type"] = json!("choice");
            form["choices"] = json!(choices);
        }
        Domain::Text { max } => {
            form["type"] = json!("text");
            form["max_length"] = json!(max);
        }
    }
    if let Presence::Default(default) = param.presence {
        form["default"] = match default {
            Literal::Integer(number) => json!(number),
            Literal::Text(text) => json!(text),
        };
    }
    if let Some(name) = param.public_name {
        form["public_name"] = json!(name);
    }
    form
}
