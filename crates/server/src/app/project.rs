//! Projects: what groups runs and their results.

use std::collections::HashMap;

use api::project::{Project, ProjectRequest};
use api::{Page, PageQuery};
use model::{ErrorKind, Problem, ProjectId, Result};

use super::{App, page_of};

impl App {
    /// # Errors
    /// `page.out_of_range`.
    pub async fn projects(&self, query: PageQuery) -> Result<Page<Project>> {
        page_of(query, self.store().projects().await?, |stored| project(&stored))
    }

    /// By number, else by name.
    ///
    /// # Errors
    /// `project.unknown`.
    pub async fn project(&self, text: &str) -> Result<Project> {
        Ok(project(&self.find_project(text).await?))
    }

    /// # Errors
    /// `project.exists`, `project.name_malformed`, `project.private`.
    pub async fn add_project(&self, request: &ProjectRequest) -> Result<Project> {
        check_name(&request.name)?;
        if request.is_public == Some(false) {
            let message = "a project cannot be hidden from others who may call";
            return Err(Problem::new(ErrorKind::Invalid, "project.private", message)
                .place("is_public")
                .expected("true"));
        }
        Ok(project(&self.store().add_project(&request.name, &request.description).await?))
    }

    pub(super) async fn find_project(&self, text: &str) -> Result<store::Project> {
        match text.parse() {
            Ok(number) => self.store().project_numbered(ProjectId(number)).await,
            Err(_) => self.store().project(text).await,
        }
    }

    /// The names of all projects by number.
    pub(super) async fn project_names(&self) -> Result<HashMap<ProjectId, String>> {
        Ok(self.store().projects().await?.into_iter().map(|project| (project.id, project.name)).collect())
    }
}

/// A name that no number can be mistaken for.
fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=128).contains(&name.len()) && name.chars().all(allowed) && name.parse::<i64>().is_err() {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Invalid, "project.name_malformed", "the project's name is malformed")
        .place("name")
        .found(format!("`{name}`"))
        .expected("1 to 128 letters, digits, `-`, `_` and `.`, and not a number"))
}

fn project(stored: &store::Project) -> Project {
    let created_at = stored.created_at.to_string();
    Project {
        id: stored.id.0,
        name: stored.name.clone(),
        description: stored.description.clone(),
        status: "enabled".into(),
        is_public: true,
        // Nothing of a project ever changes.
        updated_at: created_at.clone(),
        created_at,
    }
}
