//! All wrong fields of one request, so that its answer names each of them.

use crate::Fault;
use culvert_wire::api::FieldProblem;

/// Gathers the wrong fields of a request.
#[derive(Debug, Default)]
pub struct Problems(Vec<FieldProblem>);

impl Problems {
    /// The value of what was read. Wrong fields are noted, and the next field is read all the same. A field that is
    /// noted already keeps its first problem: later ones follow from it.
    ///
    /// # Errors
    /// A fault that is not about fields.
    pub fn take<T>(&mut self, read: Result<T, Fault>) -> Result<Option<T>, Fault> {
        let problems = match read {
            Ok(value) => return Ok(Some(value)),
            Err(Fault::Invalid(problems)) => problems,
            Err(fault) => return Err(fault),
        };
        for problem in problems {
            if !self.0.iter().any(|known| known.field == problem.field) {
                self.0.push(problem);
            }
        }
        Ok(None)
    }

    /// Refuses the request if a field is wrong.
    ///
    /// # Errors
    /// All wrong fields, in the order in which they were read.
    pub fn finish(self) -> Result<(), Fault> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Fault::Invalid(self.0)),
        }
    }

    /// The same. Returns what was read, of which nothing is missing if no field is wrong.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_with<T>(self, read: Option<T>) -> Result<T, Fault> {
        self.finish()?;
        read.ok_or_else(|| Fault::internal("a value is missing, and no field is wrong"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wrong_fields_are_told_at_once_and_each_once() {
        let mut problems = Problems::default();
        assert_eq!(problems.take(Ok(7)), Ok(Some(7)));
        for (field, detail) in [("name", "it is empty"), ("site", "unknown"), ("name", "2")] {
            let wrong = Err::<(), _>(Fault::invalid(field, detail));
            assert_eq!(problems.take(wrong), Ok(None));
        }
        let Err(Fault::Invalid(told)) = problems.finish() else {
            panic!("it is refused");
        };
        let told: Vec<_> = told.iter().map(|one| (&*one.field, &*one.detail)).collect();
        assert_eq!(told, [("name", "it is empty"), ("site", "unknown")]);
        assert_eq!(Problems::default().finish(), Ok(()));
    }

    #[test]
    fn another_fault_ends_the_reading() {
        let mut problems = Problems::default();
        problems
            .take(Err::<(), _>(Fault::invalid("name", "it is empty")))
            .unwrap();
        let taken = problems.take(Err::<(), _>(Fault::Unauthenticated));
        assert_eq!(taken, Err(Fault::Unauthenticated));
    }
}
