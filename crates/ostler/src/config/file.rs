//! Reads the configuration file into settings that know their line.

use std::path::Path;

use ostler_workspace::read_small;
use toml::de::{DeTable, DeValue};

use super::agents::{self, OwnAgent};
use super::{ConfigError, KEYS, Origin, Setting};
use crate::output::nearest;

/// 1 MiB: more than anybody writes by hand.
const MOST: u64 = 1 << 20;

/// What a file says.
#[derive(Default)]
pub(super) struct ConfigFile {
    pub(super) settings: Vec<Setting>,
    pub(super) agents: Vec<OwnAgent>,
}

/// The file's settings; what is wrong with it goes to `problems`. No file, no settings.
pub(super) fn read(path: &Path, problems: &mut Vec<ConfigError>) -> ConfigFile {
    let text = match read_small(path, MOST) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return ConfigFile::default(),
        Err(source) => {
            problems.push(ConfigError::Unreadable { path: path.to_owned(), source });
            return ConfigFile::default();
        }
    };
    let table = match DeTable::parse(&text) {
        Ok(table) => table,
        Err(error) => {
            let line = line_of(&text, error.span().map_or(0, |span| span.start));
            let message = error.message().to_owned();
            problems.push(ConfigError::Syntax { path: path.to_owned(), line, message });
            return ConfigFile::default();
        }
    };
    let mut reader = Reader { path, text: &text, said: ConfigFile::default(), problems };
    reader.table("", table.get_ref());
    // The parser keeps keys by name; problems read better in the order of the file.
    reader.problems.sort_by_key(|problem| match problem {
        ConfigError::Unknown { at: Origin::File { line, .. }, .. }
        | ConfigError::UnknownSection { at: Origin::File { line, .. }, .. }
        | ConfigError::Bad { at: Origin::File { line, .. }, .. } => *line,
        _ => 0,
    });
    reader.said
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    said: ConfigFile,
    problems: &'a mut Vec<ConfigError>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let full =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            let origin = Origin::File { path: self.path.to_owned(), line: line_of(self.text, name.span().start) };
            if prefix == agents::SECTION {
                self.agent(name.get_ref(), value.get_ref(), origin);
                continue;
            }
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            if prefix.is_empty() && is_table && sections().all(|section| section != full) {
                let suggestion = nearest(&full, sections());
                self.problems.push(ConfigError::UnknownSection { at: origin, name: full, suggestion });
                continue;
            }
            if let DeValue::Table(inner) = value.get_ref() {
                // An empty section of a known name says nothing and harms nobody.
                self.table(&full, inner);
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == full) else {
                let suggestion = nearest(&full, KEYS.iter().map(|key| key.name)).map(str::to_owned);
                self.problems.push(ConfigError::Unknown { at: origin, name: full, suggestion });
                continue;
            };
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                DeValue::Boolean(value) => value.to_string(),
                other => {
                    let reason = "expected a string, a number or true/false".to_owned();
                    let text = other.type_str().to_owned();
                    self.problems.push(ConfigError::Bad { at: origin, key: key.name.to_owned(), text, reason });
                    continue;
                }
            };
            self.said.settings.push(Setting { key, text, origin });
        }
    }

    fn agent(&mut self, name: &str, value: &DeValue<'_>, origin: Origin) {
        match OwnAgent::read(name, value, origin.clone()) {
            Ok(agent) => self.said.agents.push(agent),
            Err(reason) => {
                let text = value.as_str().map_or_else(|| value.type_str().to_owned(), str::to_owned);
                self.problems.push(ConfigError::Bad { at: origin, key: format!("agents.{name}"), text, reason });
            }
        }
    }
}

/// The names of all sections, some more than once.
fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| key.name.split_once('.')).map(|(section, _)| section).chain([agents::SECTION])
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
