//! Forms and their fields.

use axum::http::StatusCode;
use culvert_portal_base::Fault;
use culvert_portal_service::Question;
use culvert_store::EntityKind;
use culvert_wire::api::FieldProblem;
use std::borrow::Cow;

#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) title: String,
    pub(crate) method: &'static str,
    pub(crate) action: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) hidden: Vec<(Cow<'static, str>, String)>,
    pub(crate) submit: &'static str,
    /// A second button, which sends its word as `act`, and its name.
    pub(crate) second: Option<(&'static str, &'static str)>,
    pub(crate) is_grave: bool,
    /// The fault of the whole form.
    pub(crate) problem: Option<String>,
    /// Its first field has the focus, unless there is a fault to read.
    pub(crate) takes_focus: bool,
    /// The kind and the options of the request to an authenticator: its answer goes into the field
    /// `credential`.
    pub(crate) passkey: Option<(&'static str, String)>,
}

/// The task of an authenticator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PasskeyKind {
    /// Create a key.
    Create,
    /// Sign with one that it has.
    Get,
}

impl PasskeyKind {
    /// The method of `navigator.credentials`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    pub(crate) value: String,
    pub(crate) hint: &'static str,
    pub(crate) is_required: bool,
    pub(crate) problem: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Line {
        kind: &'static str,
        autocomplete: &'static str,
    },
    Lines,
    Choice(Vec<(String, String)>),
    /// A line with suggestions, of things that there are or of words that have a meaning.
    Suggested {
        /// The kind of things, of which a script asks for more.
        things: Option<EntityKind>,
        suggestions: Vec<String>,
        /// The field takes several, with commas between.
        is_list: bool,
    },
    /// Protocols with their ports, in rows.
    Ports(Vec<PortRow>),
    /// Boxes of which any number is checked. Each has a field of its own, `NAME.KEY`.
    Boxes(Vec<CheckBox>),
    /// Gateways of which any number is checked, each with an address of its own.
    Gateways(Vec<GatewayRow>),
    /// The public key of a device. With a script, the browser makes the key pair instead: if true, unless the person
    /// chooses otherwise.
    Key(bool),
}

/// A row of [`Kind::Gateways`]: its fields are `gateways.ID` and `endpoints.ID`.
#[derive(Clone, Debug)]
pub(crate) struct GatewayRow {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its site, and its state.
    pub(crate) about: String,
    pub(crate) is_checked: bool,
    pub(crate) endpoint: String,
    /// The text of an empty address.
    pub(crate) placeholder: &'static str,
}

/// A row of [`Kind::Ports`]: its fields are `protocol.N` and `ports.N`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortRow {
    pub(crate) protocol: String,
    pub(crate) ports: String,
    pub(crate) is_wrong: bool,
}

impl PortRow {
    /// The protocols, each with its name.
    pub(crate) const PROTOCOLS: [(&str, &str); 5] = [
        ("", "–"),
        ("tcp", "TCP"),
        ("udp", "UDP"),
        ("icmp", "ICMP (ping)"),
        ("any", "Everything"),
    ];
}

/// A box of [`Kind::Boxes`].
#[derive(Clone, Debug)]
pub(crate) struct CheckBox {
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) is_checked: bool,
}

