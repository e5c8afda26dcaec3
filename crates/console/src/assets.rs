//! The files that pages load: style sheet, scripts, font and logo. All are in the program.

use axum::extract::MatchedPath;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A file.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const FONT: &str = "font/woff2";
const SVG: &str = "image/svg+xml";

const LOGO: Asset = asset("logo.svg", SVG, include_bytes!("../assets/logo.svg"));

const ASSETS: &[Asset] = &[
    asset(
        "style.css",
        CSS,
        concat!(
            include_str!("../templates/tokens.css"),
            include_str!("../templates/style.css")
        )
        .as_bytes(),
    ),
    asset(
        "console.js",
        SCRIPT,
        include_bytes!("../templates/console.js"),
    ),
    asset("forms.js", SCRIPT, include_bytes!("../templates/forms.js")),
    asset(
        "passkey.js",
        SCRIPT,
        include_bytes!("../templates/passkey.js"),
    ),
    asset(
        "wireguard.js",
        SCRIPT,
        concat!(
            include_str!("../templates/qr.js"),
            include_str!("../templates/wireguard.js")
        )
        .as_bytes(),
    ),
    asset(
        "inter-latin.woff2",
        FONT,
        include_bytes!("../assets/inter-latin.woff2"),
    ),
    asset(
        "inter-latin-ext.woff2",
        FONT,
        include_bytes!("../assets/inter-latin-ext.woff2"),
    ),
    LOGO,
];

const fn asset(name: &'static str, media_type: &'static str, bytes: &'static [u8]) -> Asset {
    Asset {
        name,
        media_type,
        bytes,
    }
}

/// The file at this path.
pub(super) async fn serve(path: MatchedPath, headers: HeaderMap) -> Response {
    let name = path.as_str().rsplit('/').next();
    match ASSETS.iter().find(|asset| Some(asset.name) == name) {
        Some(asset) => asset.answer(&headers),
        None => Fault::NotFound("there is no such file".to_owned()).into_response(),
    }
}

/// The logo, where a browser looks for one without being told.
pub(super) async fn favicon(headers: HeaderMap) -> Response {
    LOGO.answer(&headers)
}

impl Asset {
    /// The file; nothing but "not modified" for a browser that has it (RFC 9110 §13.1.2). Browsers ask each time, so a new
    /// program never shows pages with the styles of an old one.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let etag = self.etag();
        let known = headers.get(header::IF_NONE_MATCH);
        let known = known.and_then(|known| known.to_str().ok()).unwrap_or("");
        // A proxy that compresses makes the tag a weak one.
        let mut tags = known.split(',').map(str::trim);
        let is_known = tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag);
        let about = [
            (header::CONTENT_TYPE, self.media_type.to_owned()),
            (header::CACHE_CONTROL, self.caching().to_owned()),
            (header::ETAG, etag),
        ];
        match is_known {
            true => (StatusCode::NOT_MODIFIED, about).into_response(),
            false => (about, self.bytes).into_response(),
        }
    }

    /// Fonts change with their names alone. A day without a question spares pages a flash of another font.
    fn caching(&self) -> &'static str {
        match self.media_type {
            FONT => "max-age=86400",
            _ => "no-cache",
        }
    }

    /// A hash of the content: it tells versions apart, and protects nothing.
    fn etag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}
