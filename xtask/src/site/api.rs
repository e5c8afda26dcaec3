//! The reference of the REST API, made of the document that the portal describes itself by (OpenAPI 3.1).

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// The methods of HTTP that an operation may have.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page.
pub(super) fn page(document: &Value) -> Result<String> {
    let info = &document["info"];
    let mut text = format!("# REST API\n\n{}\n\n", words(&info["description"]));
    text += "A portal serves the document that this page is made of at `/api/v1/openapi.json`, and `culvert \
             portal openapi` prints it.\n";
    let mut tags: BTreeMap<&str, String> = BTreeMap::new();
    for (path, item) in document["paths"].as_object().context("no paths")? {
        for method in METHODS {
            let Some(operation) = item.get(method) else {
                continue;
            };
            let tag = operation["tags"][0].as_str().unwrap_or("other");
            *tags.entry(tag).or_default() += &self::operation(method, path, operation);
        }
    }
    for (tag, operations) in tags {
        text += &format!("\n## {tag}\n{operations}");
    }
    text += "\n## What requests and answers are made of\n";
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.context("no schemas")? {
        text += &self::schema(name, schema);
    }
    Ok(text)
}

fn operation(method: &str, path: &str, operation: &Value) -> String {
    let mut text = format!(
        "\n### {}\n\n```http\n{} {path}\n```\n\n{}\n",
        words(&operation["summary"]),
        method.to_uppercase(),
        words(&operation["description"])
    );
    let parameters: Vec<_> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    if !parameters.is_empty() {
        text += "\n| parameter | in | |\n|---|---|---|\n";
    }
    for parameter in parameters {
        text += &format!(
            "| `{}` | {} | {} |\n",
            words(&parameter["name"]),
            words(&parameter["in"]),
            cell(&parameter["description"])
        );
    }
    let body = &operation["requestBody"]["content"];
    if let Some(schema) = body.as_object().and_then(|kinds| kinds.values().next()) {
        text += &format!("\nIt takes {}.\n", kind(&schema["schema"]));
    }
    text += "\n| status | |\n|---|---|\n";
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = response["content"]
            .as_object()
            .and_then(|kinds| kinds.values().next());
        let answer = content.map(|content| format!(": {}", kind(&content["schema"])));
        let answer = answer.unwrap_or_default();
        text += &format!(
            "| {status} | {}{answer} |\n",
            cell(&response["description"])
        );
    }
    text
}

fn schema(name: &str, schema: &Value) -> String {
    let mut text = format!("\n### {name}\n\n{}\n", words(&schema["description"]));
    let is_required = |field: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        required.filter_map(Value::as_str).any(|name| name == field)
    };
    if let Some(fields) = schema["properties"].as_object() {
        text += "\n| field | is | |\n|---|---|---|\n";
        for (field, of) in fields {
            let must = if is_required(field) {
                ""
            } else {
                ", may be missing"
            };
            text += &format!(
                "| `{field}` | {}{must} | {} |\n",
                kind(of),
                cell(&of["description"])
            );
        }
    } else {
        text += &format!("\nIt is {}.\n", kind(schema));
    }
    text
}

/// The type of a value in words, with a link to the schema that says more.
fn kind(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(kinds) = schema[several].as_array() {
            return kinds.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().map(|word| format!("`{}`", self::words(word)));
        return words.collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("a list of {}", kind(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(words).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The same within a table.
fn cell(value: &Value) -> String {
    words(value).replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_operation_and_schema_is_told() {
        let document = json!({
            "info": { "description": "Who may." },
            "paths": { "/a": { "post": {
                "tags": ["things"], "summary": "Make one",
                "parameters": [{ "name": "q", "in": "query", "description": "x|y" }],
                "requestBody": { "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Thing" } } } },
                "responses": { "201": { "description": "Made" } }
            } } },
            "components": { "schemas": { "Thing": {
                "required": ["a"],
                "properties": { "a": { "type": "string" }, "b": { "type": "array", "items": { "type": "integer" } } }
            } } }
        });
        let page = page(&document).unwrap();
        for wanted in [
            "## things\n\n### Make one\n\n```http\nPOST /a\n```",
            "| `q` | query | x\\|y |",
            "It takes [Thing](#thing).",
            "| 201 | Made |",
            "### Thing\n",
            "| `a` | string |  |",
            "| `b` | a list of integer, may be missing |  |",
        ] {
            assert!(page.contains(wanted), "{wanted} is missing in:\n{page}");
        }
    }
}
