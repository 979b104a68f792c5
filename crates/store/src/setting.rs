//! The SQL side of settings: declarations, live values with their owner, and every change with its revision.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
};
use settings::{Backend, Change, Declaration, Expect, Live, Owner, Scope, ValueType};

use crate::connect::Store;
use crate::convert::{fit, json, to_json, word};
use crate::counter;
use crate::entity::{setting_change, setting_declaration, setting_value};
use crate::failure::{Failure, Work};
use crate::query::starting;

/// A declared key with its live value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub declaration: Declaration,
    /// Absent when nothing was published: readers then use the default.
    pub live: Option<Live>,
}

/// A key that a seed declares, with the value that it gives.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSetting {
    pub declaration: Declaration,
    pub value: String,
}

/// What became of one declared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    New,
    Changed,
    Same,
    /// An operator's value is live and stays.
    Kept,
}

impl Store {
    /// Declares keys, and publishes the seed's value where none is live or where the live one is the seed's own.
    ///
    /// # Errors
    /// Those of [`Declaration::check`]; nothing is stored then.
    pub async fn declare_settings(&self, new: &[NewSetting], by: &str) -> Result<Vec<(String, Written)>> {
        let found = &self.found(new).await?;
        self.write_settings("declare settings", None, |tx, _| {
            Box::pin(async move {
                let mut written = Vec::with_capacity(new.len());
                for setting in new {
                    written.push((setting.declaration.key.clone(), declare(tx, setting, found, by).await?));
                }
                Ok(written)
            })
        })
        .await
    }

    /// What other tools published under these keys, by path; nothing where values are not published.
    pub(crate) async fn found(&self, new: &[NewSetting]) -> Result<BTreeMap<String, String>> {
        let Some(source) = self.source() else { return Ok(BTreeMap::new()) };
        let place = |one: &NewSetting| settings::source::path(one.declaration.scope, &one.declaration.key);
        let live = source.get(&new.iter().map(place).collect::<Vec<_>>()).await?;
        Ok(live.into_iter().map(|(path, entry)| (path, entry.value)).collect())
    }

    /// The same of every key, for what is decided only inside of a transaction.
    pub(crate) async fn found_anywhere(&self) -> Result<BTreeMap<String, String>> {
        let Some(source) = self.source() else { return Ok(BTreeMap::new()) };
        Ok(source.snapshot().await?.entries.into_iter().map(|(path, entry)| (path, entry.value)).collect())
    }

    /// Declares the keys that the code reads and that nobody declared yet, without publishing a value. Returns their names.
    pub async fn declare_catalogue(&self) -> Result<Vec<String>> {
        self.write(|tx, _| {
            Box::pin(async move {
                // Several processes may start on the same fresh database.
                counter::lock(tx, counter::SETTINGS).await?;
                let mut fresh = Vec::new();
                for declaration in settings::catalogue() {
                    if setting_declaration::Entity::find_by_id(declaration.key.as_str()).one(tx).await?.is_none() {
                        insert_declaration(tx, &declaration).await?;
                        fresh.push(declaration.key);
                    }
                }
                Ok(fresh)
            })
        })
        .await
    }

    /// Declared keys that start with `prefix` with their live values, by key.
    pub async fn settings(&self, prefix: &str) -> Result<Vec<Setting>> {
        Ok(settings_of(self.reader(), prefix).await?)
    }

    /// Sets an operator's value, checked against the key's declaration.
    ///
    /// # Errors
    /// `setting.unknown`; those of [`Declaration::check`]; `setting.changed_meanwhile`.
    pub async fn set_setting(&self, key: &str, value: &str, expect: Expect, by: &str) -> Result<Live> {
        self.write_settings(&format!("set {key}"), None, |tx, _| {
            Box::pin(async move {
                declaration(tx, key).await?.check(value)?;
                put(tx, key, value, Owner::Operator, expect, by).await
            })
        })
        .await
    }

    /// Sets the value that a key had after an earlier change.
    ///
    /// # Errors
    /// `setting.unknown`; `setting.revision_unknown`; `setting.no_value` when the key had none then; those of
    /// [`Declaration::check`], for a declaration may have changed since.
    pub async fn roll_back_setting(&self, key: &str, revision: i64, by: &str) -> Result<Live> {
        self.write_settings(&format!("roll back {key}"), None, |tx, _| {
            Box::pin(async move {
                let declaration = declaration(tx, key).await?;
                let then = setting_change::Entity::find_by_id(revision).one(tx).await?;
                let then = then.filter(|change| change.name == key).ok_or_else(|| {
                    let message = "the setting had no change of this revision";
                    Problem::new(ErrorKind::NotFound, "setting.revision_unknown", message)
                        .place(key.to_owned())
                        .found(revision.to_string())
                        .fix(format!("see `aegisctl settings history {key}`"))
                })?;
                let value = then.content.ok_or_else(|| {
                    Problem::new(ErrorKind::Conflict, "setting.no_value", "the setting had no value after this change")
                        .place(key.to_owned())
                        .found(format!("revision {revision}: deleted"))
                })?;
                declaration.check(&value)?;
                put(tx, key, &value, Owner::Operator, Expect::Anything, by).await
            })
        })
        .await
    }

