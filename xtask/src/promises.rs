//! The promises of docs/threat-model.md, broken on purpose: `tests/promises.toml` breaks the code in one place for
//! each promise, and names the tests that must fail then.
//!
//! [`check`] compares the three texts, in every run of CI. [`run()`] breaks the code, which takes hours.

mod run;

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub(crate) use run::run;

const LIST: &str = "tests/promises.toml";
const THREAT_MODEL: &str = "docs/threat-model.md";

/// One place where the code is broken.
#[derive(Debug)]
struct Breakage {
    /// Of the repository.
    file: String,
    /// Occurs once in the file.
    from: String,
    to: String,
    /// Has the tests. If `suite` is `script`, it is the path of a test of scripts.
    package: String,
    /// The integration test that has the tests; `lib` for unit tests.
    suite: String,
    /// Names of functions, or sentences of a script. Each must fail.
    fails: Vec<String>,
    /// False for `[[planted]]`: no row of the threat model speaks of it.
    is_promised: bool,
}

/// A row of the threat model that no breakage belongs to.
#[derive(Debug)]
struct Unbroken {
    /// The beginning of the row.
    promise: String,
}

#[derive(Debug)]
struct Promises {
    /// Those with which the tests were seen to fail, then those that nobody has tried.
    breakages: Vec<Breakage>,
    unbroken: Vec<Unbroken>,
}

impl Promises {
    fn load(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(LIST)).context(LIST)?;
        Self::parse(&text).context(LIST)
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let rows = |name: &str| -> Result<Vec<toml::Table>> {
            let rows = table.get(name).and_then(toml::Value::as_array);
            let rows = rows.into_iter().flatten().map(toml::Value::as_table);
            rows.map(|row| Ok(row.context("not a table")?.clone()))
                .collect()
        };
        let promised = [rows("broken")?, rows("untried")?].concat();
        let planted = rows("planted")?;
        let promised = promised.iter().map(|row| Breakage::parse(row, true));
        let planted = planted.iter().map(|row| Breakage::parse(row, false));
        Ok(Self {
            breakages: promised.chain(planted).collect::<Result<_>>()?,
            unbroken: rows("unbroken")?
                .iter()
                .map(|row| {
                    text_of(row, "reason")?;
                    let promise = text_of(row, "promise")?;
                    Ok(Unbroken { promise })
                })
                .collect::<Result<_>>()?,
        })
    }
}

impl Breakage {
    fn parse(row: &toml::Table, is_promised: bool) -> Result<Self> {
        let fails = row.get("fails").and_then(toml::Value::as_array);
        let fails = fails.into_iter().flatten().map(toml::Value::as_str);
        let breakage = Self {
            file: text_of(row, "file")?,
            from: text_of(row, "from")?,
            to: text_of(row, "to")?,
            package: text_of(row, "package")?,
            suite: text_of(row, "suite")?,
            fails: fails
                .map(|name| Ok(name.context("fails: not a text")?.to_owned()))
                .collect::<Result<_>>()?,
            is_promised,
        };
        ensure!(!breakage.fails.is_empty(), "{}: no test", breakage.file);
        Ok(breakage)
    }

    /// The file as it is broken; or what is wrong.
    fn applied(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.from).count() {
            1 if self.from != self.to => Ok(text.replacen(&self.from, &self.to, 1)),
            1 => Err("changes nothing".to_owned()),
            0 => Err(format!("has no longer: {}", self.from)),
            count => Err(format!("has {count} times: {}", self.from)),
        }
    }
}

fn text_of(row: &toml::Table, key: &str) -> Result<String> {
    let value = row.get(key).and_then(toml::Value::as_str);
    Ok(value
        .with_context(|| format!("no text `{key}` in {row:?}"))?
        .to_owned())
}

/// Lists breakages that do not fit the code any more, and promises without one.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let promises = Promises::load(root)?;
    let mut problems = Vec::new();
    for breakage in &promises.breakages {
        let text = fs::read_to_string(root.join(&breakage.file));
        let text = text.with_context(|| format!("{LIST}: {}", breakage.file))?;
        if let Err(problem) = breakage.applied(&text) {
            problems.push(format!("{LIST}: {} {problem}", breakage.file));
        }
    }
    let model = fs::read_to_string(root.join(THREAT_MODEL)).context(THREAT_MODEL)?;
    problems.extend(without_breakage(&promises, &model));
    Ok(problems)
}

