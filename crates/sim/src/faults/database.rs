//! Faults on statements inside the client's driver: the database does not see what is thrown there.

use fault::{Effect, Target};
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::gate::{Driver, Set};
use crate::plan::{CallKind, OperationId};
use crate::witness::Holds;
use crate::world::World;

use super::wrong_target;

/// What the driver throws.
const EXCEPTION: &str = "java.sql.SQLException";

#[derive(Debug, Clone)]
enum What {
    Hold(Time),
    Throw(String),
}

/// One service's statements on one table are held up, or end with an exception.
pub struct OnStatement {
    slots: Vec<u16>,
    operations: Vec<OperationId>,
    what: What,
}

impl OnStatement {
    /// `None` for effects of other families.
    pub fn new(world: &World, target: &Target, effect: &Effect) -> Result<Option<Self>, Problem> {
        let what = match effect {
            Effect::JvmMysqlLatency { delay_ms, .. } => What::Hold(Time::from(*delay_ms) * MILLI),
            Effect::JvmMysqlException { message, .. } => What::Throw(message.clone()),
            _ => return Ok(None),
        };
        let Target::Table { service, database, table, operation: verb, .. } = target else {
            return Err(wrong_target("a table"));
        };
        let id = world.service_named(service)?;
        let matches = world.plan.operations.iter().enumerate().filter(|(_, operation)| {
            operation.kind == CallKind::Sql
                && operation.service == id
                && operation.database == *database
                && operation.route == *table
                && verb.covers(&operation.method.to_lowercase())
        });
        let operations = matches.map(|(at, _)| at as OperationId).collect();
        Ok(Some(Self { slots: world.pods_to_hit(service)?, operations, what }))
    }
}

impl Mechanism for OnStatement {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        let what = match &self.what {
            What::Hold(by) => Driver::Hold(*by),
            What::Throw(message) => Driver::Throw(world.recorder.throwable(EXCEPTION, message)),
        };
        let holds = Holds::processes(world, &self.slots);
        for &operation in &self.operations {
            let (number, meter, holds) = (tag.number, tag.meter, holds.clone());
            world.gates[operation as usize].driver.push(Set { number, meter, holds, what });
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            world.gates[operation as usize].clear(tag.number);
        }
    }
}
