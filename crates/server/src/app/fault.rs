//! Capabilities and points, as the one table and the system's data give them.

use ::fault::{Capability as Row, Domain, Filter, Param, Presence};
use api::Page;
use api::fault::{Capability, Field, Point, PointQuery};
use model::{ErrorKind, Problem, Result, SystemCode};
use serde_json::Value;

use super::{App, page_of};

impl App {
    /// Every capability; `available` says whether this cluster carries it.
    pub fn capabilities(&self) -> Vec<Capability> {
        ::fault::capabilities().iter().map(|row| self.capability_of(row)).collect()
    }

    /// # Errors
    /// `capability.unknown`, with the nearest name.
    pub fn capability(&self, name: &str) -> Result<Capability> {
        Ok(self.capability_of(::fault::capability(name)?))
    }

    /// # Errors
    /// `system.unknown`, `system.no_simulation_data`, `service.unknown`, `capability.unknown`.
    pub fn points(&self, system: &str, query: &PointQuery) -> Result<Page<Point>> {
        let data = self.catalog().get(&SystemCode::parse(system)?)?;
        let filter =
            Filter { service: query.service.as_deref(), capability: query.capability.as_deref(), ..Filter::default() };
        let points = ::fault::points(&data, &filter)?;
        page_of(api::PageQuery { page: query.page, size: query.size }, points, |point| Point {
            id: point.id,
            system: point.system.to_string(),
            service: point.service,
            capability: point.capability.to_owned(),
            target: serde_json::to_value(point.target).unwrap_or(Value::Null),
        })
    }

    fn capability_of(&self, row: &Row) -> Capability {
        let refused = self.carried(row.name).err();
        Capability {
            id: i32::from(row.id),
            name: row.name.to_owned(),
            family: row.family.as_str().to_owned(),
            summary: row.summary.to_owned(),
            requires: row.requires.iter().map(text_of).collect(),
            target: target_fields(row),
            params: row.params.iter().map(param_field).collect(),
            chaos_kind: row.object.kind.to_owned(),
            available: refused.is_none(),
            reason: refused.map(|problem| problem.message),
        }
    }
}

impl App {
    /// Whether the cluster carries a capability out on a system that it can run.
    fn carried(&self, capability: &str) -> Result<()> {
        let runs = |code: &&SystemCode| self.cluster().can_run(code).is_ok();
        match self.catalog().codes().find(runs) {
            Some(system) => Ok(self.cluster().can_inject(system, capability)?),
            None => Err(Problem::new(ErrorKind::Missing, "cluster.runs_nothing", "the cluster can run no system")),
        }
    }
}

/// The word that the table's enumeration serialises to.
fn text_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        other => format!("{other:?}"),
    }
}

fn target_fields(row: &Row) -> Vec<Field> {
    let fields = row.target.fields().iter().map(|field| Field {
        name: field.name.to_owned(),
        kind: "text".to_owned(),
        // A key may be left out when the others leave one choice.
        required: false,
        unit: None,
        default: None,
        minimum: None,
        maximum: None,
        values: Vec::new(),
        description: field.doc.to_owned(),
    });
    fields.collect()
}

#[expect(clippy::cast_precision_loss, reason = "bounds of parameters are far below 2^52")]
fn param_field(param: &Param) -> Field {
    let (kind, minimum, maximum, values) = match param.domain {
        Domain::Integer { min, max } | Domain::NonZero { min, max } => ("integer", Some(min), Some(max), &[][..]),
        Domain::Choice(choices) => ("choice", None, None, choices),
        Domain::Text { .. } => ("text", None, None, &[][..]),
    };
    let unit = param.unit.symbol();
    Field {
        name: param.name.to_owned(),
        kind: kind.to_owned(),
        required: param.presence == Presence::Required,
        unit: (!unit.is_empty()).then(|| unit.to_owned()),
        default: match param.presence {
            Presence::Default(literal) => Some(literal.into()),
            Presence::Required | Presence::Optional => None,
        },
        minimum: minimum.map(|bound| bound as f64),
        maximum: maximum.map(|bound| bound as f64),
        values: values.iter().map(|&value| value.to_owned()).collect(),
        description: format!("{}: {}", param.doc, param.expected()),
    }
}
