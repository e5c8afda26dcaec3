//! A route in the making: the same words that `#[utoipa::path]` would write into the document, for handlers that are
//! generic over their kind, which that macro can't describe.

use super::problems::Problems;
use super::state::Api;
use axum::handler::Handler;
use axum::routing::MethodRouter;
use culvert_wire::api::Page;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{
    Content, HttpMethod, Object, Ref, RefOr, Required, ResponseBuilder, ResponsesBuilder, Schema,
    SecurityRequirement, Type, schema::SchemaType,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::PathItemExt;
use utoipa_axum::router::UtoipaMethodRouter;

const JSON: &str = "application/json";

/// A route that callers with a token use, as far as it is described.
pub(super) struct Described {
    method: HttpMethod,
    path: String,
    operation: OperationBuilder,
    /// The schemas that it refers to, by their names.
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Described {
    pub(super) fn new(method: HttpMethod, path: String, tag: &str) -> Self {
        let problems = ResponsesBuilder::new().responses_from_into_responses::<Problems>();
        Self {
            method,
            path,
            operation: OperationBuilder::new()
                .tag(tag)
                .responses(problems)
                .security(SecurityRequirement::new("token", [""; 0])),
            schemas: Vec::new(),
        }
    }

    /// Gives it its name in the document, and its title.
    pub(super) fn named(self, id: String, summary: String) -> Self {
        self.with(|operation| operation.operation_id(Some(id)).summary(Some(summary)))
    }

    /// Adds a text, unless it is empty.
    pub(super) fn about(self, text: &str) -> Self {
        let text = Some(text).filter(|text| !text.is_empty());
        self.with(|operation| operation.description(text))
    }

    /// Its path has the id of one thing.
    pub(super) fn id(self) -> Self {
        self.parameter("id", ParameterIn::Path, Required::True, "Which one")
    }

    /// It reads the header `If-Match`.
    pub(super) fn if_match(self, required: Required, description: &str) -> Self {
        self.parameter("if-match", ParameterIn::Header, required, description)
    }

    /// It takes the query parameters of a `Q`.
    pub(super) fn query<Q: IntoParams>(self) -> Self {
        let parameters = Q::into_params(|| Some(ParameterIn::Query));
        self.with(|operation| operation.parameters(Some(parameters)))
    }

    /// Its body is a `T`.
    pub(super) fn takes<T: ToSchema>(mut self) -> Self {
        let body = RequestBodyBuilder::new()
            .content(JSON, self.content::<T>(&T::name()))
            .required(Some(Required::True));
        self.with(|operation| operation.request_body(Some(body.build())))
    }

    /// It answers with a `T`.
    pub(super) fn answers<T: ToSchema>(self, status: &str, description: &str) -> Self {
        self.answers_by_name::<T>(status, description, &T::name())
    }

    /// It answers with a page. A generic schema has the names of its arguments in its own, which
    /// [`ToSchema::name`] leaves out.
    pub(super) fn answers_page<T: ToSchema>(self) -> Self {
        self.answers_by_name::<Page<T>>("200", "A page", &format!("Page_{}", T::name()))
    }

    /// It answers without a body.
    pub(super) fn answers_nothing(self, description: &str) -> Self {
        let response = ResponseBuilder::new().description(description).build();
        self.with(|operation| operation.response("204", response))
    }

    pub(super) fn served_by<T: 'static>(
        self,
        handler: impl Handler<T, Api>,
    ) -> UtoipaMethodRouter<Api> {
        let served = MethodRouter::new().on(self.method.to_method_filter(), handler);
        let mut paths = Paths::new();
        paths.add_path_operation(&self.path, vec![self.method], self.operation);
        (self.schemas, paths, served)
    }

    fn answers_by_name<T: ToSchema>(mut self, status: &str, description: &str, name: &str) -> Self {
        let response = ResponseBuilder::new()
            .description(description)
            .content(JSON, self.content::<T>(name));
        self.with(|operation| operation.response(status, response.build()))
    }

    fn with(mut self, more: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Self {
        self.operation = more(self.operation);
        self
    }

    /// A parameter that is a text.
    fn parameter(self, name: &str, at: ParameterIn, required: Required, text: &str) -> Self {
        let schema = match required {
            Required::True => Object::with_type(Type::String),
            Required::False => Object::with_type(SchemaType::from_iter([Type::String, Type::Null])),
        };
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(at)
            .required(required)
            .description(Some(text))
            .schema(Some(schema));
        self.with(|operation| operation.parameter(parameter))
    }

    /// A body of JSON that is a `T`, by a reference to its schema.
    fn content<T: ToSchema>(&mut self, name: &str) -> Content {
        self.schemas.push((name.to_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        Content::new(Some(Ref::from_schema_name(name)))
    }
}
