//! Problem documents (RFC 9457), as the document of the API describes them.

use culvert_wire::api::{PROBLEM_MEDIA_TYPE, ProblemKind};
use std::collections::BTreeMap;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

/// The problems that every route may answer with.
pub(super) struct Problems;

impl utoipa::IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let content = || {
            ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build()
        };
        let response = |kind: ProblemKind| {
            let response = ResponseBuilder::new()
                .description(kind.title())
                .content(PROBLEM_MEDIA_TYPE, content())
                .build();
            (kind.status().to_string(), RefOr::T(response))
        };
        // `MethodNotAllowed` is left out: it only answers paths and methods that are in no
        // document.
        ProblemKind::ALL
            .into_iter()
            .filter(|kind| *kind != ProblemKind::MethodNotAllowed)
            .map(response)
            .collect()
    }
}
