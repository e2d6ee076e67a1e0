//! Where ostler keeps its things: state, runtime sockets, configuration.
//!
//! Everything is decided here once, from the environment; no other module may build such a path by hand.
//! Directories are made private (0700), because journals hold what was typed and shown.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The instance that `ostler up` starts when no other name is given.
pub(crate) const DEFAULT_INSTANCE: &str = "main";

/// The instance of `ostler demo`, which lives in a folder of its own, beside the user's and never in it.
pub(crate) const DEMO_INSTANCE: &str = "demo";

/// Long enough for every drop-in name plus its hash, short enough that `<name>.sock` is a sane file name.
const INSTANCE_NAME_MAX: usize = 64;

/// Only the owner may look inside.
const PRIVATE_DIR: u32 = 0o700;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PathsError {
    #[error("neither {0} nor HOME is set")]
    NoHome(&'static str),
    #[error("the current directory no longer exists, cannot resolve {0}: {1}")]
    NoCurrentDir(&'static str, #[source] io::Error),
    #[error(
        "`{0}` is not a valid name: use letters, digits, '.', '_' and '-' (at most {INSTANCE_NAME_MAX}), starting with a letter or digit"
    )]
    InstanceName(String),
    #[error("{path} belongs to uid {owner}, not to you")]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{path} is writable by others; use a folder of your own")]
    Shared { path: PathBuf },
    #[error("{path} is not a directory")]
    NotADirectory { path: PathBuf },
    #[error("cannot create {path}: {source}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The variables that name a place from the current folder on, for a program that is started in another.
pub(crate) fn made_absolute() -> impl Iterator<Item = (&'static str, PathBuf)> {
    ["HOME", "OSTLER_STATE", "OSTLER_RUNTIME", "OSTLER_CONFIG"].into_iter().filter_map(|name| {
        let path = PathBuf::from(std::env::var_os(name).filter(|value| !value.is_empty())?);
        path.is_relative().then(|| absolute(name, path).ok().map(|path| (name, path))).flatten()
    })
}

/// The three roots, absolute, decided once per run.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    state: PathBuf,
    runtime: PathBuf,
    config_file: PathBuf,
}

impl Paths {
    /// Reads `OSTLER_STATE`, `OSTLER_RUNTIME`, `OSTLER_CONFIG`, then the XDG variables, then `HOME`.
    pub(crate) fn from_env() -> Result<Self, PathsError> {
        Self::from_lookup(std::env::var_os)
    }

