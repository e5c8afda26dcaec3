//! The configuration file of a service: a key for each option of its `run` command, and nothing else.
//!
//! The options are written down once, for the command line. A key is the option's name with `_` for
//! `-`; what it may be is what the option takes. A value from the file takes the place of the option's
//! default, so that flags and environment variables go before it.

use crate::exit::{Failure, Status};
use crate::token_source;
use crate::toml_file::{FileError, line_of};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use culvert_host::{FileRefusal, HostError, Mark, Table, read_config_file};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// The option that names the file, which the file itself does not have.
const CONFIG: &str = "config";

/// The option instead of which the environment may hold the token itself.
const TOKEN_FILE: &str = "token_file";

/// A configuration file as it was read.
pub(crate) struct ConfigFile {
    path: PathBuf,
    text: String,
}

/// Values by the ids of the arguments that they are for.
type Defaults = Vec<(String, Vec<String>)>;

impl ConfigFile {
    /// The file that was named, which must be there, or `/etc/culvert/ROLE.toml` where there is one.
    pub(crate) fn read(role: &str, named: Option<&Path>) -> Result<Option<Self>, Failure> {
        let usual = PathBuf::from(format!("/etc/culvert/{role}.toml"));
        let path = named.map_or(usual, Path::to_owned);
        match read_config_file(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(HostError::FileRefused(refused))
                if refused.refusal == FileRefusal::Missing && named.is_none() =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::new(Status::Usage, error)),
        }
    }

    /// The value that the file gives to the option `id` of the service's `run` command.
    pub(crate) fn value(&self, run: &Command, id: &str) -> Result<Option<String>, Failure> {
        let defaults = self.defaults(run)?;
        let found = defaults.into_iter().find(|(key, _)| key == id);
        Ok(found.and_then(|(_, values)| values.into_iter().next()))
    }

    /// The command with the file's values as its defaults. The file is for `run`: of its values, another
    /// command takes those for which it has the same option.
    pub(crate) fn configure(&self, run: &Command, command: Command) -> Result<Command, Failure> {
        let mut defaults = self.defaults(run)?;
        // The environment goes before the file, whichever variable says what the token is.
        defaults.retain(|(id, _)| id != TOKEN_FILE || !token_source::is_in_environment());
        defaults.retain(|(id, _)| command.get_arguments().any(|option| option.get_id() == id));
        Ok(defaults.into_iter().fold(command, |command, (id, values)| {
            command.mut_arg(id, |arg| arg.default_values(values))
        }))
    }

    fn defaults(&self, command: &Command) -> Result<Defaults, Failure> {
        defaults(command, &self.text).map_err(|error| {
            let path = self.path.display();
            Failure::new(Status::Usage, format_args!("{path}:{error}"))
        })
    }
}

/// The form in which TOML writes an option's value.
#[derive(Clone, Copy)]
enum Form {
    Switch,
    Number,
    Text,
    Texts,
}

impl Form {
    fn of(option: &Arg) -> Self {
        let parsed = option.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<usize>(),
            TypeId::of::<Mark>(),
            TypeId::of::<Table>(),
        ];
        if !option.get_action().takes_values() {
            Self::Switch
        } else if option.get_value_delimiter().is_some() {
            Self::Texts
        } else if numbers.iter().any(|number| parsed == *number) {
            Self::Number
        } else {
            Self::Text
        }
    }

    /// The values of the option, or the type that was expected instead.
    fn values(self, value: &Value) -> Result<Vec<String>, &'static str> {
        match (self, value) {
            (Self::Switch, Value::Boolean(switch)) => Ok(vec![switch.to_string()]),
            (Self::Switch, _) => Err("true or false"),
            (Self::Number, Value::Integer(number)) => Ok(vec![number.to_string()]),
            (Self::Number, _) => Err("a number without quotation marks"),
            (Self::Text | Self::Texts, Value::String(text)) => Ok(vec![text.clone()]),
            (Self::Text, _) => Err("a text in quotation marks"),
            (Self::Texts, value) => {
                let texts = value.as_array().map(|list| {
                    let text = |item: &Value| item.as_str().map(str::to_owned);
                    list.iter().map(text).collect::<Option<Vec<String>>>()
                });
                texts.flatten().ok_or("a text, or a list of texts")
            }
        }
    }
}

