//! A repository that nobody vouches for. Its configuration, hooks and attributes may name programs; none of them runs. What
//! the user's own configuration names (large-file filters and the like) still does.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Git, RunError, set};

/// What no repository's configuration decides, whatever is asked: the file monitor, and whom git talks to.
const ALWAYS: [(&str, &str); 2] = [("core.fsmonitor", "false"), ("protocol.allow", "never")];
/// Where hooks are looked for, and where there are none.
const HOOKS: (&[u8], &str) = (b"core.hookspath", "/dev/null");
/// Settings that name programs which run for every file that is checked out or compared, and for everything that git does.
const NAMING: &str = concat!(
    r"^(filter\..*\.(smudge|clean|process|required)|hook\..*\.(command|enabled|event)|core\.hookspath",
    r"|diff\.external|diff\..*\.(textconv|command))$"
);
/// The program that draws every difference.
const EXTERNAL: &[u8] = b"diff.external";
/// Most settings that the environment may hold already.
const SETTINGS_MAX: usize = 1000;

/// What is said of a folder whose repository does not know it.
const GONE: &str = "it is no worktree any more";

/// What became of a work tree whose work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There was nothing in it that is not committed; it is gone.
    Removed {
        /// The branch that was checked out.
        branch: Option<OsString>,
        /// It held nothing of its own and is gone too.
        branch_removed: bool,
    },
    /// It is still there.
    Kept {
        /// The branch that is checked out.
        branch: Option<OsString>,
        /// Why: git's own words, or what was found.
        why: String,
    },
}

impl Git {
    /// The same git, which talks to nobody and runs no file monitor.
    pub(super) fn quiet(mut self) -> Git {
        set(&mut self.env, "GIT_NO_LAZY_FETCH", "1");
        let settings = ALWAYS.map(|(name, value)| (name.into(), value.into()));
        self.with_settings(&settings)
    }

    /// The same git, which runs nothing that the repository's own configuration names.
    pub fn guarded(&self) -> Result<Git, RunError> {
        if self.guarded {
            return Ok(self.clone());
        }
        Ok(self.guarded_against(&self.named_programs()?))
    }

    /// Every setting that names a program, as git lists it with its scope.
    pub(super) fn named_programs(&self) -> Result<Vec<u8>, RunError> {
        Ok(self.query(["config", "--show-scope", "-z", "--get-regexp", NAMING])?.output)
    }

    /// The same git, which runs nothing that the repository's own configuration names in that list.
    pub(super) fn guarded_against(&self, named: &[u8]) -> Git {
        let mut git = self.with_settings(&overrides(named));
        git.guarded = true;
        git
    }