    /// The number of the newest change of any setting.
    pub async fn settings_revision(&self) -> Result<i64> {
        let row = crate::entity::counter::Entity::find_by_id(counter::SETTINGS).one(self.reader()).await;
        Ok(row.map_err(Failure::from)?.map_or(0, |row| row.reached))
    }

    /// The changes of one key, newest first.
    pub async fn setting_history(&self, key: &str, limit: u64) -> Result<Vec<Change>> {
        let rows = setting_change::Entity::find()
            .filter(setting_change::Column::Name.eq(key))
            .order_by_desc(setting_change::Column::Revision)
            .limit(limit)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(read_change).collect::<Work<_>>()?)
    }
}

#[async_trait]
impl Backend for Store {
    async fn get(&self, key: &str) -> Result<Option<Live>> {
        let mut found = settings_of(self.reader(), key).await?.into_iter();
        Ok(found.find(|setting| setting.declaration.key == key).and_then(|setting| setting.live))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Live>> {
        let settings = settings_of(self.reader(), prefix).await?;
        Ok(settings.into_iter().filter_map(|setting| setting.live).collect())
    }

    async fn set(&self, key: &str, value: &str, owner: Owner, expect: Expect, by: &str) -> Result<Live> {
        let what = format!("set {key}");
        self.write_settings(&what, None, |tx, _| Box::pin(async move { put(tx, key, value, owner, expect, by).await }))
            .await
    }

    async fn delete(&self, key: &str, expect: Expect, by: &str) -> Result<bool> {
        let what = format!("delete {key}");
        self.write_settings(&what, None, |tx, _| Box::pin(async move { remove(tx, key, expect, by).await })).await
    }

    async fn changes_after(&self, revision: i64, limit: u64) -> Result<Vec<Change>> {
        let rows = setting_change::Entity::find()
            .filter(setting_change::Column::Revision.gt(revision))
            .order_by_asc(setting_change::Column::Revision)
            .limit(limit)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(read_change).collect::<Work<_>>()?)
    }
}

pub(crate) async fn settings_of(db: &impl ConnectionTrait, prefix: &str) -> Work<Vec<Setting>> {
    let declarations = setting_declaration::Entity::find()
        .filter(starting(setting_declaration::Column::Name, prefix))
        .order_by_asc(setting_declaration::Column::Name)
        .all(db)
        .await?;
    let values = setting_value::Entity::find().filter(starting(setting_value::Column::Name, prefix)).all(db).await?;
    let mut values: HashMap<String, setting_value::Model> =
        values.into_iter().map(|row| (row.name.clone(), row)).collect();
    let mut settings = Vec::with_capacity(declarations.len());
    for row in declarations {
        let declaration = read_declaration(row)?;
        let value = values.remove(&declaration.key);
        let live = value.map(|row| read_live(row, declaration.scope)).transpose()?;
        settings.push(Setting { declaration, live });
    }
    Ok(settings)
}

/// The scope of every declared key.
pub(crate) async fn scopes_of(db: &impl ConnectionTrait) -> Work<BTreeMap<String, Scope>> {
    let rows: Vec<(String, String)> = setting_declaration::Entity::find()
        .select_only()
        .column(setting_declaration::Column::Name)
        .column(setting_declaration::Column::Scope)
        .into_tuple()
        .all(db)
        .await?;
    rows.into_iter().map(|(name, scope)| Ok((name, word("scope", scope.as_str(), Scope::parse)?))).collect()
}