fn defaults(command: &Command, text: &str) -> Result<Defaults, FileError> {
    let keys: BTreeMap<Spanned<String>, Spanned<Value>> =
        toml::from_str(text).map_err(|error| FileError::of(&error, text))?;
    let mut defaults = Defaults::new();
    for (key, value) in keys {
        let at = |offset, message| FileError {
            line: Some(line_of(text, offset)),
            message,
        };
        let key_begins = key.span().start;
        let (key, offset) = (key.into_inner(), value.span().start);
        let option = option(command, &key).map_err(|why| at(key_begins, why))?;
        let value = value.into_inner();
        let values = Form::of(option).values(&value).map_err(|expected| {
            let found = value.type_str();
            at(offset, format!("{key}: expected {expected}, found {found}"))
        })?;
        for value in &values {
            check(option, value).map_err(|why| at(offset, format!("{key}: {why}")))?;
        }
        defaults.push((option.get_id().to_string(), values));
    }
    Ok(defaults)
}

fn option<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let options = || keys(command).filter(|(name, _)| name != CONFIG);
    if let Some((_, option)) = options().find(|(name, _)| name == key) {
        return Ok(option);
    }
    let spelled = key.replace('-', "_");
    if options().any(|(name, _)| name == spelled) {
        return Err(format!("there is no key `{key}`: write `{spelled}`"));
    }
    let names: Vec<String> = options().map(|(name, _)| name).collect();
    let names = names.join(", ");
    Err(format!("there is no key `{key}`: there are {names}"))
}

/// The options of a command by their keys.
fn keys(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let options = command.get_arguments();
    options.filter_map(|option| Some((option.get_long()?.replace('-', "_"), option)))
}

