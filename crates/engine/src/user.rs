//! Users as people know them.

use std::sync::LazyLock;

use ostler_story::By;

/// The system's file of users, read once: whoever runs us was in it then, or never is.
static USERS: LazyLock<String> = LazyLock::new(|| std::fs::read_to_string("/etc/passwd").unwrap_or_default());

/// The name of a user, or the number where the system's file has none. It is for reading: nothing is decided by it.
pub fn user_name(uid: u32) -> String {
    named(uid, &USERS).map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// Who decided, as people know them: by the name of that user.
pub fn by_name(by: &By) -> String {
    match by {
        By::Terminal { uid, tty, .. } => format!("{} at {tty}", user_name(*uid)),
        By::Client { uid, door } => format!("{} through {door}", user_name(*uid)),
        By::Rule { .. } | By::Device { .. } | By::Notice { .. } | By::Ostler => by.to_string(),
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
