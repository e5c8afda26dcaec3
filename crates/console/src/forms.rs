//! Forms that come in: bounded, of a page of this session, and each field once.

use super::Console;
use super::person::{PageRefusal, Person};
use super::view::{Field, Form, Page};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_base::Fault;
use culvert_portal_base::{MAX_BODY_BYTES, read_body};
use culvert_portal_service::ListRequest;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Fields of a form; the largest of ours has a dozen.
const MAX_FIELDS: usize = 64;

/// The fields of a sent form, passwords among them.
pub(super) struct Fields(Vec<(String, Zeroizing<String>)>);

/// A form of a page that someone sees who signed in.
pub(super) struct Posted {
    pub(super) person: Person,
    pub(super) fields: Fields,
}

impl Fields {
    /// The text of a field, without the spaces around it.
    pub(super) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The same, as it was written.
    pub(super) fn raw(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The text of a field that may be left empty.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The lines of a field that are not empty.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let lines = self.text(name).lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The value of a field, read from its text.
    pub(super) fn parse<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, Fault> {
        let text = self.text(name);
        text.parse().map_err(|error| Fault::invalid(name, error))
    }

    /// The same of a field that may be left empty.
    pub(super) fn optional<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Fault> {
        match self.filled(name) {
            Some(_) => self.parse(name).map(Some),
            None => Ok(None),
        }
    }

    /// The fields as they were filled in, to be sent from another page of the session.
    pub(super) fn into_kept(self) -> Vec<(String, Zeroizing<String>)> {
        let mut kept = self.0;
        kept.retain(|(name, _)| name != "form_token");
        kept
    }

    /// A word of one of the API's enumerations.
    pub(super) fn word<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Fault> {
        let text = self.text(name);
        serde_json::from_value(text.into()).map_err(|error| Fault::invalid(name, error))
    }

    /// The version that the page showed.
    pub(super) fn version(&self) -> Result<Option<u64>, Fault> {
        self.parse("version").map(Some)
    }

    pub(super) fn parse_query(text: &str) -> Result<Self, Fault> {
        Self::of(text.as_bytes())
    }

    pub(super) fn of(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields: Vec<(String, Zeroizing<String>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            if fields.len() == MAX_FIELDS {
                return Err(Fault::Malformed("the form has too many fields".to_owned()));
            }
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(Fault::Malformed("the form has a field twice".to_owned()));
            }
            let value = Zeroizing::new(with_unix_lines(&value));
            fields.push((name.into_owned(), value));
        }
        Ok(Self(fields))
    }
}

/// Browsers end lines by CRLF. Here each line ends by one LF, so that a value stays the same when it is sent once more.
fn with_unix_lines(text: &str) -> String {
    let mut unix = String::with_capacity(text.len());
    let mut last = None;
    for char in text.chars() {
        match char {
            '\n' if last == Some('\r') => {}
            '\r' => unix.push('\n'),
            other => unix.push(other),
        }
        last = Some(char);
    }
    unix
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Fault;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Fault> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Fault::Malformed("it is no form".to_owned()));
        }
        let bytes = Zeroizing::new(read_body(request.into_body(), MAX_BODY_BYTES).await?);
        Self::of(&bytes)
    }
}

impl FromRequest<Console> for Posted {
    type Rejection = PageRefusal;

    async fn from_request(request: Request, console: &Console) -> Result<Self, PageRefusal> {
        let (mut parts, body) = request.into_parts();
        // Nobody who is not known makes the portal read a form.
        let person = Person::from_request_parts(&mut parts, console).await?;
        Self::of(person, Request::from_parts(parts, body)).await
    }
}

impl Posted {
    /// The form that this person sent.
    pub(super) async fn of(person: Person, request: Request) -> Result<Self, PageRefusal> {
        let fields = Fields::from_request(request, &()).await?;
        if !person.sent(fields.text("form_token")) {
            let text =
                "The page is of another session: open it again and send the form from there.";
            return Err(Fault::Forbidden(text.to_owned()).into());
        }
        Ok(Self { person, fields })
    }
}

