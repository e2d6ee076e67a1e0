//! Users as people know them.

use ostler_story::By;

/// The name of a user, or the number where the system's file has none. It is for reading: nothing is decided by it.
pub(crate) fn user(uid: u32) -> String {
    let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(uid, &file).map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// Who decided, as people know them: by the name of that user.
pub(crate) fn by_name(by: &By) -> String {
    match by {
        By::Terminal { uid, tty, .. } => format!("{} at {tty}", user(*uid)),
        By::Client { uid, door } => format!("{} through {door}", user(*uid)),
        By::Rule { .. } | By::Device { .. } | By::Ostler => by.to_string(),
    }
}

/// `name:password:uid:...`.
fn named(uid: u32, file: &str) -> Option<&str> {
    let name = |line: &'_ str| {
        let mut fields = line.splitn(4, ':');
        let (start, id) = (fields.next()?.len(), fields.nth(1)?.parse::<u32>().ok()?);
        (id == uid && start > 0).then_some(start)
    };
    file.lines().find_map(|line| line.get(..name(line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_its_line() {
        let file = "root:x:0:0::/root:/bin/sh\nbroken\n:x:7:7\nann:x:7:70::/:/bin/sh\n";
        assert_eq!((named(7, file), named(0, file), named(8, file)), (Some("ann"), Some("root"), None));
    }
}