    fn from_lookup(get: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, PathsError> {
        let set = |name| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG specification says that a relative value must be ignored; ours are made absolute instead.
        let xdg = |name| set(name).filter(|path: &PathBuf| path.is_absolute());
        let own = |name: &'static str| set(name).map(|path| absolute(name, path)).transpose();
        let home = |need| own("HOME")?.ok_or(PathsError::NoHome(need));

        let state = match own("OSTLER_STATE")? {
            Some(path) => path,
            None => match xdg("XDG_STATE_HOME") {
                Some(base) => base.join("ostler"),
                None => home("OSTLER_STATE")?.join(".local/state/ostler"),
            },
        };
        let runtime = match own("OSTLER_RUNTIME")? {
            Some(path) => path,
            None => xdg("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |base| base.join("ostler")),
        };
        let config_file = match own("OSTLER_CONFIG")? {
            // Both a folder and the file itself are accepted, told apart by the suffix.
            Some(path) if path.extension().is_some_and(|suffix| suffix == "toml") => path,
            Some(path) => path.join("config.toml"),
            None => match xdg("XDG_CONFIG_HOME") {
                Some(base) => base.join("ostler/config.toml"),
                None => home("OSTLER_CONFIG")?.join(".config/ostler/config.toml"),
            },
        };
        Ok(Self { state, runtime, config_file })
    }

    /// Everything that is ours alone.
    pub(crate) fn own(&self) -> Vec<PathBuf> {
        vec![self.state.clone(), self.runtime.clone(), self.config_file.clone()]
    }

    /// Where the demo has everything: state, sockets and settings in one folder, so that one removal leaves nothing.
    pub(crate) fn of_demo(&self) -> Self {
        let mut name = self.state.file_name().unwrap_or_default().to_owned();
        name.push("-demo");
        let root = self.state.with_file_name(name);
        Self { runtime: root.join("run"), config_file: root.join("config.toml"), state: root }
    }

    /// Everything in one folder.
    #[cfg(test)]
    pub(crate) fn in_folder(root: &Path) -> Self {
        Self { state: root.to_owned(), runtime: root.join("run"), config_file: root.join("config.toml") }
    }

    /// Journals, keepers and everything that must survive a reboot.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state
    }

    /// Sockets. May vanish at logout; the daemon makes it again.
    pub(crate) fn runtime_dir(&self) -> &Path {
        &self.runtime
    }

    pub(crate) fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// Holds one folder per instance.
    pub(crate) fn instances_dir(&self) -> PathBuf {
        self.state.join("instances")
    }

    /// One instance's folder: keeper.sock, lock, instance.json, procs/, daemon.log.
    pub(crate) fn instance_dir(&self, name: &str) -> PathBuf {
        self.instances_dir().join(name)
    }

    /// The native door of an instance.
    pub(crate) fn native_socket(&self, name: &str) -> PathBuf {
        self.runtime.join(format!("{name}.sock"))
    }

    /// Another door of an instance, where it is not at its usual place.
    pub(crate) fn door_socket(&self, name: &str, door: &str) -> PathBuf {
        self.runtime.join(Self::door_socket_name(name, door))
    }

    /// What its file is called.
    pub(crate) fn door_socket_name(name: &str, door: &str) -> String {
        format!("{name}-{door}.sock")
    }

    /// Makes the state folder and this instance's folder, private, and returns the latter.
    pub(crate) fn prepare_instance(&self, name: &str) -> Result<PathBuf, PathsError> {
        check_instance_name(name)?;
        ensure_private_dir(&self.state)?;
        ensure_private_dir(&self.instances_dir())?;
        let dir = self.instance_dir(name);
        ensure_private_dir(&dir)?;
        Ok(dir)
    }
}

/// Keeps names usable as one path component and readable in a table.
pub(crate) fn check_instance_name(name: &str) -> Result<(), PathsError> {
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let reads_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if starts_well && reads_well && name.len() <= INSTANCE_NAME_MAX {
        Ok(())
    } else {
        Err(PathsError::InstanceName(name.to_owned()))
    }
}

/// Creates `dir` and its parents with mode 0700. A folder that is there already must be ours, and is narrowed to 0700; one
/// to which others may write is theirs too (`/tmp`), and is refused. So is one in a folder of another user than root, who
/// could put another in its place.
pub(crate) fn ensure_private_dir(dir: &Path) -> Result<(), PathsError> {
    let me = rustix::process::geteuid().as_raw();
    if let Some((parent, owner)) = dir.parent().and_then(|parent| Some((parent, std::fs::metadata(parent).ok()?.uid())))
        && owner != me
        && owner != 0
    {
        return Err(PathsError::Foreign { path: parent.to_owned(), owner });
    }
    make_dir(dir)?;
    let io = |source| PathsError::Io { path: dir.to_owned(), source };
    let found = std::fs::metadata(dir).map_err(io)?;
    let mode = found.permissions().mode();
    if found.uid() != me {
        return Err(PathsError::Foreign { path: dir.to_owned(), owner: found.uid() });
    }
    if mode & 0o002 != 0 {
        return Err(PathsError::Shared { path: dir.to_owned() });
    }
    if mode & 0o077 != 0 {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(PRIVATE_DIR)).map_err(io)?;
    }
    Ok(())
}

/// Creates `dir` and its parents with mode 0700 if they are missing.
pub(crate) fn make_dir(dir: &Path) -> Result<(), PathsError> {
    let path = dir.to_owned();
    match std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir) {
        Err(_) if dir.exists() && !dir.is_dir() => Err(PathsError::NotADirectory { path }),
        made => made.map_err(|source| PathsError::Io { path, source }),
    }
}

