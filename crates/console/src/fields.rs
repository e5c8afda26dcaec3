//! The fields of a form or a query: bounded, and each once.

use axum::extract::{FromRequest, Request};
use axum::http::header;
use culvert_portal_base::{Fault, MAX_BODY_BYTES, read_body};
use std::ops::RangeInclusive;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Fields of a form; the largest of ours has a dozen.
const MAX_FIELDS: usize = 64;

/// The fields of a sent form, passwords among them.
pub(super) struct Fields(Vec<(String, Zeroizing<String>)>);

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

    /// The keys of the boxes of a field that are checked.
    pub(super) fn checked(&self, name: &str) -> impl Iterator<Item = &str> {
        let checked = self.0.iter().filter(|(_, value)| &***value == "yes");
        checked.filter_map(move |(field, _)| field.strip_prefix(name)?.strip_prefix('.'))
    }

    /// The value of a field, read from its text.
    pub(super) fn parse<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<T, Fault> {
        let text = self.text(name);
        text.parse().map_err(|error| Fault::invalid(name, error))
    }

    /// The whole number in a field.
    pub(super) fn number<T: FromStr + std::fmt::Display + PartialOrd>(
        &self,
        name: &str,
        range: &RangeInclusive<T>,
    ) -> Result<T, Fault> {
        let number = self.text(name).parse().ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                let (first, last) = (range.start(), range.end());
                let detail = format!("write a whole number from {first} to {last}");
                Fault::invalid(name, detail)
            })
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

    /// Each name with its value, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, Zeroizing<String>)> {
        self.0.iter()
    }

    /// The fields as they were filled in, to be sent from another page of the session.
    pub(super) fn into_stored(self) -> Vec<(String, Zeroizing<String>)> {
        let mut stored = self.0;
        stored.retain(|(name, _)| name != "form_token");
        stored
    }

    /// A word of one of the API's enumerations.
    pub(super) fn word<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Fault> {
        let text = self.text(name);
        serde_json::from_value(text.into())
            .map_err(|_| Fault::invalid(name, "choose one of those in the list"))
    }

    /// The version that the page showed.
    pub(super) fn version(&self) -> Result<Option<u64>, Fault> {
        let version = self.text("version").parse();
        let malformed = |_| {
            let text = "the form does not say which version of it you saw: open its page again";
            Fault::Malformed(text.to_owned())
        };
        version.map(Some).map_err(malformed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_answered_with_the_range() {
        let fields = Fields::of(b"days=7&many=seven&huge=99999999999&none=&more=3651&zero=0")
            .ok()
            .unwrap();
        let read = |name| fields.number(name, &(1..=3_650_u32));
        assert_eq!(read("days").ok(), Some(7));
        for name in ["many", "huge", "none", "other", "more", "zero"] {
            let fault = format!("{:?}", read(name).unwrap_err());
            assert!(
                fault.contains("write a whole number from 1 to 3650"),
                "{fault}"
            );
        }
        let fault = format!("{:?}", fields.version().unwrap_err());
        assert!(fault.contains("open its page again"), "{fault}");
    }

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
