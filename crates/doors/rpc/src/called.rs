//! What somebody calls a process or a session: the name that was given to it, wherever it is spoken of. Only where there is
//! none, or where it could not be typed as it stands, the id.

use crate::is_hidden;

/// As it is typed after a verb: `ostler attach …`.
pub fn called(name: Option<&str>, id: &str) -> String {
    // A flag to the command line, or other letters than those that are seen: nobody could type it from a screen.
    let odd = |name: &str| name.starts_with('-') || name.chars().any(|c| c.is_control() || is_hidden(c));
    match name {
        Some(name) if !odd(name) => quoted(name),
        _ => id.to_owned(),
    }
}

/// One word to a shell.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.:/@%+=,".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_where_it_can_be_typed_and_the_id_elsewhere() {
        assert_eq!(called(Some("fix"), "s1"), "fix");
        assert_eq!(called(Some("größe-2"), "s1"), "größe-2");
        assert_eq!(called(None, "s1"), "s1");
        assert_eq!(called(Some("--all"), "s1"), "s1", "a flag");
        assert_eq!(called(Some("a\u{202e}b"), "s1"), "s1", "not what it looks like");
    }

    #[test]
    fn a_shell_takes_it_for_one_word() {
        assert_eq!(called(Some("my fix"), "s1"), "'my fix'");
        assert_eq!(called(Some("it's; rm -rf ~"), "s1"), r"'it'\''s; rm -rf ~'");
    }
}
