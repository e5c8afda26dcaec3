//! The reference of commands: what the program says of each with `--help`.

use super::pages::Pages;
use anyhow::{Result, bail};

/// Far more commands than there are: help that lists itself ends here.
const MAX_COMMANDS: usize = 500;

/// A page for each command of `culvert`, with those below it.
pub(super) fn pages(help: impl Fn(&[String]) -> Result<String>) -> Result<Pages> {
    let root = vec!["culvert".to_owned()];
    let mut pages = Pages::new();
    let mut count = 0;
    for name in below(&help(&root)?) {
        let mut page = String::new();
        // The next to write is the last: those below a command come right behind it.
        let mut ahead = vec![[root.clone(), vec![name.clone()]].concat()];
        while let Some(path) = ahead.pop() {
            count += 1;
            if count > MAX_COMMANDS {
                bail!("there are over {MAX_COMMANDS} commands");
            }
            let said = help(&path)?;
            page += &section(&path, &said);
            let below = below(&said).into_iter().rev();
            ahead.extend(below.map(|name| [path.clone(), vec![name]].concat()));
        }
        pages.insert(format!("commands/{name}.md"), page);
    }
    if pages.is_empty() {
        bail!("`culvert --help` lists no command");
    }
    Ok(pages)
}

fn section(path: &[String], said: &str) -> String {
    let level = "#".repeat((path.len() - 1).min(2));
    format!(
        "{level} {}\n\n```text\n{}\n```\n\n",
        path.join(" "),
        said.trim_end()
    )
}

/// The commands that help lists.
fn below(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| line.starts_with("  "));
    // A description that goes on in the next line stands further right.
    let names = list.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(path: &[String]) -> Result<String> {
        Ok(match path.join(" ").as_str() {
            "culvert" => {
                "Usage\n\nCommands:\n  a     does\n          more\n  b     is\n\nOptions:\n  -h\n"
            }
            "culvert a" => "A\n\nCommands:\n  c  x\n  help  y\n",
            other => other,
        }
        .to_owned())
    }

    #[test]
    fn each_command_has_a_page_with_those_below_it() {
        let pages = pages(help).unwrap();
        assert_eq!(
            pages.keys().collect::<Vec<_>>(),
            ["commands/a.md", "commands/b.md"]
        );
        let a = &pages["commands/a.md"];
        assert!(a.starts_with("# culvert a\n\n```text\nA\n"), "{a}");
        assert!(
            a.contains("## culvert a c\n\n```text\nculvert a c\n```"),
            "{a}"
        );
    }
}
