//! Capabilities and points, as the one table and the system's data give them.

use ::fault::{Capability as Row, Domain, Filter, Param, Presence};
use api::Page;
use api::fault::{Capability, Field, Point, PointQuery, Truth, WitnessRule};
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
        let filter = Filter {
            service: query.service.as_deref(),
            capability: query.capability.as_deref(),
            on_path: query.on_path.unwrap_or_default(),
            ..Filter::default()
        };
        let points = ::fault::points(&data, &filter)?;
        page_of(api::PageQuery { page: query.page, size: query.size }, points, point)
    }

    /// # Errors
    /// `point.id_malformed`, `point.unknown`, `system.unknown`, `system.no_simulation_data`.
    pub fn point(&self, id: &str) -> Result<Point> {
        self.find_point(id).map(point)
    }

    /// The point of an id, in whatever system it is.
    pub(super) fn find_point(&self, id: &str) -> Result<::fault::Point> {
        let system = ::fault::system_of_point(id).ok_or_else(|| {
            Problem::new(ErrorKind::Invalid, "point.id_malformed", "this is not a point's id")
                .place("point")
                .found(format!("`{id}`"))
                .expected("a system's code, `-` and 12 hexadecimal digits, for example `ts-7f3a9c2e41b0`")
                .fix("see `aegisctl point list --system CODE`")
        })?;
        ::fault::point(&*self.catalog().get(&system)?, id)
    }

    fn capability_of(&self, row: &Row) -> Capability {
        let refused = self.carried(row.name).err();
        let described = ::fault::describe(row);
        Capability {
            id: i32::from(row.id),
            name: row.name.to_owned(),
            chaos_type: row.chaos_type.to_owned(),
            family: row.family.as_str().to_owned(),
            summary: row.summary.to_owned(),
            target_kind: text_of(&row.target),
            target: target_fields(row),
            params: row.params.iter().map(param_field).collect(),
            requires: row.requires.iter().map(text_of).collect(),
            length: text_of(&row.length),
            acts_on: text_of(&row.acts_on),
            truth: Truth {
                peer: row.truth.peer,
                metric: row.truth.metric.map(str::to_owned),
                function: row.truth.function,
                span: row.truth.span,
            },
            witness: WitnessRule {
                unit: row.witness.unit.as_str().to_owned(),
                min_share: row.witness.min_share,
                min_count: row.witness.min_count,
                why: row.witness.why.to_owned(),
            },
            contract: described["contract"].clone(),
            chaos_kind: row.object.kind.to_owned(),
            object: described["object"].clone(),
            simulated: row.simulated,
            available: refused.is_none(),
            reason: refused.map(|problem| problem.message),
        }
    }
}

fn point(point: ::fault::Point) -> Point {
    Point {
        id: point.id,
        system: point.system.to_string(),
        service: point.service,
        capability: point.capability.to_owned(),
        family: point.family.as_str().to_owned(),
        target: point.target.into_iter().map(|(key, value)| (key, Value::from(value))).collect(),
        inferred: point.inferred,
        on_path: point.on_path,
        simulated: point.simulated,
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
