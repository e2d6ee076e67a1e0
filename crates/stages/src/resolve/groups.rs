//! The groups of a user, from the system's files and, for our own user, from the kernel. Groups that only a directory
//! service knows are not seen for other users.

use std::fs;

/// Every group id that the user has.
pub(super) fn of(uid: u32) -> Vec<u32> {
    let mut groups = Vec::new();
    if uid == rustix::process::getuid().as_raw() {
        groups.push(rustix::process::getgid().as_raw());
        groups.extend(rustix::process::getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()));
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = fs::read_to_string("/etc/group").unwrap_or_default();
    groups.extend(in_files(uid, &users, &known));
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// `name:password:uid:gid:...` and `name:password:gid:member,member`.
fn in_files(uid: u32, users: &str, groups: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut names = Vec::new();
    for line in users.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [name, _, id, group, ..] = fields.as_slice()
            && id.parse() == Ok(uid)
        {
            names.push(*name);
            found.extend(group.parse::<u32>());
        }
    }
    for line in groups.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [_, _, id, members, ..] = fields.as_slice()
            && members.split(',').any(|member| names.contains(&member))
        {
            found.extend(id.parse::<u32>());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_group_of_its_line_and_those_that_list_it() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:7:70::/:/bin/sh\nalso:x:7:71::/:/bin/sh\nbroken\n";
        let groups = "root:x:0:\nstaff:x:5:bob,ann\nother:x:6:joann\nnone:x:8:\n";
        assert_eq!(in_files(7, users, groups), [70, 71, 5]);
        assert_eq!(in_files(9, users, groups), [0_u32; 0]);
    }
}
