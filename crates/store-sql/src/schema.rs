//! Versions of a schema, and the rule by which two versions of the program share a database.
//!
//! A database has two numbers: the scripts that have run, and the oldest version whose programs may work on it. A script
//! that expands leaves the second one as it is. Its contraction raises it, and runs by [`SqlStore::finish_upgrade`]
//! alone, once no older portal is left.
//!
//! [`SqlStore::finish_upgrade`]: crate::SqlStore::finish_upgrade

use culvert_store::StoreError;

/// The step from one version of a schema to the next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Programs of earlier versions can't work on the database from then on.
    Break(&'static str),
    /// They can.
    Expand(&'static str),
    /// They can until the second script has run, which takes away what they alone need.
    ExpandAndContract(&'static str, &'static str),
}

/// A schema, from its first version on. A later version appends a step and changes none.
#[derive(Clone, Debug)]
pub struct Schema(Vec<Step>);

/// The two numbers of a database. Those of an empty one are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaState {
    /// The scripts that have run: the version of the latest program that was there.
    pub version: u32,
    /// The oldest version whose programs may work on it.
    pub readable_by: u32,
}

/// The state of a database's schema, for its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    /// The numbers of the database.
    pub state: SchemaState,
    /// The version of this program.
    pub known: u32,
    /// The version that will be the oldest one after the upgrade is finished; none if there is nothing to finish.
    pub pending: Option<u32>,
}

impl Schema {
    pub(crate) fn of(steps: &[Step]) -> Self {
        Self(steps.to_vec())
    }

    /// The schema of a later version of the program.
    #[must_use]
    pub fn with(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// The version that a program of this schema has.
    pub fn version(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Refuses a database that programs of this version may not work on.
    pub(crate) fn check(&self, found: SchemaState) -> Result<(), StoreError> {
        expect_readable(found.readable_by, self.version())
    }

    /// Refuses a database with tables or columns that this version does not know: a copy would leave them out.
    pub(crate) fn check_whole(&self, found: SchemaState) -> Result<(), StoreError> {
        self.check(found)?;
        if found.version > self.version() {
            return Err(StoreError::Unusable {
                detail: format!(
                    "a later version of culvert has extended it (schema version {}, and this one knows {}): use that \
                     version for this command",
                    found.version,
                    self.version()
                ),
            });
        }
        Ok(())
    }

    /// The scripts that a database lacks, and its numbers once they have run.
    pub(crate) fn missing(&self, found: SchemaState) -> (Vec<&'static str>, SchemaState) {
        let mut state = found;
        let mut scripts = Vec::new();
        for step in self.0.iter().skip(found.version as usize) {
            state.version += 1;
            let (Step::Break(script) | Step::Expand(script) | Step::ExpandAndContract(script, _)) =
                step;
            scripts.push(*script);
            if matches!(step, Step::Break(_)) {
                state.readable_by = state.version;
            }
        }
        (scripts, state)
    }

    /// The contractions that have not run on a database, and its numbers once they have.
    pub(crate) fn contractions(&self, found: SchemaState) -> (Vec<&'static str>, SchemaState) {
        let mut state = found;
        let mut scripts = Vec::new();
        for (version, step) in (1..).zip(&self.0) {
            if let Step::ExpandAndContract(_, script) = step
                && version > found.readable_by
            {
                scripts.push(*script);
                state.readable_by = version;
            }
        }
        (scripts, state)
    }

    pub(crate) fn status(&self, state: SchemaState) -> SchemaStatus {
        let (scripts, after) = self.contractions(state);
        SchemaStatus {
            state,
            known: self.version(),
            pending: (!scripts.is_empty()).then_some(after.readable_by),
        }
    }
}

/// Refuses a database that only programs of version `readable_by` or later may work on.
pub(crate) const fn expect_readable(readable_by: u32, known: u32) -> Result<(), StoreError> {
    match readable_by > known {
        true => Err(StoreError::NewerSchema {
            found: readable_by,
            known,
        }),
        false => Ok(()),
    }
}

/// Tells that a database was extended by a later version, which does this one no harm.
pub(crate) fn note_later(found: SchemaState, known: u32) {
    if found.version > known {
        tracing::info!(
            database = found.version,
            known,
            "a later version of culvert has extended the database; this one works on it until the upgrade is finished"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: u32, readable_by: u32) -> SchemaState {
        SchemaState {
            version,
            readable_by,
        }
    }

    #[test]
    fn an_expansion_leaves_older_programs_and_its_contraction_ends_them() {
        let before = Schema(vec![Step::Break("1"), Step::Break("2")]);
        let schema = before
            .clone()
            .with(Step::Expand("3"))
            .with(Step::ExpandAndContract("4", "drop 4"));
        let (scripts, expanded) = schema.missing(state(0, 0));
        assert_eq!(scripts, ["1", "2", "3", "4"]);
        assert_eq!(expanded, state(4, 2));
        assert_eq!(schema.missing(state(2, 2)), (vec!["3", "4"], expanded));
        before.check(expanded).unwrap();
        before.check_whole(expanded).unwrap_err();
        assert_eq!(schema.status(expanded).pending, Some(4));
        let (scripts, contracted) = schema.contractions(expanded);
        assert_eq!((scripts, contracted), (vec!["drop 4"], state(4, 4)));
        let error = before.check(contracted).unwrap_err();
        assert!(
            matches!(error, StoreError::NewerSchema { found: 4, known: 2 }),
            "{error:?}"
        );
        schema.check_whole(contracted).unwrap();
        assert_eq!(schema.status(contracted).pending, None);
        // A later version may come before an upgrade is finished, and finishes that one as well.
        let later = schema.with(Step::ExpandAndContract("5", "drop 5"));
        let (_, expanded) = later.missing(expanded);
        assert_eq!(expanded, state(5, 2));
        assert_eq!(
            later.contractions(expanded),
            (vec!["drop 4", "drop 5"], state(5, 5))
        );
        assert_eq!(
            later.contractions(state(5, 4)),
            (vec!["drop 5"], state(5, 5))
        );
    }
}
