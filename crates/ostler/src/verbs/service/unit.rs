//! The unit file: what the user's service manager is told about an instance.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::output::CommandError;
use crate::paths::{DEFAULT_INSTANCE, Paths};

/// What an instance's unit is made of.
pub(super) struct Unit<'a> {
    pub(super) instance: &'a str,
    pub(super) program: &'a Path,
    pub(super) drop_in: bool,
    /// Where the instance is, if not at the usual place.
    pub(super) places: Vec<(&'static str, PathBuf)>,
}

/// `ostler.service`, and `ostler-NAME.service` for an instance of another name.
pub(super) fn name(instance: &str) -> String {
    match instance {
        DEFAULT_INSTANCE => "ostler.service".to_owned(),
        other => format!("ostler-{other}.service"),
    }
}

/// Where the manager looks for the units of a user.
pub(super) fn path(instance: &str) -> Result<PathBuf, CommandError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let base = base.ok_or_else(|| CommandError::failed("HOME is not set").hint("set HOME to your home folder"))?;
    Ok(base.join("systemd/user").join(name(instance)))
}

/// The folders and files that this call was told to use by its environment; the service shall use the same.
pub(super) fn places(paths: &Paths) -> Vec<(&'static str, PathBuf)> {
    let told = |names: &[&str]| names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let all = [
        ("OSTLER_STATE", paths.state_dir(), told(&["OSTLER_STATE", "XDG_STATE_HOME"])),
        // The manager gives its services the XDG_RUNTIME_DIR that logins have.
        ("OSTLER_RUNTIME", paths.runtime_dir(), told(&["OSTLER_RUNTIME"])),
        ("OSTLER_CONFIG", paths.config_file(), told(&["OSTLER_CONFIG", "XDG_CONFIG_HOME"])),
    ];
    all.into_iter().filter(|(.., told)| *told).map(|(name, path, _)| (name, path.to_owned())).collect()
}

impl Unit<'_> {
    /// The whole file.
    pub(super) fn text(&self) -> Result<String, CommandError> {
        let mut environment = String::new();
        for (name, path) in &self.places {
            let _ = writeln!(environment, "Environment={}", quoted(&format!("{name}={}", utf8(path)?)));
        }
        Ok(format!(
            "\
# Made by `ostler service install`; `ostler service uninstall` removes it.
[Unit]
Description=ostler: coding agents and commands that keep running without you
# What it hosts waits for it, so it is never given up.
StartLimitIntervalSec=0

[Service]
Type=notify
{}
{environment}# A stop or a restart is for the daemon alone: what it hosts goes on, and the next daemon takes it up.
KillMode=process
# Each hosted process gets a control group of its own, so that all of it can be ended.
Delegate=yes
# `ostler down` ends it for good; a crash does not.
Restart=on-failure
RestartSec=1

[Install]
WantedBy=default.target
",
            self.exec_start()?
        ))
    }

    /// The line that says what is run; what a unit of this program and instance is known by.
    pub(super) fn exec_start(&self) -> Result<String, CommandError> {
        // A dollar sign would be replaced by a variable.
        let program = quoted(&utf8(self.program)?.replace('$', "$$"));
        let drop_in = if self.drop_in { " --drop-in" } else { "" };
        Ok(format!("ExecStart={program} up --foreground --service --instance {}{drop_in}", self.instance))
    }
}

fn utf8(path: &Path) -> Result<String, CommandError> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        CommandError::failed(format!("{}: a unit file cannot name this path", path.display()))
            .hint("move it to a folder with a plain name")
    })
}

/// One word of a unit file: in quotes, and a per cent sign for itself.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(program: &str) -> Unit<'_> {
        Unit { instance: "main", program: Path::new(program), drop_in: false, places: Vec::new() }
    }

    #[test]
    fn a_restart_of_the_unit_leaves_the_children_alone() {
        let text = unit("/usr/bin/ostler").text().unwrap();
        for line in ["KillMode=process", "Delegate=yes", "Type=notify", "Restart=on-failure", "WantedBy=default.target"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("Environment="), "{text}");
    }

    #[test]
    fn any_path_is_one_word_of_the_unit() {
        let line = unit("/home/a b/50% \"of\" $it\\/ostler").exec_start().unwrap();
        assert_eq!(
            line,
            "ExecStart=\"/home/a b/50%% \\\"of\\\" $$it\\\\/ostler\" up --foreground --service --instance main"
        );
        assert!(unit("/a\nb/ostler").exec_start().is_err());
    }

    #[test]
    fn each_instance_has_a_unit_of_its_own() {
        assert_eq!(name("main"), "ostler.service");
        assert_eq!(name("lab"), "ostler-lab.service");
    }
}
