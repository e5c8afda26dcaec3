//! The bodies of requests: JSON.

use axum::extract::{FromRequest, MatchedPath, Request};
use axum::http::header;
use culvert_portal_base::{Fault, limit_for, read_body};
use serde::de::DeserializeOwned;

/// A body of JSON that is a `T`. It is the last that a handler takes, after who asks: nobody who is
/// not known makes the portal read one.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Fault> {
        let media_type = request.headers().get(header::CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(is_json) {
            return Err(Fault::UnsupportedMediaType);
        }
        // The path that is matched: of a nested router's URI the beginning is missing.
        let path = request.extensions().get::<MatchedPath>();
        let limit = limit_for(path.map_or("", MatchedPath::as_str));
        let bytes = read_body(request.into_body(), limit).await?;
        parse(&bytes).map(Self)
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            let field = if field == "." { String::new() } else { field };
            let text = error.to_string();
            Fault::invalid(with_named_field(field, &text), in_words(&text))
        } else {
            Fault::Malformed(format!("the body is no JSON: {error}"))
        }
    })?;
    json.end()
        .map_err(|error| Fault::Malformed(format!("the body is more than one JSON: {error}")))?;
    Ok(parsed)
}

/// The deserializer's reason without the place in the text, which the field says, and without names of Rust's types.
fn in_words(error: &str) -> String {
    let reason = error
        .rsplit_once(" at line ")
        .map_or(error, |(reason, _)| reason);
    let Some((found, expected)) = reason.rsplit_once("expected ") else {
        return reason.to_owned();
    };
    let last = match expected {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" | "usize" => u64::MAX,
        _ if expected.starts_with("struct ") => return format!("{found}expected an object"),
        _ => return reason.to_owned(),
    };
    format!("{found}expected a whole number from 0 to {last}")
}

/// The path of a field that is missing or there twice: the deserializer knows only the path of what holds it,
/// and names the field in its text.
fn with_named_field(path: String, error: &str) -> String {
    let named = ["missing field `", "duplicate field `"]
        .iter()
        .find_map(|begin| error.strip_prefix(begin));
    match named.and_then(|rest| rest.split_once('`')) {
        Some((field, _)) if path.is_empty() => field.to_owned(),
        // A duplicate is known by its own path already.
        Some((field, _)) if path == field || path.ends_with(&format!(".{field}")) => path,
        Some((field, _)) => format!("{path}.{field}"),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::api::{NewGroup, NewResource};
    use proptest::prelude::*;

    fn field_of(fault: Fault) -> String {
        match fault {
            Fault::Invalid(errors) => errors[0].field.clone(),
            other => panic!("{other:?} is not about a field"),
        }
    }

    #[test]
    fn what_is_no_json_is_malformed_and_what_is_wrong_json_names_the_field() {
        for text in [
            "",
            "{",
            "{\"name\":",
            "nul",
            "{\"name\":\"a\"}x",
            "\u{feff}{}",
            "{'name':1}",
        ] {
            let fault = parse::<NewGroup>(text.as_bytes()).unwrap_err();
            assert!(matches!(fault, Fault::Malformed(_)), "{text}: {fault:?}");
        }
        for (text, field) in [
            ("[]", ""),
            ("null", ""),
            ("{}", "name"),
            ("{\"name\":1}", "name"),
            ("{\"name\":\"a\",\"nmae\":1}", "nmae"),
            ("{\"name\":\"a\",\"name\":\"b\"}", "name"),
        ] {
            let fault = parse::<NewGroup>(text.as_bytes()).unwrap_err();
            assert_eq!(field_of(fault), field, "{text}");
        }
        let text = r#"{"site":"site_00000000000000000000000000","name":"a","kind":"dns",
            "address":"a.b","filters":[{"protocol":"tcp","ports":[1,"9-1"]}]}"#;
        let fault = parse::<NewResource>(text.as_bytes()).unwrap_err();
        assert!(field_of(fault).starts_with("filters[0]"));
    }

    #[test]
    fn reasons_name_no_types_of_rust() {
        for (error, words) in [
            (
                "invalid value: integer `70000`, expected u16 at line 1 column 9",
                "invalid value: integer `70000`, expected a whole number from 0 to 65535",
            ),
            (
                "invalid type: string \"x\", expected u32",
                "invalid type: string \"x\", expected a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: null, expected struct NewGroup at line 1 column 4",
                "invalid type: null, expected an object",
            ),
            (
                "missing field `name` at line 1 column 2",
                "missing field `name`",
            ),
            (
                "unknown field `nmae`, expected `name`",
                "unknown field `nmae`, expected `name`",
            ),
        ] {
            assert_eq!(in_words(error), words);
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        let deep = "[".repeat(100_000);
        assert!(parse::<serde_json::Value>(deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<NewResource>(&bytes);
        }
    }
}
