//! What a change writes to the source, and taking it back: what was made, and nothing that somebody else wrote.

use model::Result;
use serde::{Deserialize, Serialize};
use settings::source::{Entry, MOST_WRITES, Write};
use settings::{Expect, Source};

/// One path that a change publishes, with what stood there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
    #[serde(skip)]
    pub expect: Option<i64>,
    #[serde(skip)]
    pub made: Made,
}

/// Whether the source holds a write. It is known only to the process that makes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Made {
    No,
    /// The answer is lost, or this is read from a record.
    #[default]
    Maybe,
    /// At this revision of the source.
    At(i64),
}

impl Published {
    pub fn new(path: &str, before: Option<String>, after: Option<String>, expect: Option<i64>) -> Self {
        Published { path: path.to_owned(), before, after, expect, made: Made::No }
    }

    /// The write that takes this one back, if it was made and still stands: nothing that somebody else wrote is touched,
    /// even if it is the same.
    fn back(&self, live: Option<&Entry>) -> Option<Published> {
        let stands = match self.made {
            Made::No => false,
            Made::At(revision) if self.after.is_some() => live.is_some_and(|entry| entry.revision == revision),
            Made::At(_) | Made::Maybe => live.map(|entry| &entry.value) == self.after.as_ref(),
        };
        let expect = live.map(|entry| entry.revision);
        (stands && self.before != self.after)
            .then(|| Published::new(&self.path, self.after.clone(), self.before.clone(), expect))
    }
}

/// Publishes in as few steps as the source takes, each while the mark has this revision; returns the last one's revision.
pub(crate) async fn publish_all(source: &dyn Source, writes: &mut [Published], mark: Option<i64>) -> Result<i64> {
    let mut revision = 0;
    for some in writes.chunks_mut(MOST_WRITES) {
        let one = |write: &Published| Write {
            path: write.path.clone(),
            value: write.after.clone(),
            expect: write.expect.map_or(Expect::Absent, Expect::Revision),
        };
        let answer = source.commit(&some.iter().map(one).collect::<Vec<_>>(), mark).await;
        let made = match &answer {
            Ok(revision) => Made::At(*revision),
            Err(problem) if problem.code == "setting.changed_meanwhile" => Made::No,
            Err(_) => Made::Maybe,
        };
        some.iter_mut().for_each(|write| write.made = made);
        revision = answer?;
    }
    Ok(revision)
}

/// Takes back in the source what stands there of these writes. Returns their paths.
pub(crate) async fn revert(source: &dyn Source, writes: &[Published]) -> Result<Vec<String>> {
    let paths: Vec<String> = writes.iter().map(|write| write.path.clone()).collect();
    let live = source.get(&paths).await?;
    let mut back: Vec<Published> = writes.iter().filter_map(|write| write.back(live.get(&write.path))).collect();
    publish_all(source, &mut back, None).await?;
    Ok(back.into_iter().map(|write| write.path).collect())
}