    /// Settings that are stronger than every file's, handed over in the environment, where programs that git starts find
    /// them too. Behind those that the user's environment has.
    fn with_settings(&self, settings: &[(OsString, OsString)]) -> Git {
        let mut git = self.clone();
        let count = git.env.iter().find(|(name, _)| name == "GIT_CONFIG_COUNT").and_then(|(_, count)| count.to_str());
        let count = count.and_then(|count| count.parse().ok()).filter(|count| *count <= SETTINGS_MAX).unwrap_or(0);
        let numbers = count..count + settings.len();
        let names = |number: usize| ["KEY", "VALUE"].map(|what| OsString::from(format!("GIT_CONFIG_{what}_{number}")));
        let ours: Vec<OsString> = numbers.clone().flat_map(names).collect();
        let replaced = |name: &OsString| name == "GIT_CONFIG_COUNT" || name == "GIT_CONFIG_PARAMETERS";
        git.env.retain(|(name, _)| !replaced(name) && !ours.contains(name));
        git.env.push(("GIT_CONFIG_COUNT".into(), numbers.end.to_string().into()));
        for (number, (name, value)) in numbers.zip(settings) {
            let [key, content] = names(number);
            git.env.push((key, name.clone()));
            git.env.push((content, value.clone()));
        }
        git
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> Option<OsString> {
        let name = self.line(["symbolic-ref", "--quiet", "HEAD"])?;
        name.strip_prefix(b"refs/heads/").map(|name| OsString::from_vec(name.to_vec()))
    }

    /// Removes the work tree at `path` if everything in it is committed to a branch, and its branch if that holds nothing of
    /// its own and its name begins with `ours`. Asked about that work tree.
    pub fn leave_worktree(&self, path: &Path, ours: &str) -> Result<Left, RunError> {
        let branch = self.branch();
        let Some(repository) = self.repository() else {
            return Ok(Left::Kept { branch, why: GONE.into() });
        };
        if let Some(why) = self.unsaved()? {
            return Ok(Left::Kept { branch, why: why.into() });
        }
        // Without force: git looks for changes and files that it does not know, and refuses.
        let args = ["worktree", "remove", "--"].map(OsStr::new);
        let ran = repository.change(args.into_iter().chain([path.as_os_str()]))?;
        if ran.success {
            let own = branch.as_deref().filter(|name| name.as_bytes().starts_with(ours.as_bytes()));
            // Without force here too: git deletes only what is merged.
            let branch_removed = own.is_some_and(|name| repository.delete_branch(name).unwrap_or(false));
            return Ok(Left::Removed { branch, branch_removed });
        }
        Ok(Left::Kept { branch, why: String::from_utf8_lossy(&ran.output).trim().to_owned() })
    }

    /// What would be lost with this work tree; `None` when all of it is on a branch. Asked about that work tree.
    pub fn unsaved(&self) -> Result<Option<&'static str>, RunError> {
        if self.repository().is_none() {
            return Ok(Some(GONE));
        }
        // A look into submodules would be another git's, which is told nothing of ours and runs what each one names.
        let changes = ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty"];
        if !self.query(changes)?.into_success("status")?.is_empty() {
            return Ok(Some("it holds changes that are not committed"));
        }
        if self.has_submodules()? {
            return Ok(Some("it holds a submodule, which is not looked into"));
        }
        if self.line(["symbolic-ref", "--quiet", "HEAD"]).is_some() {
            return Ok(None);
        }
        let stray = ["rev-list", "--max-count=1", "HEAD", "--not", "--branches", "--tags", "--remotes"];
        let stray = self.query(stray)?.into_success("rev-list")?;
        Ok((!stray.is_empty()).then_some("it holds commits that are on no branch"))
    }

    /// Whether anything is in the folder of a submodule.
    fn has_submodules(&self) -> Result<bool, RunError> {
        let listed = self.query(["ls-files", "--stage", "-z"])?.into_success("ls-files")?;
        let modules = listed.split(|byte| *byte == 0).filter_map(|line| {
            let path = line.strip_prefix(b"160000 ")?.splitn(2, |byte| *byte == b'\t').nth(1)?;
            Some(self.dir.join(OsStr::from_bytes(path)))
        });
        let is_filled = |folder: PathBuf| folder.read_dir().is_ok_and(|mut inside| inside.next().is_some());
        Ok(modules.into_iter().any(is_filled))
    }

    /// Removes the work tree at `path`, whatever is in it. False when git refused. Asked about that work tree.
    pub fn drop_worktree(&self, path: &Path) -> Result<bool, RunError> {
        self.repository().map_or(Ok(false), |repository| repository.remove_worktree(path.as_os_str()))
    }

