//! The options of conditions: one for each field.

use super::words::{CONDITION_FIELDS, ConditionField, ConditionTexts, Input, parse_ahead};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use culvert_wire::model::Condition;

/// The conditions that options ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct ConditionArguments(ConditionTexts);

impl ConditionArguments {
    /// The conditions.
    pub(super) fn conditions(&self) -> Result<Vec<Condition>, String> {
        self.0.conditions()
    }
}

/// The name of a field as its option has it.
fn option(field: &ConditionField) -> String {
    field.name.replace('_', "-")
}

fn argument(field: &ConditionField) -> Arg {
    let argument = Arg::new(field.name)
        .long(option(field))
        .help(field.help)
        .help_heading("Conditions");
    match field.input {
        Input::Choice { .. } => argument.action(ArgAction::SetTrue),
        Input::Timestamp => {
            let instant = |text: &str| parse_ahead(text).map(|ahead| ahead.timestamp().to_string());
            argument.value_name(field.value_name).value_parser(instant)
        }
        Input::Windows | Input::WordLines | Input::Words | Input::Countries => {
            let argument = argument
                .value_name(field.value_name)
                .action(ArgAction::Append);
            match field.input.splits_at_commas() {
                true => argument.value_delimiter(','),
                false => argument,
            }
        }
    }
}

impl Args for ConditionArguments {
    fn augment_args(command: Command) -> Command {
        command.args(CONDITION_FIELDS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConditionArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut texts = ConditionTexts::default();
        for field in CONDITION_FIELDS {
            let given = match field.input {
                Input::Choice { .. } if matches.get_flag(field.name) => vec![Input::YES.to_owned()],
                Input::Choice { .. } => Vec::new(),
                Input::Windows
                | Input::WordLines
                | Input::Words
                | Input::Countries
                | Input::Timestamp => {
                    let given = matches.get_many::<String>(field.name);
                    given.into_iter().flatten().cloned().collect()
                }
            };
            texts.set(field, given);
        }
        Ok(Self(texts))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A kind of condition, by the option that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldName(&'static str);

impl FieldName {
    pub(super) fn of(condition: &Condition) -> Self {
        condition.field().into()
    }

    pub(super) fn parser() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(CONDITION_FIELDS.iter().map(option)).try_map(|name| {
            let found = CONDITION_FIELDS.iter().find(|field| option(field) == name);
            found.map(Self::from).ok_or("no kind of condition")
        })
    }
}

impl From<&'static ConditionField> for FieldName {
    fn from(field: &'static ConditionField) -> Self {
        Self(field.name)
    }
}
