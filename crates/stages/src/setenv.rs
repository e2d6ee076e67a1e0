//! Whether sudo treats assignments alike in every stage of a pipeline. `sudo -l COMMAND` does not look at them, so the list
//! of everything that a user may do is read instead: where only some of its rules let variables be set, a stage could be
//! refused while the one before it already runs, and nothing may begin.

use crate::spec::Spec;

/// Who may set variables, according to the rules of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setenv {
    /// All rules say the same: sudo takes the assignments of every stage, or of none.
    Alike,
    /// It depends on the command, or nobody can tell.
    Depends,
}

/// What sudo lets in for everybody, unless its policy was changed in this very point.
const LET_IN: [&str; 3] = ["LANG", "TERM", "TZ"];

/// Reads what `sudo -ll` says, in the language that it is always asked in.
pub(crate) fn of(listing: &str) -> Setenv {
    let mut parts = listing.split("Sudoers entry:");
    let defaults = parts.next().unwrap_or_default();
    if listing.contains("LDAP Role:") || defaults.contains("Command-specific defaults") && defaults.contains("setenv") {
        return Setenv::Depends;
    }
    let usual = words(defaults).any(|word| word == "setenv");
    let mut rules = parts.filter_map(|entry| may_set(entry, usual));
    match rules.next() {
        Some(first) if rules.all(|other| other == first) => Setenv::Alike,
        _ => Setenv::Depends,
    }
}

/// What one entry says; nothing if it allows nothing.
fn may_set(entry: &str, usual: bool) -> Option<bool> {
    let (head, commands) = entry.split_once("Commands:")?;
    let mut commands = commands.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('!'));
    let all = commands.next()? == "ALL";
    let options = head.lines().find_map(|line| line.trim().strip_prefix("Options:")).unwrap_or_default();
    // A rule for every command lets variables be set unless it says otherwise.
    let said = words(options).find_map(|word| match word {
        "setenv" => Some(true),
        "!setenv" => Some(false),
        _ => None,
    });
    Some(said.unwrap_or(all || usual))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\n']).map(str::trim)
}

/// Whether sudo takes all variables of the command whatever its rules say about setting them.
pub(crate) fn is_let_in(spec: &Spec, listing: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@:+-".contains(&byte);
    let usual = !listing.contains("env_check") && !listing.contains("!env_reset");
    let known = |name: &str| LET_IN.contains(&name) || name.starts_with("LC_");
    usual && spec.env.iter().all(|(name, value)| known(name) && value.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Elevate;

    const HEAD: &str = "Matching Defaults entries for u on vm:\n    env_reset, mail_badpass, use_pty\n\nUser u may run the \
                        following commands on vm:\n";

    /// A list as sudo prints it; each entry is its options and its commands.
    fn listing(head: &str, entries: &[(&str, &[&str])]) -> String {
        let mut text = head.to_owned();
        for (options, commands) in entries {
            text += "\nSudoers entry:\n    RunAsUsers: root\n";
            if !options.is_empty() {
                text += &format!("    Options: {options}\n");
            }
            text += "    Commands:\n";
            commands.iter().for_each(|command| text += &format!("\t{command}\n"));
        }
        text
    }

    #[test]
    fn rules_that_agree_are_alike_and_others_depend() {
        let of = |entries: &[(&str, &[&str])]| of(&listing(HEAD, entries));
        assert_eq!(of(&[("!authenticate", &["ALL"])]), Setenv::Alike);
        assert_eq!(of(&[("", &["/bin/a", "/bin/b"]), ("!setenv", &["/bin/c"])]), Setenv::Alike);
        assert_eq!(of(&[("setenv", &["/bin/a"]), ("", &["ALL", "!/bin/su"])]), Setenv::Alike);
        assert_eq!(of(&[("setenv, !authenticate", &["/bin/a"]), ("!authenticate", &["/bin/b"])]), Setenv::Depends);
        assert_eq!(of(&[("setenv", &["/bin/a"]), ("!setenv", &["ALL"])]), Setenv::Depends);
    }

    #[test]
    fn what_forbids_only_plays_no_part() {
        let entries: &[(&str, &[&str])] = &[("setenv", &["/bin/a"]), ("!setenv", &["!/bin/b"])];
        assert_eq!(of(&listing(HEAD, entries)), Setenv::Alike);
    }

    #[test]
    fn a_default_holds_for_rules_that_say_nothing() {
        let head = HEAD.replace("use_pty", "setenv, use_pty");
        assert_eq!(of(&listing(&head, &[("", &["/bin/a"]), ("setenv", &["/bin/b"])])), Setenv::Alike);
        assert_eq!(of(&listing(&head, &[("", &["/bin/a"]), ("!setenv", &["/bin/b"])])), Setenv::Depends);
    }

    #[test]
    fn what_is_not_understood_depends() {
        let special = HEAD
            .replace("\nUser u", "\nRunas and Command-specific defaults for u:\n    Defaults!/bin/a setenv\n\nUser u");
        assert_eq!(of(&listing(&special, &[("", &["/bin/a"])])), Setenv::Depends);
        for other in ["", HEAD, "LDAP Role: x\n    Commands:\n\tALL\n", "usage: sudo"] {
            assert_eq!(of(other), Setenv::Depends, "{other:?}");
        }
    }

    #[test]
    fn the_language_is_let_in_and_a_home_is_not() {
        let spec = |name: &str, value: &str| {
            let env = vec![("LC_ALL".to_owned(), "C.UTF-8".to_owned()), (name.to_owned(), value.to_owned())];
            Spec::new(Vec::new(), env, std::time::Duration::ZERO, Elevate::NeverAsk)
        };
        assert!(is_let_in(&spec("LANG", "de_DE@euro"), HEAD));
        assert!(!is_let_in(&spec("HOME", "root"), HEAD));
        assert!(!is_let_in(&spec("TZ", "/etc/passwd"), HEAD));
        assert!(!is_let_in(&spec("LANG", "C"), &HEAD.replace("use_pty", "!env_check")));
    }
}