    /// The repository itself: a work tree is not removed by who stands in it.
    fn repository(&self) -> Option<Git> {
        let common = self.line(["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Some(Git { dir: PathBuf::from(OsString::from_vec(common)), ..self.clone() })
    }

    fn delete_branch(&self, branch: &OsStr) -> Result<bool, RunError> {
        let args = ["branch", "-d", "--"].map(OsStr::new);
        Ok(self.change(args.into_iter().chain([branch]))?.success)
    }
}

/// Programs that do not run for one who looks.
#[derive(Debug)]
pub(super) struct LeftOut {
    /// Filters that only the repository names.
    pub(super) filters: Vec<String>,
    /// Drivers of differences that only the repository names, and all that draw in a form of their own.
    pub(super) drivers: Vec<String>,
    /// The repository names a program that makes text of files. Git has one switch for all of those: the user's do not run
    /// either.
    pub(super) converters: bool,
}

impl LeftOut {
    /// Of the settings that name programs. What the user names as well runs as the user says.
    pub(super) fn of(listed: &[u8]) -> Self {
        let (theirs, users) = named(listed, "filter.", &["smudge", "clean", "process"]);
        let filters = theirs.difference(&users).cloned().collect();
        let (mut drivers, more) = named(listed, "diff.", &["command"]);
        drivers.extend(more);
        drivers.extend(settings(listed).any(|setting| setting.name == EXTERNAL).then(|| "external".to_owned()));
        let (theirs, users) = named(listed, "diff.", &["textconv"]);
        let converters = !theirs.is_subset(&users);
        if converters {
            drivers.extend(theirs.into_iter().chain(users));
        }
        Self { filters, drivers: drivers.into_iter().map(|name| format!("diff.{name}")).collect(), converters }
    }
}

/// What the settings of a section are about: for the repository, and for the user.
fn named(listed: &[u8], section: &str, kinds: &[&str]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut theirs, mut users) = (BTreeSet::new(), BTreeSet::new());
    for setting in settings(listed) {
        let name = String::from_utf8_lossy(setting.name);
        let parts = name.strip_prefix(section).and_then(|rest| rest.rsplit_once('.'));
        let Some((name, _)) = parts.filter(|(_, kind)| kinds.contains(kind)) else { continue };
        if setting.theirs { &mut theirs } else { &mut users }.insert(name.to_owned());
    }
    (theirs, users)
}

/// A setting that names a program.
struct Setting<'a> {
    /// The repository says it, not the user.
    theirs: bool,
    name: &'a [u8],
    value: &'a [u8],
}

fn settings(listed: &[u8]) -> impl Iterator<Item = Setting<'_>> {
    let mut words = listed.split(|byte| *byte == 0);
    std::iter::from_fn(move || {
        let (scope, setting) = (words.next()?, words.next()?);
        let (name, value) = setting.split_at(setting.iter().position(|byte| *byte == b'\n').unwrap_or(setting.len()));
        let value = value.get(1..).unwrap_or_default();
        Some(Setting { theirs: matches!(scope, b"local" | b"worktree"), name, value })
    })
}

/// What takes the place of everything that only the repository says: what the user says, or nothing.
fn overrides(listed: &[u8]) -> Vec<(OsString, OsString)> {
    let mut users: HashMap<&[u8], &[u8]> = HashMap::new();
    let mut theirs: Vec<&[u8]> = Vec::new();
    for setting in settings(listed) {
        match setting.theirs {
            true => theirs.push(setting.name),
            false => drop(users.insert(setting.name, setting.value)),
        }
    }
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    // A folder of the user's, not one that is found in the repository.
    let hooks = users.get(HOOKS.0).filter(|path| path.starts_with(b"/") || path.starts_with(b"~"));
    let hooks = (text(HOOKS.0), hooks.map_or(HOOKS.1.into(), |path| text(path)));
    // Git would run the empty name of a driver: whoever compares leaves drivers out by an option.
    let kept = |name: &&[u8]| *name != HOOKS.0 && (!name.starts_with(b"diff.") || users.contains_key(name));
    let programs = theirs.into_iter().filter(kept).map(|name| {
        let nothing = if name.ends_with(b".required") || name.ends_with(b".enabled") { "false" } else { "" };
        (text(name), users.get(name).map_or(nothing.into(), |value| text(value)))
    });
    std::iter::once(hooks).chain(programs).collect()
}
