//! What is known of a datapack's difficulty before any algorithm runs: what the detector saw, and the paired control.

use std::collections::BTreeMap;

use model::{ExecutionId, ExecutionState, InjectionId, Result, RunId};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use crate::connect::Store;
use crate::convert::{json, uuid};
use crate::entity;
use crate::execution::{DetectorRow, Role};
use crate::failure::{Failure, Work};

impl Store {
    /// The paired controls that have a datapack row, by the run that each belongs to.
    pub async fn controls(&self, origin_kind: &str) -> Result<BTreeMap<RunId, InjectionId>> {
        use entity::run::Column;
        let rows: Vec<(String, i32)> = entity::run::Entity::find()
            .select_only()
            .columns([Column::ControlOf, Column::InjectionId])
            .filter(Column::OriginKind.eq(origin_kind))
            .filter(Column::ControlOf.is_not_null())
            .filter(Column::InjectionId.is_not_null())
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |(run, injection): (String, i32)| Ok((RunId(uuid(&run)?), InjectionId(injection)));
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// What the detector saw at the entrances of each of these datapacks as they are now.
    pub async fn detector_findings(
        &self,
        injections: &[InjectionId],
    ) -> Result<BTreeMap<InjectionId, Vec<DetectorRow>>> {
        let mut findings: BTreeMap<InjectionId, Vec<DetectorRow>> = BTreeMap::new();
        for part in injections.chunks(400) {
            // The newest of a datapack comes last.
            let of: BTreeMap<InjectionId, ExecutionId> =
                self.detections(part).await?.into_iter().map(|(id, injection)| (injection, id)).collect();
            let by_execution: BTreeMap<i32, InjectionId> =
                of.iter().map(|(injection, id)| (id.0, *injection)).collect();
            for row in self.detector_lines(of.values()).await? {
                let injection = by_execution[&row.execution_id];
                findings.entry(injection).or_default().push(read(row)?);
            }
        }
        Ok(findings)
    }

    async fn detector_lines(
        &self,
        executions: impl Iterator<Item = &ExecutionId>,
    ) -> Result<Vec<entity::detector_row::Model>> {
        use entity::detector_row::Column;
        let rows = entity::detector_row::Entity::find()
            .filter(Column::ExecutionId.is_in(executions.map(|id| id.0)))
            .order_by_asc(Column::ExecutionId)
            .order_by_asc(Column::Line)
            .all(self.reader())
            .await;
        Ok(rows.map_err(Failure::from)?)
    }

    async fn detections(&self, injections: &[InjectionId]) -> Result<Vec<(ExecutionId, InjectionId)>> {
        use entity::execution::Column;
        let rows: Vec<(i32, i32)> = entity::execution::Entity::find()
            .select_only()
            .columns([Column::Id, Column::InjectionId])
            .filter(Column::InjectionId.is_in(injections.iter().map(|id| id.0)))
            .filter(Column::Role.eq(Role::Detector.as_str()))
            .filter(Column::State.eq(ExecutionState::Success.code()))
            .filter(Column::SupersededAt.is_null())
            .order_by_asc(Column::Id)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(|(id, injection)| (ExecutionId(id), InjectionId(injection))).collect())
    }
}

fn read(row: entity::detector_row::Model) -> Work<DetectorRow> {
    let issues = json("detector's issues", &row.issues)?;
    Ok(DetectorRow { span_name: row.span_name, issues, figures: json("detector's figures", &row.figures)? })
}
