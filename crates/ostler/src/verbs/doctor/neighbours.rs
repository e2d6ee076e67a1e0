//! What an agent, which runs as the same user, can do to the programs around ostler. Ostler's own processes give it nothing;
//! your shell, your terminal and the file that you start are the system's to protect.

use std::path::Path;

use super::Check;

pub(super) fn checks() -> Vec<Check> {
    let read = |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    let executable = std::env::current_exe().ok();
    vec![
        protection(ostler_keeper::shield::is_raised()),
        debugging(read("/proc/sys/kernel/yama/ptrace_scope")),
        typing(read("/proc/sys/dev/tty/legacy_tiocsti")),
        program(executable.as_deref(), rustix::process::geteuid().as_raw()),
    ]
}

/// Whether our own processes give nothing away.
fn protection(raised: bool) -> Check {
    match raised {
        true => Check::good("protection", "no agent can reach into ostler's own processes"),
        false => Check::weak(
            "protection",
            "agents can debug ostler, and decide as you: it cannot protect itself where /proc is mounted with hidepid. Mount it without",
        ),
    }
}

/// Who may debug whom: Yama, where the kernel has it.
fn debugging(scope: Option<u32>) -> Check {
    let could = "an agent can debug your shell, and decide as you.";
    match scope {
        None => Check::weak("ptrace", format!("the kernel has no Yama: {could} Use one that has, or another user")),
        Some(0) => Check::weak(
            "ptrace",
            format!("kernel.yama.ptrace_scope is 0: {could} Set it to 1: sudo sysctl kernel.yama.ptrace_scope=1"),
        ),
        Some(scope) => {
            Check::good("ptrace", format!("kernel.yama.ptrace_scope is {scope}: no agent debugs your shell"))
        }
    }
}

/// Whether a program can type into the terminal it runs on.
fn typing(legacy: Option<u32>) -> Check {
    let could = "a program that you start on a terminal can type into it (TIOCSTI).";
    match legacy {
        None => {
            Check::weak("tiocsti", format!("Linux before 6.2: {could} Start no agent from the terminal you decide on"))
        }
        Some(0) => Check::good("tiocsti", "dev.tty.legacy_tiocsti is 0: no program types into your terminal"),
        Some(_) => Check::weak(
            "tiocsti",
            format!("dev.tty.legacy_tiocsti is 1: {could} Set it to 0: sudo sysctl dev.tty.legacy_tiocsti=0"),
        ),
    }
}

/// Whether an agent could put another program in the place of this one.
fn program(executable: Option<&Path>, uid: u32) -> Check {
    let path = executable.map(|path| path.display().to_string());
    let path = path.as_deref().map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
    match path.map(|path| (path, ostler_stages::resolve(path, uid))) {
        Some((path, Ok(resolved))) => match resolved.writable_by_asker {
            None => Check::good("program", format!("no agent can replace {path}")),
            Some(writable) => Check::weak(
                "program",
                format!(
                    "an agent can replace {path} ({} is writable). Install it where only root writes, such as /usr/local/bin",
                    writable.display()
                ),
            ),
        },
        Some((path, Err(error))) => Check::weak("program", format!("cannot tell who may replace {path}: {error}")),
        None => Check::weak("program", "cannot tell which file this is"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_the_kernel_does_not_forbid_is_weak_and_what_it_does_is_good() {
        let ptrace = |scope| debugging(scope).verdict;
        assert_eq!([None, Some(0)].map(ptrace), [Verdict::Weak, Verdict::Weak]);
        assert_eq!([Some(1), Some(2), Some(3)].map(ptrace), [Verdict::Good, Verdict::Good, Verdict::Good]);
        let tiocsti = |legacy| typing(legacy).verdict;
        assert_eq!([None, Some(1), Some(0)].map(tiocsti), [Verdict::Weak, Verdict::Weak, Verdict::Good]);
    }

    #[test]
    fn a_program_below_a_folder_of_the_user_can_be_replaced_and_one_of_the_system_can_not() {
        use std::os::unix::fs::PermissionsExt;
        let uid = 65_534;
        let system = program(Some(Path::new("/bin/sh")), uid);
        assert_eq!(system.verdict, Verdict::Good, "{}", system.text);
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::copy("/bin/true", open.join("ostler")).unwrap();
        let theirs = program(Some(&open.join("ostler")), uid);
        assert_eq!(theirs.verdict, Verdict::Weak, "{}", theirs.text);
        assert!(theirs.text.contains(&open.display().to_string()), "{}", theirs.text);
    }
}