/// Checks that the option takes the value; the error says why it does not.
fn check(option: &Arg, value: &str) -> Result<(), String> {
    if matches!(Form::of(option), Form::Switch) {
        return Ok(());
    }
    let name = option.get_long().unwrap_or_default();
    let alone = Command::new("file").no_binary_name(true);
    let parsed = alone
        .arg(option.clone())
        .try_get_matches_from([format!("--{name}={value}")]);
    parsed.map(drop).map_err(|error| {
        if let Some(source) = error.source() {
            return source.to_string();
        }
        match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(valid)) => format!("it is one of {}", valid.join(", ")),
            _ => error.kind().to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::CommandFactory;

    /// `culvert ROLE run`.
    fn run_of(role: &str) -> Command {
        let command = Arguments::command();
        let role = command.find_subcommand(role).unwrap();
        role.find_subcommand("run").unwrap().clone()
    }

    /// The arguments that a client's file gives, or the error.
    fn read(text: &str) -> Result<Vec<String>, String> {
        let values = |defaults: Defaults| {
            let one = |(id, values): (String, Vec<String>)| format!("{id}: {}", values.join(" "));
            defaults.into_iter().map(one).collect()
        };
        defaults(&run_of("client"), text)
            .map(values)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_an_option_and_its_value_what_the_option_takes() {
        let text = "mtu = 1_380\nmark = 0xca6c\nexit_when_unreachable = true\nname = 'büro'\n\
                    dns_upstream = '9.9.9.9'\ndns_listen = ['127.0.0.1:53', '[::1]:53']\n";
        let expected = [
            "dns_listen: 127.0.0.1:53 [::1]:53",
            "dns_upstream: 9.9.9.9",
            "exit_when_unreachable: true",
            "mark: 51820",
            "mtu: 1380",
            "name: büro",
        ];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("# nothing\n").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line_and_what_may_stand_there() {
        for (text, begins, holds) in [
            ("mtu = \n", "1: ", ""),
            (
                "\nmtuu = 1380",
                "2: there is no key `mtuu`: there are ",
                "mtu, ",
            ),
            ("state-dir = '/a'", "1: ", "write `state_dir`"),
            ("config = '/a'", "1: there is no key `config`", ""),
            (
                "token = 'cv_client_secret'",
                "1: there is no key `token`",
                "token_file",
            ),
            ("[client]\nmtu = 1380", "1: there is no key `client`", ""),
            ("name = 'a'\nname = 'b'", "2: ", "duplicate"),
            ("\n\nmtu = '1380'", "3: mtu: expected a number", "string"),
            ("mtu = 500", "1: mtu: ", "1280 to 65475"),
            ("workers = 0", "1: workers: ", "1 to 31"),
            ("mark = 0", "1: mark: ", "choose another"),
            ("table = 252", "1: table: ", "253"),
            ("interface = 5", "1: interface: expected a text", "integer"),
            ("interface = 'a/b'", "1: interface: ", "at most 15"),
            (
                "exit_when_unreachable = 'no'",
                "1: exit_when_unreachable: ",
                "true or false",
            ),
            ("dns_upstream = [5]", "1: dns_upstream: ", "a list of texts"),
            (
                "dns_upstream = ['dns.example']",
                "1: dns_upstream: ",
                "9.9.9.9",
            ),
            ("log_level = 'loud'", "1: log_level: ", "warn, info, debug"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(begins), "{text}\n{error}");
            assert!(error.contains(holds), "{text}\n{error}");
            assert!(!error.contains("cv_client"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_file_stands_in_for_what_the_command_line_does_not_say() {
        let text = "mtu = 1380\nmark = 7\nname = 'of file'\nexit_when_unreachable = true\n\
                    dns_upstream = ['9.9.9.9', '[::1]:5353', '9.9.9.9#dns.quad9.net']\n";
        let file = ConfigFile {
            path: "client.toml".into(),
            text: text.to_owned(),
        };
        let run = file.configure(&run_of("client"), run_of("client")).unwrap();
        let matches = run.get_matches_from(["run", "--mtu", "1400"]);
        assert_eq!(matches.get_one::<u16>("mtu"), Some(&1400));
        assert_eq!(matches.get_one::<Mark>("mark"), Mark::new(7).ok().as_ref());
        let name = matches.get_one::<String>("name");
        assert_eq!(name.map(String::as_str), Some("of file"));
        assert!(matches.get_flag("exit_when_unreachable"));
        let upstreams = matches.get_many::<culvert_client::Upstream>("dns_upstream");
        let upstreams = upstreams.unwrap().map(ToString::to_string);
        assert_eq!(
            upstreams.collect::<Vec<_>>(),
            ["9.9.9.9:53", "[::1]:5353", "9.9.9.9:853#dns.quad9.net"]
        );
    }

    #[test]
    fn another_command_takes_what_it_has_options_for_and_refuses_what_run_would() {
        let arguments = Arguments::command();
        let client = arguments.find_subcommand("client").unwrap();
        let clean_up = client.find_subcommand("cleanup").unwrap();
        let configure = |text: &str| {
            let file = ConfigFile {
                path: "client.toml".into(),
                text: text.to_owned(),
            };
            file.configure(&run_of("client"), clean_up.clone())
        };
        let configured = configure("table = 1000\nmtu = 1380\n").unwrap();
        let matches = configured.get_matches_from(["cleanup"]);
        let table = matches.get_one::<Table>("table");
        assert_eq!(table, Table::new(1000).ok().as_ref());
        assert!(configure("tables = 1000\n").is_err());
    }

    /// The first block of TOML in a document.
    fn example(document: &str) -> String {
        let (_, rest) = document.split_once("```toml\n").unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    }

    #[test]
    fn the_example_of_the_documentation_is_understood_and_has_every_option_of_a_client() {
        let text = example(include_str!("../../../docs/client.md"));
        defaults(&run_of("client"), &text).unwrap();
        let run = run_of("client");
        let lines = text
            .lines()
            .map(|line| line.strip_prefix("# ").unwrap_or(line));
        let all = defaults(&run, &lines.collect::<Vec<_>>().join("\n")).unwrap();
        let shown: Vec<String> = all.into_iter().map(|(id, _)| id).collect();
        for (key, _) in keys(&run).filter(|(key, _)| key != CONFIG) {
            assert!(shown.contains(&key), "docs/client.md does not show {key}");
        }
    }

    #[test]
    fn the_example_of_a_gateway_is_understood() {
        let text = example(include_str!("../../../docs/gateway.md"));
        assert_eq!(defaults(&run_of("gateway"), &text).unwrap().len(), 5);
    }

    #[test]
    fn the_example_of_a_relay_is_understood() {
        let text = example(include_str!("../../../docs/relay.md"));
        assert_eq!(defaults(&run_of("relay"), &text).unwrap().len(), 4);
    }
}
