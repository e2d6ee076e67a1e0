//! Settings that loosen something count once a person has confirmed them: the file they stand in is the agent's to write too.
//! What was confirmed is one setting with one value; another value waits again, and one that is taken back has to be
//! confirmed anew.

use std::collections::BTreeMap;

use super::desk::Desk;
use super::error::DecideError;
use super::store::StoreError;
use super::{By, Record};

/// How a setting begins that is no setting of ours, but the file of a repository; its value is the file's hash.
const READY: &str = ".ostler.toml of ";

/// The name in a tailnet by which devices may come: a person says so to `ostler pair`, and no file does.
const TAILNET: &str = "name in the tailnet";

/// A setting and its value, as they are written.
pub type Setting = (String, String);

/// What was confirmed, and what waits for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Confirmed {
    /// The value of each setting that a person confirmed last.
    values: BTreeMap<String, String>,
    /// What the settings ask for, and nobody has confirmed: as many as there are such settings.
    pub(super) waiting: Vec<Setting>,
}

impl Confirmed {
    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::SettingConfirmed { setting, value, .. } => {
                self.values.insert(setting.clone(), value.clone());
            }
            Record::SettingLapsed { setting } => {
                self.values.remove(setting);
            }
            // Nobody vouches for what was confirmed before, any more than for a rule.
            Record::Suspended => self.values.clear(),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn holds(&self, (setting, value): &Setting) -> bool {
        self.values.get(setting) == Some(value)
    }

    pub(super) fn tailnet(&self) -> Option<&str> {
        self.values.get(TAILNET).map(String::as_str)
    }

    pub(super) fn trusts(&self, (repository, hash): &Setting) -> bool {
        self.values.get(&format!("{READY}{repository}")) == Some(hash)
    }
}

impl Desk {
    /// These loosening settings are asked for; gives back those that do not count. What was confirmed and is not asked for any
    /// more has to be confirmed again.
    pub(super) fn settings(&mut self, asked: Vec<Setting>) -> Result<Vec<Setting>, StoreError> {
        let of_no_file = |setting: &str| setting.starts_with(READY) || setting == TAILNET;
        let gone = |setting: &&String| !of_no_file(setting) && !asked.iter().any(|(name, _)| name == *setting);
        let gone: Vec<String> = self.confirmed.values.keys().filter(gone).cloned().collect();
        for setting in gone {
            self.say(&Record::SettingLapsed { setting })?;
        }
        self.confirmed.waiting = asked.into_iter().filter(|setting| !self.confirmed.holds(setting)).collect();
        Ok(self.confirmed.waiting.clone())
    }

    /// A person wants this setting to be so.
    pub(super) fn confirm(&mut self, setting: Setting, by: By) -> Result<(), DecideError> {
        if !self.confirmed.waiting.contains(&setting) {
            return Err(DecideError::DoesNotFit("no such setting waits to be confirmed; see: ostler status"));
        }
        self.confirmed.waiting.retain(|waiting| *waiting != setting);
        let (setting, value) = setting;
        Ok(self.say(&Record::SettingConfirmed { setting, value, by })?)
    }

    /// A person wants what a repository's own file says to be done in its work trees: exactly that file.
    pub(super) fn trust(&mut self, (repository, hash): Setting, by: By) -> Result<(), DecideError> {
        let setting = format!("{READY}{repository}");
        Ok(self.say(&Record::SettingConfirmed { setting, value: hash, by })?)
    }

    /// A person lets devices come by this name.
    pub(super) fn allow_tailnet(&mut self, url: String, by: By) -> Result<(), DecideError> {
        Ok(self.say(&Record::SettingConfirmed { setting: TAILNET.to_owned(), value: url, by })?)
    }

    fn say(&mut self, record: &Record) -> Result<(), StoreError> {
        self.log(record)?;
        self.confirmed.take(record);
        Ok(())
    }
}