/// The answer to a form: onward, or its page again with the fault.
pub(super) async fn taken<T, P: Future<Output = Result<Page, Fault>>>(
    came: Result<T, Fault>,
    form: impl FnOnce() -> Form,
    onward: impl FnOnce(T) -> Response,
    page: impl FnOnce(Form) -> P,
) -> Result<Response, Fault> {
    match came {
        Ok(made) => Ok(onward(made)),
        Err(fault) => {
            let (form, status) = form().refused(fault)?;
            Ok(page(form).await?.with_status(status))
        }
    }
}

/// The query of a page, as a form that only asks.
pub(super) struct Asked(pub(super) Fields);

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Fault;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        _state: &S,
    ) -> Result<Self, Fault> {
        Fields::parse_query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

impl Asked {
    /// The text about the change that the page before made, if its word is known.
    pub(super) fn done(&self) -> Option<&'static str> {
        let done = self.0.filled("done")?;
        let known = DONE.iter().find(|(word, _)| *word == done);
        known.map(|(_, sentence)| *sentence)
    }

    /// The same question at another path.
    pub(super) fn same(&self, path: &str) -> String {
        let query = self.query().finish();
        match query.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{query}"),
        }
    }

    /// The same page from where this part of the list ends.
    pub(super) fn next(&self, path: &str, cursor: Option<&str>) -> Option<String> {
        let mut query = self.query();
        query.append_pair("cursor", cursor?);
        Some(format!("{path}?{}", query.finish()))
    }

    /// The query without the position in the list.
    fn query(&self) -> form_urlencoded::Serializer<'static, String> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let kept = self.0.0.iter();
        let kept = kept.filter(|(name, value)| {
            !value.is_empty() && !matches!(name.as_str(), "cursor" | "done" | "span")
        });
        for (name, value) in kept {
            query.append_pair(name, value);
        }
        query
    }

    /// The part of a list that is asked for.
    pub(super) fn part(&self) -> ListRequest {
        ListRequest {
            cursor: self.cursor(),
            ..ListRequest::default()
        }
    }

    /// The same, of what has the words of [`Self::search`] in its name.
    pub(super) fn searched(&self) -> ListRequest {
        ListRequest {
            cursor: self.cursor(),
            ..ListRequest::searching(self.0.filled("search"))
        }
    }

    /// Looks for names in the list at `path`.
    pub(super) fn search(&self, path: &str) -> Form {
        let search = Field::line("search", "In the name")
            .optional()
            .value(self.0.text("search"));
        Form::new("Search", path, "Search", vec![search]).question()
    }

    /// The position at which the list continues.
    pub(super) fn cursor(&self) -> Option<String> {
        self.0.filled("cursor").map(str::to_owned)
    }
}

/// Texts about finished changes, by the word in the address.
const DONE: &[(&str, &str)] = &[
    ("made", "It is made."),
    ("changed", "It is changed."),
    ("deleted", "It is deleted."),
    ("revoked", "It is revoked."),
    ("added", "You may sign in by it from now on."),
    ("linked", "You may sign in this way from now on."),
    (
        "unlinked",
        "It is not linked any more, and other sessions have ended.",
    ),
    ("sessions", "The sessions have ended."),
    ("ended", "It has ended."),
    (
        "password",
        "The password is changed, and all other sessions have ended.",
    ),
];

/// Back to a page of ours, which says what was done.
pub(super) fn done(path: &str, word: &str) -> Response {
    Redirect::to(&format!("{path}?done={word}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_each_field_once_and_not_too_many() {
        let fields = Fields::of(b"name=a+b&text=1%0D%0A%0D%0A2").ok().unwrap();
        assert_eq!(fields.text("name"), "a b");
        assert_eq!(fields.lines("text"), ["1", "2"]);
        assert_eq!(fields.text("other"), "");
        let fields = Fields::of(b"text=1%0D%0D%0A2%0A%0D3").ok().unwrap();
        assert_eq!(fields.text("text"), "1\n\n2\n\n3");
        assert!(Fields::of(b"a=1&a=2").is_err());
        let many: Vec<String> = (0..=MAX_FIELDS).map(|at| format!("f{at}=")).collect();
        assert!(Fields::of(many.join("&").as_bytes()).is_err());
    }
}
