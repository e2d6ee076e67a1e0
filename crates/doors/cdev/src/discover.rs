//! What the door can do, for programs: OpenRPC for the WebSocket and OpenAPI for REST, both made from the types that are
//! served.

use std::sync::OnceLock;

use axum::http::StatusCode;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::PROTOCOL;
use crate::error::Code;
use crate::form;
use crate::method::Entry;
use crate::methods::METHODS;
use crate::reply::Reply;
use crate::table::{ROUTES, Verb};

/// The description at this address, if there is one.
pub(crate) fn answer(path: &str) -> Option<Reply> {
    static OPENRPC: OnceLock<Value> = OnceLock::new();
    static OPENAPI: OnceLock<Value> = OnceLock::new();
    let document = match path {
        "/api/rpc/discover" => OPENRPC.get_or_init(openrpc),
        "/api/openapi.json" => OPENAPI.get_or_init(openapi),
        _ => return None,
    };
    Some(Reply::json(StatusCode::OK, document))
}

fn generator(settings: SchemaSettings) -> SchemaGenerator {
    settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
}

/// The members of an object, and which of them must be there.
fn members(schema: &Schema) -> (Vec<(String, Value)>, Vec<String>) {
    let object = |name: &str| schema.get(name).cloned().unwrap_or_default();
    let properties = object("properties").as_object().cloned().unwrap_or_default();
    let required = object("required").as_array().cloned().unwrap_or_default();
    let required = required.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    (properties.into_iter().collect(), required)
}

fn openrpc() -> Value {
    let mut generator = generator(SchemaSettings::draft07());
    let methods: Vec<Value> = METHODS.iter().map(|entry| rpc_method(entry, &mut generator)).collect();
    let errors: Map<String, Value> = Code::ALL.iter().map(|code| (format!("{code:?}"), error_object(*code))).collect();
    json!({
        "openrpc": "1.2.6",
        "info": {
            "title": "cdev",
            "version": PROTOCOL,
            "description": "JSON-RPC 2.0 over the WebSocket at /ws; events are notifications event/<type>.",
        },
        "methods": methods,
        "components": { "schemas": definitions(&mut generator), "errors": errors },
    })
}

fn rpc_method(entry: &Entry, generator: &mut SchemaGenerator) -> Value {
    let params = (entry.params)(generator);
    let (properties, required) = members(&params);
    let params: Vec<Value> = properties
        .into_iter()
        .map(|(name, schema)| json!({ "required": required.contains(&name), "name": name, "schema": schema }))
        .collect();
    let errors: Vec<Value> = [Code::Params, Code::Forbidden, Code::RateLimited, Code::Internal]
        .iter()
        .map(|code| json!({ "$ref": format!("#/components/errors/{code:?}") }))
        .collect();
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "paramStructure": "by-name",
        "params": params,
        "result": { "name": "result", "schema": (entry.result)(generator) },
        "errors": errors,
    })
}

fn error_object(code: Code) -> Value {
    json!({ "code": code.number(), "message": code.word(), "data": { "code": code.word() } })
}

fn definitions(generator: &mut SchemaGenerator) -> Value {
    Value::Object(generator.take_definitions(true))
}

fn openapi() -> Value {
    let mut generator = generator(SchemaSettings::draft2020_12());
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(&route.entry, route.verb, &mut generator);
        let known = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(known) = known.as_object_mut() {
            known.insert(route.verb.word().to_ascii_lowercase(), operation);
        }
    }
    let mut schemas = definitions(&mut generator);
    if let Some(schemas) = schemas.as_object_mut() {
        schemas.insert("Error".into(), error_schema());
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "cdev", "version": PROTOCOL },
        "paths": paths,
        "security": [{ "bearer": [] }],
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "error": { "type": "string" }, "code": { "type": "string" } },
        "required": ["error", "code"],
    })
}

fn operation(entry: &Entry, verb: Verb, generator: &mut SchemaGenerator) -> Value {
    let params = (entry.params)(generator);
    let result = (entry.result)(generator);
    let json_of = |schema: Value| json!({ "application/json": { "schema": schema } });
    let error = json!({
        "description": "why it failed",
        "content": json_of(json!({ "$ref": "#/components/schemas/Error" })),
    });
    let mut operation = json!({
        "operationId": format!("{} {}", verb.word(), entry.name),
        "summary": entry.summary,
        "responses": {
            "200": { "description": "what was asked for", "content": json_of(result.into()) },
            "4XX": error.clone(),
            "5XX": error,
        },
    });
    let described = match verb {
        Verb::Post => {
            let required = !members(&params).1.is_empty();
            ("requestBody", json!({ "required": required, "content": json_of(params.into()) }))
        }
        Verb::Form => ("requestBody", json!({ "required": true, "content": form::described() })),
        Verb::Get => {
            let (properties, required) = members(&params);
            let list: Vec<Value> = properties
                .into_iter()
                .map(|(name, schema)| {
                    json!({
                        "in": "query", "required": required.contains(&name), "name": name, "schema": schema,
                        "style": "form", "explode": true,
                    })
                })
                .collect();
            ("parameters", Value::Array(list))
        }
    };
    if let Some(operation) = operation.as_object_mut() {
        operation.insert(described.0.into(), described.1);
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reference in a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value.as_str().filter(|_| name == "$ref") {
                        Some(to) => found.push(to.to_owned()),
                        None => references(value, found),
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn descriptions_refer_to_nothing_that_is_not_in_them() {
        for document in [openrpc(), openapi()] {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for to in found {
                let pointer = to.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{to} leads nowhere");
            }
        }
    }

    #[test]
    fn every_method_is_described_once_with_its_parameters_by_name() {
        let document = openrpc();
        let methods = document["methods"].as_array().unwrap();
        assert_eq!(methods.len(), METHODS.len());
        for method in methods {
            assert!(method["params"].is_array() && method["result"]["schema"].is_object(), "{method}");
        }
    }
}