impl Field {
    pub(crate) const fn line(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            kind: Kind::Line {
                kind: "text",
                autocomplete: "off",
            },
            value: String::new(),
            hint: "",
            is_required: true,
            problem: None,
        }
    }

    /// A password: never with what was written before. `autocomplete` is `current-password` or
    /// `new-password`.
    pub(crate) fn password(
        name: &'static str,
        label: &'static str,
        autocomplete: &'static str,
    ) -> Self {
        let kind = Kind::Line {
            kind: "password",
            autocomplete,
        };
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    pub(crate) fn lines(name: &'static str, label: &'static str) -> Self {
        let kind = Kind::Lines;
        Self {
            kind,
            is_required: false,
            ..Self::line(name, label)
        }
    }

    pub(crate) fn choice(
        name: &'static str,
        label: &'static str,
        choices: &[(&str, &str)],
    ) -> Self {
        let choices = choices
            .iter()
            .map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
        let kind = Kind::Choice(choices.collect());
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    /// The name of a thing that there is. [`Console::with_choices`](crate::state::Console::with_choices) adds those.
    pub(crate) fn thing(name: &'static str, label: &'static str, kind: EntityKind) -> Self {
        let kind = Kind::Suggested {
            things: Some(kind),
            suggestions: Vec::new(),
            is_list: false,
        };
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    /// A line with suggestions of words that have a meaning.
    pub(crate) fn suggested(name: &'static str, label: &'static str, is_list: bool) -> Self {
        let kind = Kind::Suggested {
            things: None,
            suggestions: Vec::new(),
            is_list,
        };
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    /// The same with these suggestions.
    pub(crate) fn suggesting(mut self, texts: Vec<String>) -> Self {
        if let Kind::Suggested { suggestions, .. } = &mut self.kind {
            *suggestions = texts;
        }
        self
    }

    /// Protocols with their ports.
    pub(crate) fn ports(name: &'static str, label: &'static str, rows: Vec<PortRow>) -> Self {
        let kind = Kind::Ports(rows);
        Self {
            kind,
            is_required: false,
            ..Self::line(name, label)
        }
    }

    /// A moment that a browser shows a calendar for.
    pub(crate) fn moment(name: &'static str, label: &'static str) -> Self {
        let kind = Kind::Line {
            kind: "datetime-local",
            autocomplete: "off",
        };
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    pub(crate) fn boxes(name: &'static str, label: &'static str, boxes: Vec<CheckBox>) -> Self {
        let kind = Kind::Boxes(boxes);
        Self {
            kind,
            is_required: false,
            ..Self::line(name, label)
        }
    }

    pub(crate) fn gateways(name: &'static str, label: &'static str, rows: Vec<GatewayRow>) -> Self {
        let kind = Kind::Gateways(rows);
        Self {
            kind,
            is_required: false,
            ..Self::line(name, label)
        }
    }

    /// The public key of a device, which the browser makes unless the person has one.
    pub(crate) fn key(name: &'static str, label: &'static str, is_made: bool) -> Self {
        let kind = Kind::Key(is_made);
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    /// True if the browser asks for one of the choices before it sends the form: the first of them is none.
    pub(crate) fn must_choose(&self) -> bool {
        let is_none = |choices: &[(String, String)]| {
            choices.first().is_some_and(|(value, _)| value.is_empty())
        };
        matches!(&self.kind, Kind::Choice(choices) if self.is_required && is_none(choices))
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn value(self, value: impl Into<String>) -> Self {
        let value = value.into();
        Self { value, ..self }
    }

    pub(crate) fn optional(self) -> Self {
        let is_required = false;
        Self {
            is_required,
            ..self
        }
    }

    /// Notes a problem beside those that it has: a text of many lines may have one in each.
    fn note(&mut self, detail: &str) {
        let problem = self.problem.get_or_insert_default();
        if !problem.is_empty() {
            problem.push_str("; ");
        }
        problem.push_str(detail);
    }

    pub(crate) fn has_note(&self) -> bool {
        self.problem.is_some() || !self.hint.is_empty()
    }
}

impl Form {
    pub(crate) fn new(
        title: impl Into<String>,
        action: impl Into<String>,
        submit: &'static str,
        fields: Vec<Field>,
    ) -> Self {
        Self {
            title: title.into(),
            method: "post",
            action: action.into(),
            fields,
            hidden: Vec::new(),
            submit,
            second: None,
            is_grave: false,
            problem: None,
            takes_focus: false,
            passkey: None,
        }
    }

    /// The same, with the focus in its first field.
    pub(crate) fn with_focus(self) -> Self {
        let takes_focus = true;
        Self {
            takes_focus,
            ..self
        }
    }

    /// Has the form send a value that nobody sees.
    pub(crate) fn hide(&mut self, name: impl Into<Cow<'static, str>>, value: String) {
        self.hidden.push((name.into(), value));
    }

    /// A form for what an authenticator answers, which the script of the page puts into it.
    pub(crate) fn for_passkey(mut self, kind: PasskeyKind, question: Question) -> Self {
        self.hide("credential", String::new());
        self.passkey = Some((kind.word(), question.0));
        self
    }

    /// A form that only asks for a page.
    pub(crate) fn question(self) -> Self {
        let method = "get";
        Self { method, ..self }
    }

    pub(crate) fn with_version(mut self, version: u64) -> Self {
        self.hide("version", version.to_string());
        self
    }

    /// The same with a button that tries out what it says, and saves nothing.
    pub(crate) fn with_test(self) -> Self {
        let second = Some(("test", "Test"));
        Self { second, ..self }
    }

    pub(crate) fn grave(self) -> Self {
        let is_grave = true;
        Self { is_grave, ..self }
    }

    /// True if a script has something to do in it.
    pub(crate) fn is_scripted(&self) -> bool {
        let is_scripted =
            |field: &Field| matches!(field.kind, Kind::Suggested { .. } | Kind::Ports(_));
        self.fields.iter().any(is_scripted)
    }

    /// True if a script may make a key for it.
    pub(crate) fn makes_key(&self) -> bool {
        let makes_key = |field: &Field| matches!(field.kind, Kind::Key(_));
        self.fields.iter().any(makes_key)
    }

    /// Tells its fields from those of another form on the page.
    pub(crate) fn key(&self) -> String {
        let plain = |char: char| match char.is_ascii_alphanumeric() {
            true => char.to_ascii_lowercase(),
            false => '-',
        };
        self.title.chars().map(plain).collect()
    }

    /// True of the field that has the focus when the page opens: the first that is wrong, which comes into view by it.
    pub(crate) fn has_focus(&self, field: &Field) -> bool {
        let wrong = self.fields.iter().find(|field| field.problem.is_some());
        let first = self
            .fields
            .first()
            .filter(|_| self.takes_focus && self.problem.is_none());
        wrong
            .or(first)
            .is_some_and(|focused| focused.name == field.name)
    }

    /// True if the fault of the whole form has the focus, as no field is wrong.
    pub(crate) fn has_focus_on_fault(&self) -> bool {
        self.fields.iter().all(|field| field.problem.is_none())
    }

    /// The same form with what is wrong: beside its field, or above where there is none for it.
    pub(crate) fn with_problems(mut self, problems: &[FieldProblem]) -> Self {
        let mut others = Vec::new();
        for problem in problems {
            let root = problem.field.split(['[', '.']).next().unwrap_or_default();
            let detail = problem.detail.clone();
            match self.fields.iter_mut().find(|field| field.name == root) {
                Some(field) => field.note(&detail),
                None if problem.field.is_empty() => others.push(detail),
                None => others.push(format!("{}: {detail}", problem.field)),
            }
        }
        let others = others.join("\n");
        self.problem = Some(match (others.is_empty(), self.method) {
            // A question changes nothing anyway.
            (true, "get") => "Look at the marked fields.".to_owned(),
            (true, _) => "Nothing was changed: look at the marked fields.".to_owned(),
            (false, _) => others,
        });
        self
    }
}

impl Form {
    /// The form again, with why it was refused; faults that are not about what it says go on.
    pub(crate) fn refused(self, fault: Fault) -> Result<(Self, StatusCode), Fault> {
        match fault {
            Fault::Invalid(problems) => Ok((
                self.with_problems(&problems),
                StatusCode::UNPROCESSABLE_ENTITY,
            )),
            Fault::Conflict(detail) => {
                let problem = Some(detail);
                Ok((Self { problem, ..self }, StatusCode::CONFLICT))
            }
            fault => Err(fault),
        }
    }
}

impl Form {
    /// True if its fault begins with a word.
    pub(crate) fn is_sentence(&self) -> bool {
        self.problem.as_deref().is_some_and(begins_with_word)
    }
}

impl Field {
    /// The same of the fault of a field.
    pub(crate) fn is_sentence(&self) -> bool {
        self.problem.as_deref().is_some_and(begins_with_word)
    }
}

/// True if a fault begins with a word of a sentence, and not with a name, an address or a sign.
fn begins_with_word(problem: &str) -> bool {
    let word = problem.split(' ').next().unwrap_or_default();
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::begins_with_word;

    #[test]
    fn a_fault_begins_with_a_capital_unless_it_begins_with_what_was_typed() {
        for sentence in ["it is empty", "there is no group `ops`", "name"] {
            assert!(begins_with_word(sentence), "{sentence}");
        }
        for typed in [
            "",
            "`tcp:0` is no port",
            "db.corp.example is taken",
            "10.0.0.1",
            "Kept",
        ] {
            assert!(!begins_with_word(typed), "{typed}");
        }
    }
}
