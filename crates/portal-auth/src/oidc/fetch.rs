//! Requests to a provider: HTTPS alone, no redirections, bounded in bytes and in time.

use super::fault::{SignInFault, copyable, repeated};
use culvert_http::{
    BodyError, HttpError, Limits, Network, Target, USER_AGENT, ask, client_config, system_roots,
};
use culvert_link::system_look_up;
use culvert_wire::check_authority;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// The time limit of a request, connecting included: a person waits for it.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Bytes of an answer. Keys of the largest providers take 20 KiB, a token with a thousand groups 100 KiB.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Bytes of an answer that is not JSON which an error shows: enough to tell a sign-in page from a proxy's.
const MAX_SHOWN_BYTES: usize = 80;

/// Sends requests to a provider.
pub(super) struct Fetcher {
    network: Network,
}

/// A request to a provider.
pub(super) struct Ask<'a> {
    pub(super) url: &'a str,
    pub(super) authorization: Option<Zeroizing<String>>,
    /// A form that is sent; without one, something is asked for.
    pub(super) form: Option<Zeroizing<String>>,
    /// Types of an answer that is understood.
    pub(super) accept: &'static str,
    /// The time limit of the request.
    pub(super) limit: Duration,
}

impl<'a> Ask<'a> {
    /// Asks for JSON, as nobody.
    pub(super) const fn of(url: &'a str) -> Self {
        Self {
            url,
            authorization: None,
            form: None,
            accept: "application/json",
            limit: LIMIT,
        }
    }
}

/// An answer, whatever its status.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    content_type: String,
    location: Option<String>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Fetcher {
    /// Believes the authorities of this system, and those in `ca`.
    pub(super) fn trusting(ca: Option<&str>) -> Result<Self, SignInFault> {
        let mut roots = system_roots();
        roots.add_parsable_certificates(certificates(ca.unwrap_or_default()).unwrap_or_default());
        let tls = client_config(roots);
        let tls = tls.map_err(|error| SignInFault::Away(error.to_string()))?;
        let network = Network {
            look_up: system_look_up,
            tls: Some(tls),
        };
        Ok(Self { network })
    }

    /// Asks for JSON, which a good answer is.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, SignInFault> {
        self.send(&Ask::of(url)).await?.good(url)
    }

    pub(super) async fn send(&self, asked: &Ask<'_>) -> Result<Answer, SignInFault> {
        let shown = copyable(asked.url);
        let away = |error: &dyn fmt::Display| SignInFault::Away(format!("{shown}: {error}"));
        https(asked.url)?;
        let target = Target::parse(asked.url).map_err(|error| away(&error))?;
        let request = request(&target, asked)?;
        let limits = Limits {
            time: asked.limit,
            answer_bytes: MAX_ANSWER_BYTES,
        };
        let answer = ask(&self.network, &target, request, limits).await;
        let answer = answer.map_err(|error| match error {
            HttpError::Late(limit) => {
                let seconds = limit.as_secs();
                let text = format!("{shown} did not answer within {seconds} s");
                SignInFault::Away(text)
            }
            error => away(&error),
        })?;
        let bytes = answer.body.map_err(|error| match error {
            BodyError::TooLong => away(&format_args!(
                "its answer is longer than {} KiB ({error})",
                MAX_ANSWER_BYTES / 1024
            )),
            BodyError::Broken(_) => away(&error),
        })?;
        Ok(Answer {
            status: answer.status,
            content_type: text(&answer.headers, &header::CONTENT_TYPE).unwrap_or_default(),
            location: text(&answer.headers, &header::LOCATION),
            bytes,
        })
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Fetcher")
    }
}

impl Answer {
    /// The JSON of the answer, if its status says that all is well.
    pub(super) fn good<T: DeserializeOwned>(&self, url: &str) -> Result<T, SignInFault> {
        self.check_status(url)?;
        self.json(url)
    }

    /// True for a status of success.
    pub(super) fn check_status(&self, url: &str) -> Result<(), SignInFault> {
        if self.status != StatusCode::OK {
            let url = copyable(url);
            let status = self.status;
            let away = match &self.location {
                Some(location) if status.is_redirection() => format!(
                    "{url} answers {status} and leads to {} , where nobody is asked: configure the address that answers",
                    copyable(location)
                ),
                _ => format!("{url} answers {status}"),
            };
            return Err(SignInFault::Away(away));
        }
        Ok(())
    }

