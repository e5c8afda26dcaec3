//! The content security policies: they say what a browser may load for a page.

use axum::http::HeaderValue;

/// The content security policy. Pages load this portal's style sheets, font and logo and nothing else, and their
/// forms go to this portal alone. Inline styles and scripts do not count.
pub(super) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'",
);

/// The same for pages with the portal's own script, which may ask this portal, and make no HTML from text.
pub(super) const POLICY_WITH_SCRIPT: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);