fn absolute(name: &'static str, path: PathBuf) -> Result<PathBuf, PathsError> {
    std::path::absolute(path).map_err(|error| PathsError::NoCurrentDir(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&'static str, &str)]) -> Result<Paths, PathsError> {
        let vars: Vec<(&'static str, OsString)> =
            vars.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
        Paths::from_lookup(move |name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn without_any_variable_but_home_everything_lives_under_home() {
        let paths = with(&[("HOME", "/h")]).unwrap();
        assert_eq!(paths.state_dir(), Path::new("/h/.local/state/ostler"));
        assert_eq!(paths.runtime_dir(), Path::new("/h/.local/state/ostler/run"));
        assert_eq!(paths.config_file(), Path::new("/h/.config/ostler/config.toml"));
        assert_eq!(paths.instance_dir("main"), Path::new("/h/.local/state/ostler/instances/main"));
    }

    #[test]
    fn our_variables_win_over_xdg_and_xdg_over_home() {
        let paths = with(&[
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "/xs"),
            ("XDG_RUNTIME_DIR", "/xr"),
            ("XDG_CONFIG_HOME", "/xc"),
            ("OSTLER_RUNTIME", "/own/run"),
        ])
        .unwrap();
        assert_eq!(paths.state_dir(), Path::new("/xs/ostler"));
        assert_eq!(paths.native_socket("main"), Path::new("/own/run/main.sock"));
        assert_eq!(paths.config_file(), Path::new("/xc/ostler/config.toml"));
    }

    #[test]
    fn empty_and_relative_xdg_values_count_as_unset_and_ours_become_absolute() {
        let paths =
            with(&[("HOME", "/h"), ("XDG_STATE_HOME", "rel"), ("OSTLER_RUNTIME", ""), ("OSTLER_CONFIG", "c.toml")])
                .unwrap();
        assert_eq!(paths.state_dir(), Path::new("/h/.local/state/ostler"));
        assert_eq!(paths.runtime_dir(), Path::new("/h/.local/state/ostler/run"));
        assert!(paths.config_file().is_absolute() && paths.config_file().ends_with("c.toml"));
    }

    #[test]
    fn the_demo_has_its_own_folder_beside_the_users() {
        let paths =
            with(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/xr"), ("OSTLER_CONFIG", "/c.toml")]).unwrap().of_demo();
        assert_eq!(paths.state_dir(), Path::new("/h/.local/state/ostler-demo"));
        assert_eq!(paths.native_socket("demo"), Path::new("/h/.local/state/ostler-demo/run/demo.sock"));
        assert_eq!(paths.config_file(), Path::new("/h/.local/state/ostler-demo/config.toml"));
    }

    #[test]
    fn without_a_home_the_error_names_the_variable_to_set() {
        let error = with(&[]).unwrap_err().to_string();
        assert!(error.contains("OSTLER_STATE"), "{error}");
    }

    #[test]
    fn instance_names_cannot_leave_their_folder() {
        for good in ["main", "claustrum-0123456789ab", "a.b_c-D"] {
            assert!(check_instance_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "-x", "a b", &"x".repeat(65)] {
            assert!(check_instance_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prepared_folder_is_private_even_if_it_was_open_before() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        ensure_private_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        ensure_private_dir(&dir).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_left_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(matches!(ensure_private_dir(root.path()), Err(PathsError::Shared { .. })));
        assert_eq!(std::fs::metadata(root.path()).unwrap().permissions().mode() & 0o7777, 0o1777);
        ensure_private_dir(&root.path().join("below/it")).unwrap();
    }

    #[test]
    fn a_folder_in_one_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        ensure_private_dir(&theirs.join("ours")).unwrap();
        std::os::unix::fs::chown(&theirs, Some(61002), None).unwrap();
        let said = ensure_private_dir(&theirs.join("ours"));
        assert!(matches!(&said, Err(PathsError::Foreign { path, owner: 61002 }) if *path == theirs), "{said:?}");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("f");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(ensure_private_dir(&file), Err(PathsError::NotADirectory { .. })));
    }
}