    /// The JSON of the answer.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T, SignInFault> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let url = copyable(url);
            // Only pages are shown: what the token endpoint says otherwise may hold secrets.
            let text = match error.is_data() {
                true => format!("the JSON of {url}: {}", repeated(&error.to_string())),
                false => format!("{url} answers with {}, and JSON was expected", self.kind()),
            };
            SignInFault::Wrong(text)
        })
    }

    /// The body as text.
    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// True if `Content-Type` is this media type.
    pub(super) fn is_of(&self, media_type: &str) -> bool {
        let own = self.content_type.split(';').next().unwrap_or_default();
        own.trim().eq_ignore_ascii_case(media_type)
    }

    /// A description of an unexpected body, for people.
    fn kind(&self) -> String {
        let kind = match self.content_type.trim() {
            "" => "something without a content type".to_owned(),
            kind => copyable(kind),
        };
        let is_page = self.is_of("text/html");
        let begin = &self.bytes[..self.bytes.len().min(MAX_SHOWN_BYTES)];
        match is_page && !begin.is_empty() {
            true => format!(
                "{kind} that begins with {:?}",
                repeated(&String::from_utf8_lossy(begin))
            ),
            false => kind,
        }
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A URL of HTTPS that names a host and maybe a port, and nobody.
pub fn https(url: &str) -> Result<Uri, SignInFault> {
    let uri = url.parse::<Uri>().ok();
    let good = uri.filter(|uri| {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        uri.scheme_str() == Some("https") && check_authority(authority).is_ok()
    });
    good.ok_or_else(|| SignInFault::Wrong(format!("{} is no https:// URL", copyable(url))))
}

/// The certificates in a text; nothing where one of them is none.
pub fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes());
    found.collect::<Result<Vec<_>, _>>().ok()
}

fn request(target: &Target, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, SignInFault> {
    let wrong = |_| SignInFault::Wrong(format!("{} can't be asked for", ask.url));
    let mut request = Request::builder()
        .uri(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::ACCEPT, ask.accept)
        .header(header::USER_AGENT, USER_AGENT);
    if let Some(authorization) = &ask.authorization {
        let value = HeaderValue::from_str(authorization);
        let mut value =
            value.map_err(|_| SignInFault::Wrong("its token is no header".to_owned()))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    let body = match &ask.form {
        Some(form) => {
            request = request
                .method(Method::POST)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            Bytes::copy_from_slice(form.as_bytes())
        }
        None => Bytes::new(),
    };
    request.body(Full::new(body)).map_err(wrong)
}

#[cfg(test)]
#[path = "../../../../tests/fixtures/half_dead_host.rs"]
mod half_dead_host;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: StatusCode, content_type: &str, body: &str) -> Answer {
        Answer {
            status,
            content_type: content_type.to_owned(),
            location: Some("https://elsewhere.example/\u{202e}".to_owned()),
            bytes: Zeroizing::new(body.as_bytes().to_vec()),
        }
    }

    #[test]
    fn a_provider_that_redirects_has_not_answered() {
        let good = |status| {
            let answer = answer(status, "application/json", "{}");
            answer.good::<serde_json::Value>("https://id.example/")
        };
        assert!(good(StatusCode::OK).is_ok());
        for status in [StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT] {
            let text = good(status).unwrap_err().to_string();
            assert!(
                text.contains("https://elsewhere.example/\\u{202e} "),
                "{text}"
            );
        }
    }

    #[test]
    fn an_answer_that_is_no_json_says_what_it_is_and_shows_no_secret() {
        let of = |content_type: &str, body: &str| {
            let answer = answer(StatusCode::OK, content_type, body);
            let json =
                answer.json::<std::collections::BTreeMap<String, String>>("https://id.example/");
            json.unwrap_err().to_string()
        };
        let page = of(
            "Text/HTML; charset=utf-8",
            &"<!doctype html>\n".repeat(5_000),
        );
        assert!(
            page.contains("Text/HTML") && page.contains("<!doctype html>"),
            "{page}"
        );
        assert!(page.len() < 400, "{page}");
        assert!(of("", "").contains("without a content type"));
        for (content_type, body) in [
            ("application/json", "{\"a\": secret"),
            ("application/jwt", "secret"),
            ("text/plain", "access_token=secret"),
            ("", "secret"),
        ] {
            let text = of(content_type, body);
            assert!(
                !text.contains("secret") && text.contains("JSON was expected"),
                "{text}"
            );
        }
    }

    /// Through the whole way that a sign-in takes, with a resolver of the test.
    #[tokio::test]
    async fn a_provider_with_a_dead_address_before_a_good_one_is_asked() {
        let (dead, _held) = half_dead_host::silent().await;
        let certified = rcgen::generate_simple_self_signed(vec!["*.test".to_owned()]).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = half_dead_host::half_dead(dead, listener.local_addr().unwrap());
        let mut fetcher = Fetcher::trusting(Some(&certified.cert.pem())).unwrap();
        fetcher.network.look_up = half_dead_host::look_up;
        let url = format!("https://{name}/");
        // It reaches TLS: this listener answers with an alert.
        let refusing = async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut stream, _) = listener.accept().await.unwrap();
            let _hello = stream.read(&mut [0; 1024]).await.unwrap();
            stream.write_all(&[21, 3, 3, 0, 2, 2, 70]).await.unwrap();
            stream
        };
        let ask = Ask {
            limit: Duration::from_secs(5),
            ..Ask::of(&url)
        };
        let (asked, _open) = tokio::join!(fetcher.send(&ask), refusing);
        let text = asked.err().expect("it is refused").to_string();
        assert!(text.contains("neither TLS 1.3 nor TLS 1.2"), "{text}");
    }
}