/// Declares a key, and gives it the seed's value unless an operator's is there: in the store, or `found` where values are
/// published.
pub(crate) async fn declare(
    tx: &DatabaseTransaction,
    new: &NewSetting,
    found: &BTreeMap<String, String>,
    by: &str,
) -> Work<Written> {
    let key = new.declaration.key.as_str();
    new.declaration.check(&new.value)?;
    let mut declaration = new.declaration.clone();
    declaration.seed = Some(new.value.clone());
    let before = setting_declaration::Entity::find_by_id(key).lock_exclusive().one(tx).await?;
    let before = before.map(read_declaration).transpose()?;
    match &before {
        None => insert_declaration(tx, &declaration).await?,
        Some(before) if *before != declaration => update_declaration(tx, &declaration).await?,
        Some(_) => {}
    }
    let live = setting_value::Entity::find_by_id(key).one(tx).await?;
    let is_operators = live.as_ref().is_some_and(|row| row.owner == Owner::Operator.as_str());
    let accepted = live.as_ref().map(|row| row.content.as_str());
    let path = settings::source::path(declaration.scope, key);
    if let Some(value) = found.get(&path).filter(|value| accepted != Some(value) && **value != new.value) {
        declaration.check(value).map_err(|problem| set_before(problem, key))?;
        put(tx, key, value, Owner::Operator, Expect::Anything, BY_SOURCE).await?;
        return Ok(Written::Kept);
    }
    match live {
        Some(_) if is_operators => return Ok(Written::Kept),
        Some(row) if row.content == new.value => {}
        Some(_) | None => {
            put(tx, key, &new.value, Owner::Seed, Expect::Anything, by).await?;
            return Ok(if before.is_none() { Written::New } else { Written::Changed });
        }
    }
    Ok(if before.as_ref() == Some(&declaration) { Written::Same } else { Written::Changed })
}

/// Takes a key back that a seed declared: its live value goes, and its declaration, unless the code itself declares it.
pub(crate) async fn undeclare(tx: &DatabaseTransaction, key: &str, by: &str) -> Work<()> {
    remove(tx, key, Expect::Anything, by).await?;
    match settings::catalogue().into_iter().find(|declaration| declaration.key == key) {
        Some(own) => update_declaration(tx, &own).await,
        None => {
            setting_declaration::Entity::delete_by_id(key).exec(tx).await?;
            Ok(())
        }
    }
}

/// Who is recorded for a value that another tool published.
pub(crate) const BY_SOURCE: &str = "another tool, where settings are published";

fn set_before(problem: Problem, key: &str) -> Problem {
    problem.place(format!("{key}, as another tool published it")).fix("delete it there, or put a legal value")
}

fn declaration_row(declaration: &Declaration) -> setting_declaration::Model {
    setting_declaration::Model {
        name: declaration.key.clone(),
        scope: declaration.scope.as_str().to_owned(),
        value_type: declaration.value_type.as_str().to_owned(),
        default_value: declaration.default.clone(),
        seed_value: declaration.seed.clone(),
        constraints: to_json(&declaration.bounds),
        description: declaration.description.clone(),
        is_secret: declaration.is_secret,
        updated_at: WallTime::now().0,
    }
}

