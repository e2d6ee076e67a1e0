//! Who the daemon runs as, as the user database says it: commands get this HOME, USER and LOGNAME, whatever the daemon's own
//! environment holds.

use std::time::Duration;

use ostler_engine::{Forker, MayWait};

/// A directory service that takes longer is down: then the environment must do.
const GETENT_WITHIN: Duration = Duration::from_secs(5);

/// The user behind a uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) name: String,
    pub(crate) home: String,
}

impl Login {
    /// Looks this user up in the user file, then wherever else the system keeps users.
    pub(crate) fn look_up(_wait: &MayWait, forker: &Forker) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let file = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        find(&file, uid).or_else(|| find(&getent(forker, uid), uid)).unwrap_or_else(Self::of_environment)
    }

    /// What we were told when we were started.
    pub(crate) fn of_environment() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self {
            name: std::env::var("USER").unwrap_or_else(|_| uid.to_string()),
            home: std::env::var("HOME").unwrap_or_else(|_| "/".to_owned()),
        }
    }

    /// What every unprivileged command sees.
    pub(crate) fn variables(&self) -> [(String, String); 4] {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        [
            pair("HOME", &self.home),
            pair("USER", &self.name),
            pair("LOGNAME", &self.name),
            pair("PATH", ostler_stages::PATH),
        ]
    }
}

fn getent(forker: &Forker, uid: u32) -> String {
    let said = forker.says("getent", &["passwd", &uid.to_string()], GETENT_WITHIN);
    said.map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
}

fn find(users: &str, uid: u32) -> Option<Login> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id, _, _, home) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(uid)).then(|| Login { name: name.to_owned(), home: home.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\n# odd\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
        assert_eq!(find(users, 1000), Some(Login { name: "ada".into(), home: "/home/ada".into() }));
        assert_eq!(find(users, 1), None);
    }
}
