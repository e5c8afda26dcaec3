//! Cookies that a browser presents.

use axum::http::{HeaderMap, header};
use zeroize::Zeroizing;

/// The value of a cookie.
pub(super) fn cookie_of(headers: &HeaderMap, wanted: &str) -> Option<Zeroizing<String>> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
    Some(Zeroizing::new(value.to_owned()))
}
