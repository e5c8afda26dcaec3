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

/// The heading above examples.
const EXAMPLES: &str = "Examples:";

/// The command line with help for each command.
pub(crate) fn teach(command: Command) -> Command {
    let command = command.mut_subcommand("admin", |admin| {
        admin.mut_subcommands(|kind| of_admin(kind, "culvert admin", ""))
    });
    ["client", "gateway", "portal", "relay"]
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
    use std::path::Path;

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

    /// Flags of other programs that messages name.
    const FOREIGN: &[&str] = &[
        "--add-interface",
        "--cap-add",
        "--cap-drop",
        "--cgroupns",
        "--ctstate",
        "--detach",
        "--device",
        "--encoding",
        "--env",
        "--lines",
        "--no-create-home",
        "--no-pager",
        "--permanent",
        "--publish",
        "--read-only",
        "--reload",
        "--resolv-conf",
        "--restart",
        "--security-opt",
        "--stateless",
        "--sysctl",
        "--system",
        "--template",
        "--tmpfs",
        "--version",
        "--volume",
        "--zone",
    ];

    #[test]
    fn every_flag_that_a_message_names_exists_on_the_command_that_it_names() {
        let mut root = Arguments::command();
        root.build();
        let mut all = Vec::new();
        flags_below(&root, &mut all);
        let mut wrong = Vec::new();
        let mut seen = 0;
        for (path, text) in sources() {
            for line in named_command_lines(&text) {
                seen += 1;
                wrong
                    .extend(unknown_in(&root, &line).map(|what| format!("{path}: {line}: {what}")));
            }
            let loose = literals(&text).into_iter().flat_map(|text| flags(&text));
            let loose =
                loose.filter(|flag| !all.contains(flag) && !FOREIGN.contains(&flag.as_str()));
            wrong.extend(loose.map(|flag| format!("{path}: no command has {flag}")));
        }
        assert!(seen > 50, "{seen}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The first word of a command line that is no command, or no flag of it.
    fn unknown_in(root: &Command, line: &str) -> Option<String> {
        let mut command = root;
        let mut has_operands = false;
        for word in line.split_whitespace().skip(1) {
            if let Some(flag) = flags(word).first() {
                let mut known = Vec::new();
                flags_of(command, &mut known);
                if !known.contains(flag) {
                    return Some(format!("{} has no {flag}", command.get_name()));
                }
            } else if let Some(below) = command.find_subcommand(word).filter(|_| !has_operands) {
                command = below;
            } else if !has_operands && command.has_subcommands() {
                let is_name = word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
                return is_name.then(|| format!("{} has no {word}", command.get_name()));
            } else {
                has_operands = true;
            }
        }
        None
    }

    fn flags_below(command: &Command, known: &mut Vec<String>) {
        flags_of(command, known);
        for below in command.get_subcommands() {
            flags_below(below, known);
        }
    }

    fn flags_of(command: &Command, known: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let names = argument.get_long_and_visible_aliases().unwrap_or_default();
            known.extend(names.into_iter().map(|name| format!("--{name}")));
        }
    }

    /// The `--flags` of a text.
    fn flags(text: &str) -> Vec<String> {
        let starts = text.match_indices("--").filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && before != '-')
        });
        let found = starts.map(|(at, _)| {
            let rest = &text[at + 2..];
            let is_part = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
            };
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            format!("--{}", rest[..end].trim_end_matches('-'))
        });
        found.filter(|flag| flag.len() > 3).collect()
    }

    /// The sources of all that the program is made of, without their tests, each literal on one line.
    fn sources() -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let shown = path.display().to_string();
                let is_test = ["/tests", "/benches", "/examples", "tests.rs"];
                if is_test.iter().any(|end| shown.ends_with(end)) {
                    continue;
                }
                if path.is_dir() {
                    directories.push(path);
                } else if shown.ends_with(".rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                    let lines = text.lines().filter(|line| {
                        let line = line.trim_start();
                        !line.starts_with("//") || line.starts_with("///")
                    });
                    let joined = lines.map(str::trim).collect::<Vec<_>>().join("\n");
                    found.push((shown, joined.replace("\\\n", "").replace("\n/// ", " ")));
                }
            }
        }
        found
    }

    /// String literals, roughly: what stands between two quotes of a line.
    fn literals(text: &str) -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("///"));
        let text = lines.collect::<Vec<_>>().join("\n").replace("\\\"", "'");
        let odd = text.split('"').skip(1).step_by(2);
        odd.map(str::to_owned).collect()
    }

    /// Command lines of this program that a message or a help text quotes.
    fn named_command_lines(text: &str) -> Vec<String> {
        let text = text.replace("\\\"", "`");
        let mut found = Vec::new();
        for (at, _) in text.match_indices("`culvert ") {
            let rest = &text[at + 1..];
            let end = rest.find(['`', '\n', '|', '>']).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
        }
        found
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
