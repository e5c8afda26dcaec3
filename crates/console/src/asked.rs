//! The query of a page: what it is asked for, and where it leads on.

use super::fields::Fields;

use axum::extract::FromRequestParts;
use culvert_portal_base::Fault;
use culvert_portal_service::ListRequest;
use culvert_wire::api::ActivitySpan;

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
    /// The same question at another path.
    pub(super) fn same(&self, path: &str) -> String {
        self.with(path, &[])
    }

    /// The same question at this path with other values of some fields; an empty one is left out. The position in a list
    /// and the span of a chart are no part of a question, unless they are among the changes.
    pub(super) fn with(&self, path: &str, changes: &[(&str, &str)]) -> String {
        const POSITION: [&str; 3] = ["cursor", "page", "span"];
        let mut query = form_urlencoded::Serializer::new(String::new());
        let fields = self.0.iter().map(|(name, value)| (&**name, &***value));
        let unchanged = fields.filter(|(name, _)| {
            let is_changed = changes.iter().any(|(changed, _)| changed == name);
            !is_changed && !POSITION.contains(name)
        });
        let all = unchanged.chain(changes.iter().copied());
        for (name, value) in all.filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        match query.finish() {
            query if query.is_empty() => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// The same page from where this part of the list ends.
    pub(super) fn next(&self, path: &str, cursor: Option<&str>) -> Option<String> {
        cursor.map(|cursor| self.with(path, &[("cursor", cursor)]))
    }

    /// The part of a list that is asked for.
    pub(super) fn part(&self) -> ListRequest {
        ListRequest {
            cursor: self.cursor(),
            ..ListRequest::default()
        }
    }

    /// The span of time that a chart is asked for; an hour by default and for unknown values.
    pub(super) fn span(&self) -> ActivitySpan {
        match self.0.text("span") {
            "day" => ActivitySpan::Day,
            "week" => ActivitySpan::Week,
            _ => ActivitySpan::Hour,
        }
    }

    /// The position at which the list continues.
    pub(super) fn cursor(&self) -> Option<String> {
        self.0.filled("cursor").map(str::to_owned)
    }
}
