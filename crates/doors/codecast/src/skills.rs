//! Skills that a user shares among projects: copied into a project when a session is made in it, where they are missing.
//! Nothing is ever replaced, no symbolic link of the project is followed, and what fails is only logged.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use ostler_story::Agent;

/// More than anybody's skills; a mistaken link to a whole disk must end.
const FILES_MAX: usize = 4096;
/// Folders in folders.
const DEPTH_MAX: usize = 16;
/// Larger files are no skills.
const SIZE_MAX: u64 = 16 << 20;

/// Copies what is missing. Waits for the disk.
pub(crate) fn sync(source: &Path, project: &Path, agent: &Agent) {
    if !source.is_dir() {
        return;
    }
    let note = match agent {
        Agent::Claude => "CLAUDE.md",
        Agent::Codex | Agent::Opencode => "AGENTS.md",
        Agent::Gemini => "GEMINI.md",
        Agent::Acp { .. } | Agent::Echo => return,
    };
    let mut left = FILES_MAX;
    log(copy_file(&source.join(note), &project.join(note), &mut left), project);
    if *agent == Agent::Claude {
        let (from, to) = (source.join(".claude/skills"), project.join(".claude"));
        if from.is_dir() {
            let copied = own_folder(&to).and_then(|()| copy_folder(&from, &to.join("skills"), 0, &mut left));
            log(copied, project);
        }
    }
}

fn log(copied: io::Result<()>, project: &Path) {
    if let Err(error) = copied {
        tracing::warn!("codecast: skills for {}: {error}", project.display());
    }
}

fn copy_folder(from: &Path, to: &Path, depth: usize, left: &mut usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("{}: more than {DEPTH_MAX} folders deep", from.display())));
    }
    own_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if fs::metadata(&from)?.is_dir() {
            copy_folder(&from, &to, depth + 1, left)?;
        } else {
            copy_file(&from, &to, left)?;
        }
    }
    Ok(())
}

/// A folder of the project itself, not one that a link of it leads to.
fn own_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(path)?.is_dir() {
            true => Ok(()),
            false => Err(io::Error::other(format!("{} is not a folder", path.display()))),
        },
        made => made,
    }
}

fn copy_file(from: &Path, to: &Path, left: &mut usize) -> io::Result<()> {
    let found = match fs::metadata(from) {
        Ok(found) if found.is_file() => found,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    *left = left.checked_sub(1).ok_or_else(|| io::Error::other(format!("more than {FILES_MAX} files")))?;
    if found.len() > SIZE_MAX {
        return Err(io::Error::other(format!("{} is larger than {SIZE_MAX} bytes", from.display())));
    }
    let mut source = File::open(from)?;
    match OpenOptions::new().write(true).create_new(true).open(to) {
        Ok(mut target) => io::copy(&mut source, &mut target).map(drop),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skills() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".claude/skills/sub")).unwrap();
        for name in ["CLAUDE.md", "AGENTS.md", "GEMINI.md", ".claude/skills/a.md", ".claude/skills/sub/b.md"] {
            fs::write(dir.path().join(name), format!("shared {name}")).unwrap();
        }
        dir
    }

    fn files(root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.push(path.strip_prefix(root).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_agent_gets_its_own_note_and_claude_the_skills() {
        let shared = skills();
        for (agent, expected) in [
            (Agent::Claude, vec![".claude/skills/a.md", ".claude/skills/sub/b.md", "CLAUDE.md"]),
            (Agent::Codex, vec!["AGENTS.md"]),
            (Agent::Opencode, vec!["AGENTS.md"]),
            (Agent::Gemini, vec!["GEMINI.md"]),
            (Agent::Echo, vec![]),
        ] {
            let project = tempfile::tempdir().unwrap();
            sync(shared.path(), project.path(), &agent);
            assert_eq!(files(project.path()), expected, "{agent:?}");
        }
    }

    #[test]
    fn what_is_there_is_never_replaced() {
        let (shared, project) = (skills(), tempfile::tempdir().unwrap());
        fs::write(project.path().join("CLAUDE.md"), "mine").unwrap();
        fs::create_dir_all(project.path().join(".claude/skills")).unwrap();
        fs::write(project.path().join(".claude/skills/a.md"), "mine").unwrap();
        sync(shared.path(), project.path(), &Agent::Claude);
        let read = |name: &str| fs::read_to_string(project.path().join(name)).unwrap();
        assert_eq!((read("CLAUDE.md"), read(".claude/skills/a.md")), ("mine".into(), "mine".into()));
        assert_eq!(read(".claude/skills/sub/b.md"), "shared .claude/skills/sub/b.md");
    }

    #[test]
    fn a_link_of_the_project_leads_nowhere() {
        let (shared, project, elsewhere) = (skills(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), project.path().join(".claude")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("x"), project.path().join("CLAUDE.md")).unwrap();
        sync(shared.path(), project.path(), &Agent::Claude);
        assert_eq!(files(elsewhere.path()), Vec::<String>::new());
    }
}
