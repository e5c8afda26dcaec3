use culvert_client::Request;
use culvert_client::status::SCHEMA_VERSION;
use culvert_host::{ErrorCode, OnlyStatus, SocketError, parse_request};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// A line that is accepted is a JSON object of this version, and its request survives its encoding. A second reader,
/// which reads any JSON first, comes to the same request or error. The text of an error shows nothing of the line but
/// its version, because a line may hold a token. A gateway takes the request for the state and no other.
///
/// # Panics
/// If a property does not hold.
pub fn socket_request(data: &[u8]) {
    let parsed = parse_request::<Request>(data, SCHEMA_VERSION);
    let of_gateway = parse_request::<OnlyStatus>(data, SCHEMA_VERSION);
    assert_eq!(of_gateway.is_ok(), parsed == Ok(Request::Status));
    match &parsed {
        Ok(request) => {
            let line = json!({ "schema_version": SCHEMA_VERSION, "request": request });
            assert_eq!(parse(&line).as_ref(), Ok(request));
        }
        Err(error) => assert_shows_nothing(error),
    }
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        // Of a key that is there twice, the last one counts in a value, and none in a request: so the value is written
        // again.
        let again = parse(&value);
        assert_eq!(
            again.as_ref().map_err(|error| error.code),
            expected(&value).as_ref().map_err(|code| *code)
        );
        if parsed.is_ok() {
            assert_eq!(parsed, again);
        }
    } else {
        // A part that no request has may be deeper or larger than a value.
        let is_json = serde_json::from_slice::<IgnoredAny>(data).is_ok();
        assert!(parsed.is_err() || is_json, "it is no JSON");
    }
}

fn parse(line: &Value) -> Result<Request, SocketError> {
    parse_request(line.to_string().as_bytes(), SCHEMA_VERSION)
}

/// The request in a JSON value, read without its envelope's type.
fn expected(value: &Value) -> Result<Request, ErrorCode> {
    let object = value.as_object().ok_or(ErrorCode::NotARequest)?;
    let version = object.get("schema_version").and_then(Value::as_u64);
    let version = version.and_then(|version| u32::try_from(version).ok());
    if version.ok_or(ErrorCode::NotARequest)? != SCHEMA_VERSION {
        return Err(ErrorCode::SchemaVersion);
    }
    let request = object.get("request").ok_or(ErrorCode::NotARequest)?;
    serde_json::from_value(request.clone()).map_err(|_| ErrorCode::NotARequest)
}

fn assert_shows_nothing(error: &SocketError) {
    let text = match error.code {
        ErrorCode::NotARequest => format!(
            "write a line such as {{\"schema_version\":{SCHEMA_VERSION},\"request\":\"status\"}}"
        ),
        ErrorCode::SchemaVersion => {
            let version = error.text.split(' ').nth(1).unwrap_or_default();
            let version: u32 = version.parse().expect("a version");
            assert_ne!(version, SCHEMA_VERSION);
            format!("schema_version {version} is not spoken here, but {SCHEMA_VERSION}")
        }
        code => panic!("{code:?} is not the parser's to give"),
    };
    assert_eq!(error.text, text);
}

/// The requests of docs/socket.md, and lines that are nearly requests.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        r#""status""#,
        r#"{"status":null}"#,
        r#"{"watch":{}}"#,
        r#"{"watch":{"after":1790000000000017}}"#,
        r#"{"watch":{"after":18446744073709551616}}"#,
        r#"{"watch":{"after":-1}}"#,
        r#"{"watch":{"after":1e3}}"#,
        r#"{"watch":[7]}"#,
        r#"{"watch":{"after":1,"after":2}}"#,
        r#"{"ask":"res_01m7zbz7jg3sg2yzr4y94kprs5"}"#,
        r#"{"ask":"web"}"#,
        r#"{"join":"backup"}"#,
        r#"{"join":"b\u0061ckup"}"#,
        r#"{"join":"\ud800"}"#,
        r#""up""#,
        r#""down""#,
        r#"{"up":null,"down":null}"#,
        r#"{"sign_in":{"portal":"https://portal.example.com"}}"#,
        r#"{"sign_in":{"portal":"https://portal.example.com","certificate":"AB:CD"}}"#,
        r#"{"sign_in":{"token":"cv_client_x.y"}}"#,
        r#"{"sign_in":{"token":"cv_client_x.y","portal":"https://portal.example.com"}}"#,
        r#"{"sign_in":{"certificate":"00"}}"#,
        r#"{"sign_in":{"tokn":"x"}}"#,
        r#"{"sign_in":["x",null,null]}"#,
        r#""cancel_sign_in""#,
        r#""sign_out""#,
        r#""log""#,
        r#"{"settings":{"dns":false}}"#,
        r#"{"settings":{"dns":null}}"#,
        r#"{"settings":{"mtu":1}}"#,
        r#""later""#,
        "null",
    ];
    let lines = requests.iter().flat_map(|request| {
        [
            format!("{{\"schema_version\":1,\"request\":{request}}}\n"),
            format!("{{\"schema_version\":2,\"request\":{request}}}"),
        ]
    });
    let odd = [
        "",
        "\n",
        "hello\n",
        "[1,\"status\"]",
        "[9]",
        "{}",
        "{\"schema_version\":1}",
        "{\"request\":\"status\"}",
        "{\"schema_version\":4294967296,\"request\":\"status\"}",
        "{\"schema_version\":\"1\",\"request\":\"status\"}",
        "{\"schema_version\":1.0,\"request\":\"status\"}",
        "{\"schema_version\":01,\"request\":\"status\"}",
        "{\"schema_version\":1,\"schema_version\":9,\"request\":\"status\"}",
        "{\"schema_version\":9,\"schema_version\":1,\"request\":\"status\"}",
        "{\"schema_version\":1,\"request\":\"up\",\"request\":\"down\"}",
        " \t\r\n{ \"request\" : \"status\" , \"later\" : [ { } ] , \"schema_version\" : 1 } \r\n",
        "{\"schema_version\":1,\"request\":\"status\"}\n{\"schema_version\":1,\"request\":\"up\"}\n",
        "{\"schema_version\":1,\"request\":\"status\"",
        "\u{feff}{\"schema_version\":1,\"request\":\"status\"}",
    ];
    let deep = format!(
        "{{\"later\":{}{},\"schema_version\":1,\"request\":\"status\"}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    let odd = odd.iter().map(ToString::to_string);
    lines
        .chain(odd)
        .chain([deep])
        .map(String::into_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these the target could see no request at all and look well.
    #[test]
    fn the_seeds_have_requests_and_both_errors() {
        let parsed: Vec<_> = seeds()
            .iter()
            .map(|seed| parse_request::<Request>(seed, SCHEMA_VERSION))
            .collect();
        let errors = |code| {
            let is_it = |parsed: &&Result<Request, SocketError>| {
                parsed.as_ref().is_err_and(|error| error.code == code)
            };
            parsed.iter().filter(is_it).count()
        };
        assert!(parsed.iter().filter(|parsed| parsed.is_ok()).count() >= 15);
        assert!(errors(ErrorCode::NotARequest) >= 15);
        assert!(errors(ErrorCode::SchemaVersion) >= 15);
    }
}
