//! The list of the kinds of conditions, and what goes through it.

use super::{
    ClientSystems, Countries, Entries, Expires, Fact, Field, Kind, PublicAddresses, Subject, Times,
    Verified,
};
use crate::PolicyError;
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Each kind, in the order of forms: its name in the code, its type, and its `kind` in JSON.
macro_rules! kinds {
    ($($name:ident: $kind:ident = $tag:literal,)+) => {
        /// One condition that was understood.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Condition {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $name($kind),)+
        }

        /// One condition; a policy holds when all of its conditions do.
        ///
        /// It is as JSON has it. An unknown field is refused, because it may have been meant to narrow it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum WrittenCondition {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                #[serde(rename = $tag)]
                $name(<$kind as Kind>::Written),
            )+
        }

        /// Something that stands against a policy. Its text is for administrators.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Unmet {
            /// The policy is disabled.
            Disabled,
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $name(<$kind as Kind>::Unmet),)+
        }

        /// The field of each kind, in the order of forms.
        pub const FIELDS: &[Field] = &[$(<$kind as Kind>::FIELD),+];

        impl Condition {
            /// Understands what is written.
            ///
            /// # Errors
            /// [`PolicyError`] says which part of it can't be.
            pub fn understand(written: &WrittenCondition) -> Result<Self, PolicyError> {
                Ok(match written {
                    $(WrittenCondition::$name(written) => Self::$name($kind::understand(written)?),)+
                })
            }

            /// The facts that it looks at, and no others.
            #[must_use]
            pub const fn needs(&self) -> &'static [Fact] {
                match self {
                    $(Self::$name(_) => <$kind as Kind>::NEEDS,)+
                }
            }

            pub(super) fn entries(&self) -> Option<Entries> {
                match self {
                    $(Self::$name(condition) => condition.entries(),)+
                }
            }

            /// See [`Kind::hold`].
            pub(crate) fn hold(&self, subject: &Subject, now: UnixTime) -> Result<Option<UnixTime>, Unmet> {
                match self {
                    $(Self::$name(condition) => condition.hold(subject, now).map_err(Unmet::$name),)+
                }
            }

            /// See [`Kind::may_ever_hold`].
            pub(crate) fn may_ever_hold(&self, subject: &Subject, now: UnixTime) -> bool {
                match self {
                    $(Self::$name(condition) => condition.may_ever_hold(subject, now),)+
                }
            }

            /// See [`Kind::next_change`].
            pub(crate) fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
                match self {
                    $(Self::$name(condition) => condition.next_change(now),)+
                }
            }
        }

        impl WrittenCondition {
            /// Checks what somebody writes now: see [`Kind::check_new`].
            ///
            /// # Errors
            /// [`PolicyError`] says which part of it can't be.
            pub fn check_new(&self) -> Result<(), PolicyError> {
                match self {
                    $(Self::$name(written) => $kind::check_new(written),)+
                }
            }

            /// The field of its kind.
            #[must_use]
            pub const fn field(&self) -> &'static Field {
                match self {
                    $(Self::$name(_) => &<$kind as Kind>::FIELD,)+
                }
            }

            /// The texts of the field that ask for it.
            #[must_use]
            pub fn texts(&self) -> Vec<String> {
                match self {
                    $(Self::$name(written) => $kind::texts(written),)+
                }
            }

            /// The condition that the texts of a field ask for, if they ask for any.
            pub(super) fn read(field: &Field, texts: &[String]) -> Result<Option<Self>, String> {
                $(
                    if field.name == <$kind as Kind>::FIELD.name {
                        return Ok($kind::read(texts)?.map(Self::$name));
                    }
                )+
                Ok(None)
            }
        }

        /// In a few words, for people.
        impl fmt::Display for WrittenCondition {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&match self {
                    $(Self::$name(written) => $kind::in_words(written),)+
                })
            }
        }

        impl Unmet {
            /// The same for the client. It does not say for whom the condition would hold.
            #[must_use]
            pub fn advice(&self) -> &'static str {
                match self {
                    Self::Disabled => "access is switched off",
                    $(Self::$name(unmet) => $kind::advice(unmet),)+
                }
            }
        }

        impl fmt::Display for Unmet {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Disabled => out.write_str("the policy is disabled"),
                    $(Self::$name(unmet) => unmet.fmt(out),)+
                }
            }
        }

        $(
            impl From<$kind> for Condition {
                fn from(condition: $kind) -> Self {
                    Self::$name(condition)
                }
            }

            impl From<<$kind as Kind>::Written> for WrittenCondition {
                fn from(written: <$kind as Kind>::Written) -> Self {
                    Self::$name(written)
                }
            }
        )+

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for WrittenCondition {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let schemas = [
                    $(tagged(<<$kind as Kind>::Written as utoipa::PartialSchema>::schema(), $tag),)+
                ];
                let one_of = utoipa::openapi::schema::OneOfBuilder::new();
                let one_of = schemas.into_iter().fold(one_of, |all, each| all.item(each));
                one_of
                    .description(Some("One condition; a policy holds when all of its conditions do."))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for WrittenCondition {
            fn name() -> std::borrow::Cow<'static, str> {
                "Condition".into()
            }

            fn schemas(
                schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>,
            ) {
                $(<<$kind as Kind>::Written as utoipa::ToSchema>::schemas(schemas);)+
            }
        }
    };
}

kinds! {
    Time: Times = "time",
    PublicAddress: PublicAddresses = "public_address",
    Country: Countries = "country",
    Verified: Verified = "verified",
    ClientOs: ClientSystems = "client_os",
    Expires: Expires = "expires",
}

/// The schema of a kind with its `kind` in it.
#[cfg(feature = "openapi")]
fn tagged(
    schema: utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
    tag: &str,
) -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
    let RefOr::T(Schema::Object(mut object)) = schema else {
        return schema;
    };
    let kind = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some([tag]));
    object.properties.insert("kind".to_owned(), kind.into());
    object.required.push("kind".to_owned());
    // As serde has it, the fields of the kind alone are refused where they are unknown.
    object.additional_properties = None;
    RefOr::T(Schema::Object(object))
}
