//! `ostler config`: where settings come from, what they are, and whether they are right.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use ostler_api::{Empty, SettingInfo, methods};

use super::Context;
use super::approvals::Tty;
use super::confirmed::confirmed;
use super::connect::Reached;
use super::recorded::recorded;
use crate::config::{Config, KEYS, Origin};
use crate::output::{Align, CommandError, Kind, Paint, Table, visible};
use crate::request::Row;

/// Show, check or create the settings file
#[derive(Debug, Args)]
#[command(after_help = "\
Each setting can be overridden by an environment variable: journal.keep_for by OSTLER_JOURNAL_KEEP_FOR.

Examples:
  ostler config show       all settings and where each was set
  ostler config init       create a file that explains every setting
  ostler config confirm approvals.writable_programs
  OSTLER_JOURNAL_KEEP_FOR=7d ostler config show")]
pub(crate) struct ConfigVerb {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Print the path of the settings file
    Path,
    /// Show all settings and where each was set (default)
    Show,
    /// Check for mistakes; exit code 1 if there are any
    Check,
    /// Create a file that explains every setting
    Init,
    /// Let a setting take effect that lowers security
    ///
    /// Agents can write the settings file too. So a setting such as `approvals.writable_programs` or `daemon.core_dumps` has no
    /// effect until you confirm its value, at a terminal of your own. Without a name: shows what waits.
    Confirm {
        /// The setting, as in `ostler config show`
        setting: Option<String>,
    },
}

impl ConfigVerb {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        match self.what.unwrap_or(What::Show) {
            What::Path => path(context),
            What::Show => show(context),
            What::Check => check(context),
            What::Init => init(context),
            What::Confirm { setting: None } => waiting(context),
            What::Confirm { setting: Some(setting) } => confirm(context, &setting),
        }
    }
}

