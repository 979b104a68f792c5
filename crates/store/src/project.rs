//! Projects: what runs and evaluations belong to.

use model::{ErrorKind, Problem, ProjectId, Result, WallTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};

use crate::connect::Store;
use crate::entity;
use crate::failure::{Failure, is_duplicate};
use crate::missing::not_found;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    pub description: String,
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
}
