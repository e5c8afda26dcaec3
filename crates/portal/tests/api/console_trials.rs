//! Identity providers and log sinks that are tried out before they are saved.

use crate::browser::signed_in;
use crate::openid_provider::{CLIENT_SECRET, Kind, OpenIdProvider};
use crate::support::Running;
use culvert_store::Role;
use serde_json::Value;
use tokio::net::TcpListener;