fn path(context: &Context) -> Result<ExitCode, CommandError> {
    let path = context.paths.config_file();
    if context.json() {
        context.screen.value(&serde_json::json!({"path": path, "exists": path.exists()}))?;
    } else {
        context.screen.line(&path.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context) -> Result<ExitCode, CommandError> {
    let config = Config::load(context.paths.config_file())?;
    if context.json() {
        let rows: Vec<_> = config
            .rows()
            .map(|row| {
                serde_json::json!({
                    "key": row.key, "value": row.text, "origin": row.origin.to_string(), "doc": row.doc,
                })
            })
            .collect();
        context.screen.value(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&[("SETTING", Align::Left), ("VALUE", Align::Left), ("FROM", Align::Left)]);
    for row in config.rows() {
        let paint = if *row.origin == Origin::Default { Paint::Dim } else { Paint::Plain };
        table.row(vec![(row.key, Paint::Plain), (row.text, Paint::Head), (row.origin.to_string(), paint)]);
    }
    table.print(&context.screen)?;
    Ok(ExitCode::SUCCESS)
}

fn check(context: &Context) -> Result<ExitCode, CommandError> {
    let path = context.paths.config_file();
    let (_, problems) = Config::load_all(path, |name| std::env::var(name).ok());
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if context.json() {
        context.screen.value(&serde_json::json!({"path": path, "problems": problems}))?;
    } else if problems.is_empty() {
        let state = if path.exists() { "is fine" } else { "does not exist; using defaults" };
        context.screen.line(&format!("{} {state}", path.display()))?;
    } else {
        for problem in &problems {
            context.screen.line(problem)?;
        }
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What waits to be confirmed.
fn waiting(context: &Context) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_one_deciding()?;
    let status = reached.client.call::<methods::InstanceStatus>(&Empty {})?;
    if context.json() {
        context.screen.value(&status.unconfirmed)?;
    } else if status.unconfirmed.is_empty() {
        context.screen.line("nothing to confirm")?;
    }
    if !context.json() {
        for one in &status.unconfirmed {
            context.screen.line(&super::status::unconfirmed(&status.instance, one))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Confirms what the daemon says is waiting, once it was read: its value may be an agent's. Nothing that the file says meanwhile.
fn confirm(context: &Context, setting: &str) -> Result<ExitCode, CommandError> {
    let mut reached = context.reach_one_deciding()?;
    let status = reached.client.call::<methods::InstanceStatus>(&Empty {})?;
    let Some(one) = status.unconfirmed.into_iter().find(|one| one.setting == setting) else {
        return Err(CommandError::new(
            Kind::NotFound,
            format!("`{}` is not waiting to be confirmed", visible(setting)),
        )
        .hint("after a change of the settings: ostler restart; what waits: ostler config confirm"));
    };
    // Where nobody can press a key the daemon says why not, and notes that somebody tried.
    let tty = crate::exclusive::own_place().ok().and_then(|_| Tty::deciding().ok());
    if let Some(tty) = &tty {
        tty.alone(&reached.client)?;
        if !is_meant(context, tty, &mut reached, &one)? {
            return Err(CommandError::failed("nothing was confirmed").hint(format!(
                "if the value is not yours, change it in {}, then: ostler restart",
                context.paths.config_file().display()
            )));
        }
    }
    recorded::<methods::SettingConfirm>(&context.screen, &mut reached.client, &one)?;
    let flag = crate::instances::flag(&status.instance);
    if context.json() {
        context.screen.value(&one)?;
    } else {
        let SettingInfo { setting, value } = &one;
        let line = format!("{setting} = {value} is confirmed; it takes effect with: ostler restart{flag}");
        context.screen.line(&visible(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the person at this terminal means that value.
fn is_meant(context: &Context, tty: &Tty, reached: &mut Reached, one: &SettingInfo) -> Result<bool, CommandError> {
    let about = KEYS.iter().find(|key| key.name == one.setting).map_or("", |key| key.doc);
    let rows = [
        Row::new(Paint::Head, &format!("{} = {}", one.setting, one.value)),
        Row::ours(Paint::Dim, about),
        Row::ours(Paint::Plain, ""),
    ];
    confirmed(&context.screen, tty, &rows, "is this what you want? [y/N] ", || {
        reached.client.call::<methods::InstanceStatus>(&Empty {})?;
        Ok(true)
    })
}

fn init(context: &Context) -> Result<ExitCode, CommandError> {
    let path = context.paths.config_file();
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match created {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(CommandError::new(Kind::Refused, format!("{} exists", path.display()))
                .hint("edit it, or move it first"));
        }
        other => other.map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?,
    };
    file.write_all(template().as_bytes())?;
    if context.json() {
        context.screen.value(&serde_json::json!({ "path": path }))?;
    } else {
        context.screen.line(&format!("{} written", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The end of the file: what has no default.
const AGENTS: &str = "
[agents]
# Agents of your own, for `ostler new NAME`: a name, and the command that speaks the Agent Client Protocol.
# mine = [\"/path/to/agent\", \"--acp\"]
";

/// Every setting with its meaning, commented out at its default.
fn template() -> String {
    let mut text = String::from("# Settings of ostler. Every line that is commented out shows the default.\n");
    let mut section = "";
    for key in KEYS {
        let (own, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if own != section {
            text.push_str(&format!("\n[{own}]\n"));
            section = own;
        }
        let quoted = toml::Value::String(key.default.to_owned());
        let value = if matches!(key.default, "true" | "false") { key.default.to_owned() } else { quoted.to_string() };
        text.push_str(&format!("# {}\n# {name} = {value}\n", key.doc));
    }
    text.push_str(AGENTS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_with_every_line_switched_on_is_valid_and_says_the_defaults() {
        let on: String = template()
            .lines()
            .map(|line| {
                let setting = line.strip_prefix("# ").filter(|rest| {
                    rest.starts_with("mine = ")
                        || KEYS.iter().any(|key| {
                            key.name.split_once('.').is_some_and(|(_, name)| rest.starts_with(&format!("{name} = ")))
                        })
                });
                format!("{}\n", setting.unwrap_or(line))
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, &on).unwrap();
        let (config, problems) = Config::load_all(&path, |_| None);
        assert!(problems.is_empty(), "{problems:?}\n{on}");
        assert_eq!(config.sessions.agents["mine"], ["/path/to/agent", "--acp"]);
        for key in KEYS {
            let row = config.rows().find(|row| row.key == key.name).unwrap();
            assert_eq!(row.text, key.default);
            assert_ne!(*row.origin, Origin::Default, "{} is not in the template", key.name);
        }
    }
}
