//! Projects, data sets and evaluations: what groups results.

use model::{DatasetId, ErrorKind, EvaluationId, InjectionId, Problem, ProjectId, Result, WallTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{json, to_json};
use crate::entity;
use crate::failure::{Failure, Work, is_duplicate};
use crate::missing::not_found;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    pub description: String,
    pub created_at: WallTime,
}

/// A named, versioned set of datapacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    pub id: DatasetId,
    pub name: String,
    pub version: String,
    pub description: String,
    pub members: Vec<InjectionId>,
    pub created_at: WallTime,
}

/// A score over many executions, as it was computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub id: EvaluationId,
    pub project: ProjectId,
    pub name: String,
    /// What was evaluated, and how: JSON.
    pub definition: Value,
    pub result: Value,
    pub created_at: WallTime,
}

impl Project {
    fn read(row: entity::project::Model) -> Self {
        let (id, created_at) = (ProjectId(row.id), WallTime(row.created_at));
        Self { id, name: row.name, description: row.description, created_at }
    }
}

impl Store {
    /// Every project, oldest first.
    pub async fn projects(&self) -> Result<Vec<Project>> {
        let rows = entity::project::Entity::find().order_by_asc(entity::project::Column::Id).all(self.reader()).await;
        Ok(rows.map_err(Failure::from)?.into_iter().map(Project::read).collect())
    }

    /// The project of this name.
    ///
    /// # Errors
    /// `project.unknown`, with the nearest name.
    pub async fn project(&self, name: &str) -> Result<Project> {
        let projects = self.projects().await?;
        match projects.iter().position(|project| project.name == name) {
            Some(place) => Ok(projects.into_iter().nth(place).expect("the place was found in this list")),
            None => {
                let names: Vec<&str> = projects.iter().map(|project| project.name.as_str()).collect();
                Err(Problem::unknown("project.unknown", "project", name, names.iter().copied()))
            }
        }
    }

    /// The project of this number.
    ///
    /// # Errors
    /// `project.unknown`.
    pub async fn project_numbered(&self, id: ProjectId) -> Result<Project> {
        let row = entity::project::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        Ok(Project::read(row.ok_or_else(|| not_found("project.unknown", "project", id))?))
    }

    /// A new project.
    ///
    /// # Errors
    /// `project.exists`.
    pub async fn add_project(&self, name: &str, description: &str) -> Result<Project> {
        let taken = || {
            Problem::new(ErrorKind::Conflict, "project.exists", "the project exists already")
                .found(format!("`{name}`"))
                .fix("use it, or take another name")
        };
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::project::Model {
                    id: 0,
                    name: name.to_owned(),
                    description: description.to_owned(),
                    created_at: WallTime::now().0,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                let id = match entity::project::Entity::insert(row).exec(tx).await {
                    Ok(inserted) => inserted.last_insert_id,
                    Err(error) if is_duplicate(&error) => return Err(taken().into()),
                    Err(error) => return Err(error.into()),
                };
                let row = entity::project::Entity::find_by_id(id).one(tx).await?;
                Ok(Project::read(row.ok_or_else(|| crate::failure::lost("project"))?))
            })
        })
        .await
    }

    /// The project of this name, made when it is not there.
    pub async fn ensure_project(&self, name: &str, description: &str) -> Result<Project> {
        use entity::project::Column;
        let find = || entity::project::Entity::find().filter(Column::Name.eq(name));
        if let Some(row) = find().one(self.reader()).await.map_err(Failure::from)? {
            return Ok(Project::read(row));
        }
        self.write(|tx, _| {
            Box::pin(async move {
                if let Some(row) = find().one(tx).await? {
                    return Ok(Project::read(row));
                }
                let row = entity::project::Model {
                    id: 0,
                    name: name.to_owned(),
                    description: description.to_owned(),
                    created_at: WallTime::now().0,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                match entity::project::Entity::insert(row).exec(tx).await {
                    Err(error) if !is_duplicate(&error) => return Err(error.into()),
                    _ => {}
                }
                let row = find().one(tx).await?;
                Ok(Project::read(row.ok_or_else(|| crate::failure::lost("project"))?))
            })
        })
        .await
    }

    /// Stores a data set.
    ///
    /// # Errors
    /// `dataset.exists` when the name and version are taken.
    pub async fn add_dataset(
        &self,
        name: &str,
        version: &str,
        description: &str,
        members: &[InjectionId],
    ) -> Result<DatasetId> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::dataset::Model {
                    id: 0,
                    name: name.to_owned(),
                    version: version.to_owned(),
                    description: description.to_owned(),
                    created_at: WallTime::now().0,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                let id = match entity::dataset::Entity::insert(row).exec(tx).await {
                    Ok(inserted) => inserted.last_insert_id,
                    Err(error) if is_duplicate(&error) => {
                        let problem =
                            Problem::new(ErrorKind::Conflict, "dataset.exists", "the data set exists already");
                        return Err(problem.found(format!("`{name}` {version}")).fix("use a new version").into());
                    }
                    Err(error) => return Err(error.into()),
                };
                for part in members.chunks(400) {
                    let rows = part.iter().map(|member| {
                        entity::dataset_member::Model { dataset_id: id, injection_id: member.0 }.into_active_model()
                    });
                    entity::dataset_member::Entity::insert_many(rows).exec_without_returning(tx).await?;
                }
                Ok(DatasetId(id))
            })
        })
        .await
    }

    /// Every data set with its members, oldest first.
    pub async fn datasets(&self) -> Result<Vec<Dataset>> {
        use entity::dataset_member::Column;
        let rows = entity::dataset::Entity::find().order_by_asc(entity::dataset::Column::Id).all(self.reader()).await;
        let mut datasets = Vec::new();
        for row in rows.map_err(Failure::from)? {
            let members = entity::dataset_member::Entity::find()
                .filter(Column::DatasetId.eq(row.id))
                .order_by_asc(Column::InjectionId)
                .all(self.reader())
                .await
                .map_err(Failure::from)?;
            datasets.push(Dataset {
                id: DatasetId(row.id),
                name: row.name,
                version: row.version,
                description: row.description,
                members: members.into_iter().map(|member| InjectionId(member.injection_id)).collect(),
                created_at: WallTime(row.created_at),
            });
        }
        Ok(datasets)
    }

    /// Keeps an evaluation as it was computed.
    pub async fn add_evaluation(
        &self,
        project: ProjectId,
        name: &str,
        definition: &Value,
        result: &Value,
    ) -> Result<EvaluationId> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::evaluation::Model {
                    id: 0,
                    project_id: project.0,
                    name: name.to_owned(),
                    definition: to_json(definition),
                    result: to_json(result),
                    created_at: WallTime::now().0,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                Ok(EvaluationId(entity::evaluation::Entity::insert(row).exec(tx).await?.last_insert_id))
            })
        })
        .await
    }

    /// One evaluation.
    ///
    /// # Errors
    /// `evaluation.unknown`.
    pub async fn evaluation(&self, id: EvaluationId) -> Result<Evaluation> {
        let row = entity::evaluation::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        let row = row.ok_or_else(|| not_found("evaluation.unknown", "evaluation", id))?;
        let parts: Work<(Value, Value)> =
            json("definition", &row.definition).and_then(|definition| Ok((definition, json("result", &row.result)?)));
        let (definition, result) = parts?;
        let created_at = WallTime(row.created_at);
        Ok(Evaluation { id, project: ProjectId(row.project_id), name: row.name, definition, result, created_at })
    }
}
