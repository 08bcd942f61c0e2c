//! What the server configures (REST spec, `CatalogConfig`).

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::endpoint::Endpoints;
use super::properties::Properties;
use crate::error::{Error, Result};

/// The server's answer to the first request.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) defaults: BTreeMap<String, String>,
    pub(super) overrides: BTreeMap<String, String>,
    endpoints: Option<Vec<String>>,
    /// Whether it recognises requests that it has seen before.
    pub(super) idempotent: bool,
}

impl Config {
    pub(super) fn read(json: &Json) -> Result<Self> {
        if !json.is_object() {
            return Err(Error::invalid("the server's configuration is no JSON object"));
        }
        let endpoints = match json.get("endpoints") {
            None | Some(Json::Null) => None,
            Some(Json::Array(names)) => {
                Some(names.iter().filter_map(Json::as_str).map(str::to_owned).collect())
            }
            Some(_) => return Err(Error::invalid("expected an array").context("field `endpoints`")),
        };
        Ok(Self {
            defaults: strings(json, "defaults")?,
            overrides: strings(json, "overrides")?,
            endpoints: endpoints.filter(|e: &Vec<String>| !e.is_empty()),
            idempotent: json.get("idempotency-key-lifetime").is_some_and(Json::is_string),
        })
    }

    pub(super) fn endpoints(&self, properties: &Properties) -> Result<Endpoints> {
        Ok(match &self.endpoints {
            Some(names) => Endpoints::listed(names.iter().map(String::as_str)),
            None => Endpoints::assumed(properties.flag("view-endpoints-supported")?.unwrap_or(false)),
        })
    }
}

/// A member of an object that is a map of strings; a missing one is empty, and a null value is none.
pub(super) fn strings(json: &Json, member: &str) -> Result<BTreeMap<String, String>> {
    let invalid = || Error::invalid("expected an object of strings").context(format!("field `{member}`"));
    let members = match json.get(member) {
        None | Some(Json::Null) => return Ok(BTreeMap::new()),
        Some(Json::Object(members)) => members,
        Some(_) => return Err(invalid()),
    };
    let text = |value: &Json| match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(_) | Json::Bool(_) => Ok(value.to_string()),
        _ => Err(invalid()),
    };
    let members = members.iter().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| Ok((name.clone(), text(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::Endpoint;
    use super::*;
    use serde_json::json;

    #[test]
    fn configurations() {
        let none = Properties::default();
        let config = Config::read(&json!({})).unwrap();
        assert!(config.defaults.is_empty() && !config.idempotent);
        for no_object in ["null", "[]", "1"] {
            assert!(Config::read(&serde_json::from_str(no_object).unwrap()).is_err());
        }
        assert!(config.endpoints(&none).unwrap().offers(Endpoint::LoadTable));
        let config = Config::read(&json!({
            "defaults": {"a": "1", "n": 2, "gone": null}, "overrides": {"prefix": "p"},
            "endpoints": ["GET /v1/{prefix}/namespaces"], "idempotency-key-lifetime": "PT30M",
        }))
        .unwrap();
        assert_eq!(config.defaults, [("a".into(), "1".into()), ("n".into(), "2".into())].into());
        assert_eq!(config.overrides["prefix"], "p");
        assert!(config.idempotent && !config.endpoints(&none).unwrap().offers(Endpoint::LoadTable));
        for bad in [json!({"defaults": []}), json!({"overrides": {"x": []}}), json!({"endpoints": {}})] {
            assert!(Config::read(&bad).is_err(), "{bad}");
        }
    }
}
