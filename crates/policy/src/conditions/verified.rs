//! An administrator has verified the client.

use super::{Fact, Field, Input, Kind, Subject};
use crate::PolicyError;
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An administrator has verified the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified;

/// An administrator has verified the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenVerified {}

/// Nobody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotVerified;

impl Kind for Verified {
    type Written = WrittenVerified;
    type Unmet = NotVerified;

    const FIELD: Field = Field {
        name: "verified",
        label: "Clients",
        hint: "",
        input: Input::Choice {
            no: "all",
            yes: "only verified ones",
        },
        value_name: "",
        help: "From clients that an administrator has verified",
    };
    const NEEDS: &'static [Fact] = &[Fact::Verified];
    const ADVICE: &'static str = "this client has to be verified by an administrator";

    fn read(texts: &[String]) -> Result<Option<WrittenVerified>, String> {
        let is_asked = texts.iter().any(|text| text == Input::YES);
        Ok(is_asked.then_some(WrittenVerified {}))
    }

    fn texts(_written: &WrittenVerified) -> Vec<String> {
        vec![Input::YES.to_owned()]
    }

    fn in_words(_written: &WrittenVerified) -> String {
        "verified".to_owned()
    }

    fn understand(_written: &WrittenVerified) -> Result<Self, PolicyError> {
        Ok(Self)
    }

    fn hold(&self, subject: &Subject, _now: UnixTime) -> Result<Option<UnixTime>, NotVerified> {
        match subject.verified {
            true => Ok(None),
            false => Err(NotVerified),
        }
    }
}

impl fmt::Display for NotVerified {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the client is not verified")
    }
}
