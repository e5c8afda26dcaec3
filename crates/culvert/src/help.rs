//! Help that every command has: examples of its own, and how it ends.
//!
//! The examples of `culvert admin` stand once, with each kind of thing. Each command below takes from
//! them those that show it.

use clap::Command;
use clap::builder::StyledStr;

/// The exit statuses of everything below `culvert admin`.
pub(crate) const ADMIN_EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  something failed, or there is no such thing
  2  the command line or the file is wrong
  3  there is no token, or the portal does not accept it
  4  the portal cannot be reached, or is another one than the token names
  5  denied: by the token's role, or what \"explain\" explains";

/// What stands above examples.
const EXAMPLES: &str = "Examples:";

/// The command line with help for each command.
pub(crate) fn teach(command: Command) -> Command {
    let command = command.mut_subcommand("admin", |admin| {
        admin.mut_subcommands(|kind| of_admin(kind, "culvert admin", ""))
    });
    ["client", "gateway", "portal"]
        .into_iter()
        .fold(command, |command, role| {
            command.mut_subcommand(role, of_role)
        })
}

/// A command that only has others below it teaches what its `run` does.
fn of_role(role: Command) -> Command {
    let run = role.find_subcommand("run");
    match run.and_then(Command::get_after_long_help).cloned() {
        Some(help) => role.after_long_help(help),
        None => role,
    }
}

fn of_admin(command: Command, parent: &str, examples_of_parent: &str) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let examples = match command.get_after_help() {
        Some(own) => own.to_string(),
        None => examples_of(&path, examples_of_parent),
    };
    let help = match examples.as_str() {
        "" => ADMIN_EXIT_STATUS.to_owned(),
        examples => format!("{examples}\n\n{ADMIN_EXIT_STATUS}"),
    };
    command
        .after_help(StyledStr::from(help))
        .mut_subcommands(|command| of_admin(command, &path, &examples))
}

/// Those of the examples that begin with the command, each with the lines that continue it.
fn examples_of(path: &str, examples: &str) -> String {
    let mut chosen = Vec::new();
    let mut is_chosen = false;
    let mut goes_on = false;
    for line in examples.lines().filter(|line| *line != EXAMPLES) {
        if !goes_on {
            let rest = line.trim_start().strip_prefix(path);
            is_chosen = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        }
        goes_on = line.ends_with('\\');
        if is_chosen {
            chosen.push(line);
        }
    }
    match chosen.is_empty() {
        true => String::new(),
        false => format!("{EXAMPLES}\n{}", chosen.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    #[test]
    fn an_example_goes_to_the_command_that_it_begins_with() {
        let examples = "Examples:\n  culvert admin site create a \\\n    --b c\n  \
                        culvert admin site created\n  culvert admin site list";
        assert_eq!(
            examples_of("culvert admin site create", examples),
            "Examples:\n  culvert admin site create a \\\n    --b c"
        );
        assert_eq!(examples_of("culvert admin site show", examples), "");
    }

    #[test]
    fn every_command_has_examples_and_exit_statuses() {
        fn visit(command: &Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_long_help();
            let help = help.or_else(|| command.get_after_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Exit status:\n  0  "), "{path}:\n{help}");
            let is_root = command.get_name() == "culvert";
            let shown = help.contains(path.trim()) && help.contains(EXAMPLES);
            assert!(is_root || shown, "{path}:\n{help}");
            for below in command.get_subcommands() {
                visit(below, &path);
            }
        }
        visit(&teach(Arguments::command()), "");
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        fn visit(command: &Command, found: &mut Vec<String>) {
            for help in [command.get_after_help(), command.get_after_long_help()] {
                let help = help.map(ToString::to_string).unwrap_or_default();
                found.extend(command_lines(&help));
            }
            for below in command.get_subcommands() {
                visit(below, found);
            }
        }
        let mut found = Vec::new();
        visit(&Arguments::command(), &mut found);
        assert!(found.len() > 60, "{found:#?}");
        for line in found {
            let words = words(&line);
            let parsed = Arguments::of(words.iter().map(Into::into));
            let is_help = |error: &clap::Error| error.kind() == ErrorKind::DisplayHelp;
            let is_understood = parsed.as_ref().map_or_else(is_help, |_| true);
            assert!(is_understood, "{line}\n{words:?}\n{parsed:?}");
        }
    }

    /// The command lines of `culvert` in a text, up to a pipe, a redirection or a comment.
    fn command_lines(help: &str) -> Vec<String> {
        let joined = help.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        let lines = lines.filter(|line| line.starts_with("culvert "));
        let ends = [" | ", " > ", " || ", " && ", "   #"];
        let cut = |line: &str| {
            let end = ends.iter().filter_map(|end| line.find(end)).min();
            line[..end.unwrap_or(line.len())].to_owned()
        };
        lines.map(cut).collect()
    }

    /// The words of a line as a shell sees them.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in line.split('"').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }
}