/// Rows of the tables of promises whose tests no breakage makes fail, and exceptions that are none.
fn without_breakage(promises: &Promises, model: &str) -> Vec<String> {
    let failing: BTreeSet<&str> = promises
        .breakages
        .iter()
        .flat_map(|breakage| breakage.fails.iter().map(String::as_str))
        .collect();
    let rows = rows_of_promises(model);
    let named: BTreeSet<&str> = rows.iter().flat_map(|(_, row)| in_code_font(row)).collect();
    let strays = promises.breakages.iter().filter(|breakage| {
        let mut names = breakage.fails.iter();
        breakage.is_promised && !names.any(|name| named.contains(name.as_str()))
    });
    let stray = |it: &Breakage| format!("{LIST}: {THREAT_MODEL} names none of {:?}", it.fails);
    let mut problems: Vec<String> = strays.map(stray).collect();
    let mut excepted = BTreeSet::new();
    for (number, row) in rows {
        let is_broken = in_code_font(row).any(|name| failing.contains(name));
        let exception = promises
            .unbroken
            .iter()
            .find(|it| row.starts_with(&format!("| {}", it.promise)));
        match (is_broken, exception) {
            (true, None) => {}
            (false, Some(it)) => {
                excepted.insert(it.promise.as_str());
            }
            (true, Some(it)) => problems.push(format!(
                "{LIST}: `{}` is broken and excepted at once",
                it.promise
            )),
            (false, None) => problems.push(format!(
                "{THREAT_MODEL}:{number}: {LIST} breaks nothing that a test of this row notices: add `[[broken]]`, or \
                 `[[unbroken]]` with a reason"
            )),
        }
    }
    let unknown = promises
        .unbroken
        .iter()
        .filter(|it| !excepted.contains(it.promise.as_str()));
    problems.extend(unknown.map(|it| format!("{LIST}: no row begins with `{}`", it.promise)));
    problems
}

/// The rows, by line number, of tables whose first column is a promise or an advisory.
fn rows_of_promises(model: &str) -> Vec<(usize, &str)> {
    let mut is_in_table = false;
    let mut rows = Vec::new();
    for (index, line) in model.lines().enumerate() {
        if line.starts_with("| promise |") || line.starts_with("| advisory |") {
            is_in_table = true;
        } else if !line.starts_with('|') {
            // An empty line between two rows does not end a table.
            is_in_table &= line.is_empty();
        } else if is_in_table && !line.starts_with("|---") {
            let is_other = line.starts_with("| after |") || line.starts_with("| stolen |");
            is_in_table = !is_other;
            rows.extend((!is_other).then_some((index + 1, line)));
        }
    }
    rows
}

/// The texts between backticks.
fn in_code_font(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "text\n\n| promise | by | test |\n|---|---|---|\n\
        | Holds | x | `it_holds` |\n| Holds too | y | `so_does_it` |\n\ntext\n| other | table |\n";

    fn problems(list: &str) -> Vec<String> {
        without_breakage(&Promises::parse(list).expect("a list"), MODEL)
    }

    const BROKEN: &str = "[[broken]]\nfile = \"a\"\nfrom = \"b\"\nto = \"c\"\npackage = \"d\"\n\
        suite = \"lib\"\nfails = [\"it_holds\"]\n";

    #[test]
    fn a_promise_that_nothing_breaks_is_named_by_its_line() {
        let problems = problems(BROKEN);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("docs/threat-model.md:6:"));
    }

    #[test]
    fn a_breakage_that_nobody_has_tried_is_one() {
        let untried = BROKEN.replace("[[broken]]", "[[untried]]");
        assert_eq!(problems(&untried), problems(BROKEN));
    }

    #[test]
    fn a_breakage_belongs_to_a_row() {
        let stray = BROKEN.replace("it_holds", "nobody_promised_it");
        let problems = problems(&format!("{BROKEN}{stray}"));
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("names none of [\"nobody_promised_it\"]"));
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_row_that_nothing_breaks() {
        let excepted = "[[unbroken]]\npromise = \"Holds too |\"\n";
        assert!(Promises::parse(&format!("{BROKEN}{excepted}")).is_err());
        let excepted = format!("{BROKEN}{excepted}reason = \"r\"\n");
        assert_eq!(problems(&excepted), Vec::<String>::new());
        let needless = format!("{excepted}[[unbroken]]\npromise = \"Holds |\"\nreason = \"r\"\n");
        assert_eq!(problems(&needless).len(), 2);
    }

    #[test]
    fn a_breakage_changes_one_place() {
        let promises = Promises::parse(BROKEN).expect("a list");
        let breakage = &promises.breakages[0];
        assert_eq!(breakage.applied("abc").as_deref(), Ok("acc"));
        assert!(breakage.applied("ac").is_err());
        assert!(breakage.applied("bb").is_err());
    }
}
