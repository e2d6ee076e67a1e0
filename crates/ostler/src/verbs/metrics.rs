//! `ostler metrics`: the daemon's counters, in the text form that Prometheus reads.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{Empty, methods};

use super::Context;
use crate::output::CommandError;

/// Print metrics in Prometheus format
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ostler metrics | grep unsynced")]
pub(crate) struct Metrics {}

impl Metrics {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut reached = context.reach_all()?;
        let several = reached.len() > 1;
        let mut rows = Vec::new();
        for instance in &mut reached {
            let text = instance.client.call::<methods::InstanceMetrics>(&Empty {})?.text;
            let name = &instance.found.name;
            if context.json() {
                rows.push(serde_json::json!({"instance": name, "metrics": samples(&text)}));
                continue;
            }
            if several {
                context.screen.line(&format!("# instance {name}"))?;
            }
            context.screen.line(text.trim_end())?;
        }
        if context.json() {
            context.screen.value(&rows)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `name{labels} value` lines as an object.
fn samples(text: &str) -> serde_json::Map<String, serde_json::Value> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse::<f64>().ok()?.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn samples_are_read_and_comments_are_not() {
        let map = super::samples("# HELP a b\na_total 3\nb{x=\"1 2\"} 0.5\n");
        assert_eq!(serde_json::Value::from(map), serde_json::json!({"a_total": 3.0, "b{x=\"1 2\"}": 0.5}));
    }
}