async fn insert_declaration(tx: &DatabaseTransaction, declaration: &Declaration) -> Work<()> {
    let row = declaration_row(declaration).into_active_model();
    setting_declaration::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

async fn update_declaration(tx: &DatabaseTransaction, declaration: &Declaration) -> Work<()> {
    use setting_declaration::Column;
    let row = declaration_row(declaration);
    setting_declaration::Entity::update_many()
        .col_expr(Column::Scope, Expr::value(row.scope))
        .col_expr(Column::ValueType, Expr::value(row.value_type))
        .col_expr(Column::DefaultValue, Expr::value(row.default_value))
        .col_expr(Column::SeedValue, Expr::value(row.seed_value))
        .col_expr(Column::Constraints, Expr::value(row.constraints))
        .col_expr(Column::Description, Expr::value(row.description))
        .col_expr(Column::IsSecret, Expr::value(row.is_secret))
        .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
        .filter(Column::Name.eq(row.name))
        .exec(tx)
        .await?;
    Ok(())
}

fn read_declaration(row: setting_declaration::Model) -> Work<Declaration> {
    Ok(Declaration {
        scope: word("scope", row.scope.as_str(), Scope::parse)?,
        value_type: word("value type", row.value_type.as_str(), ValueType::parse)?,
        bounds: json("bounds of a setting", &row.constraints)?,
        key: row.name,
        default: row.default_value,
        seed: row.seed_value,
        description: row.description,
        is_secret: row.is_secret,
    })
}

fn read_live(row: setting_value::Model, scope: Scope) -> Work<Live> {
    let owner = word("owner of a setting", row.owner.as_str(), Owner::parse)?;
    Ok(Live { key: row.name, scope, value: row.content, owner, revision: row.revision })
}

fn read_change(row: setting_change::Model) -> Work<Change> {
    Ok(Change {
        revision: row.revision,
        owner: word("owner of a setting", row.owner.as_str(), Owner::parse)?,
        key: row.name,
        value: row.content,
        previous: row.previous,
        changed_by: row.changed_by,
        at: WallTime(row.changed_at),
    })
}

async fn declaration(db: &impl ConnectionTrait, key: &str) -> Work<Declaration> {
    if let Some(row) = setting_declaration::Entity::find_by_id(key).one(db).await? {
        return read_declaration(row);
    }
    let names: Vec<String> = setting_declaration::Entity::find()
        .select_only()
        .column(setting_declaration::Column::Name)
        .into_tuple()
        .all(db)
        .await?;
    Err(Problem::unknown("setting.unknown", "setting", key, names.iter().map(String::as_str)).into())
}

/// Changes a live value by compare-and-set and keeps the change under a new revision.
pub(crate) async fn put(
    tx: &DatabaseTransaction,
    key: &str,
    value: &str,
    owner: Owner,
    expect: Expect,
    by: &str,
) -> Work<Live> {
    use setting_value::Column;
    let scope = declaration(tx, key).await?.scope;
    // The counter's row is the lock of all changes: revisions become visible in their order.
    let revision = counter::next(tx, counter::SETTINGS).await?;
    let before = setting_value::Entity::find_by_id(key).one(tx).await?;
    compare(key, before.as_ref(), expect)?;
    let now = WallTime::now().0;
    let row = setting_value::Model {
        name: key.to_owned(),
        content: value.to_owned(),
        owner: owner.as_str().to_owned(),
        revision,
        changed_by: fit(by, 128),
        changed_at: now,
        source_revision: None,
    };
    match &before {
        None => {
            setting_value::Entity::insert(row.clone().into_active_model()).exec_without_returning(tx).await?;
        }
        Some(before) => {
            setting_value::Entity::update_many()
                .col_expr(Column::Content, Expr::value(row.content.clone()))
                .col_expr(Column::Owner, Expr::value(row.owner.clone()))
                .col_expr(Column::Revision, Expr::value(revision))
                .col_expr(Column::ChangedBy, Expr::value(row.changed_by.clone()))
                .col_expr(Column::ChangedAt, Expr::value(now))
                .col_expr(Column::SourceRevision, Expr::value(row.source_revision))
                .filter(Column::Name.eq(key))
                .filter(Column::Revision.eq(before.revision))
                .exec(tx)
                .await?;
        }
    }
    keep_change(tx, &row, Some(value), before.map(|before| before.content)).await?;
    if owner == Owner::Operator {
        crate::registry::follow_status(tx, key, value).await?;
    }
    read_live(row, scope)
}

/// Deletes a live value, if there is one.
pub(crate) async fn remove(tx: &DatabaseTransaction, key: &str, expect: Expect, by: &str) -> Work<bool> {
    let revision = counter::next(tx, counter::SETTINGS).await?;
    let before = setting_value::Entity::find_by_id(key).one(tx).await?;
    compare(key, before.as_ref(), expect)?;
    let Some(before) = before else { return Ok(false) };
    setting_value::Entity::delete_by_id(key).exec(tx).await?;
    let previous = before.content.clone();
    let row = setting_value::Model { revision, changed_by: fit(by, 128), changed_at: WallTime::now().0, ..before };
    keep_change(tx, &row, None, Some(previous)).await?;
    Ok(true)
}

fn compare(key: &str, before: Option<&setting_value::Model>, expect: Expect) -> Work<()> {
    let found = before.map(|row| row.revision);
    let holds = match expect {
        Expect::Anything => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found == Some(revision),
    };
    if holds {
        return Ok(());
    }
    let show = |revision: Option<i64>| revision.map_or("no value".to_owned(), |number| format!("revision {number}"));
    let wanted = if let Expect::Revision(revision) = expect { Some(revision) } else { None };
    Err(Problem::new(ErrorKind::Conflict, "setting.changed_meanwhile", "the setting was changed meanwhile")
        .place(key.to_owned())
        .found(show(found))
        .expected(show(wanted))
        .fix("read it again and repeat the change")
        .into())
}

async fn keep_change(
    tx: &DatabaseTransaction,
    row: &setting_value::Model,
    content: Option<&str>,
    previous: Option<String>,
) -> Work<()> {
    let change = setting_change::Model {
        revision: row.revision,
        name: row.name.clone(),
        content: content.map(str::to_owned),
        previous,
        owner: row.owner.clone(),
        changed_by: row.changed_by.clone(),
        changed_at: row.changed_at,
    };
    setting_change::Entity::insert(change.into_active_model()).exec_without_returning(tx).await?;
    Ok(())
}
