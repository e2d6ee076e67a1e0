//! The `owner/repo` in the address of a remote.

/// Parses scp-like (`git@host:owner/repo.git`) and scheme addresses. Only a path of exactly two
/// parts is a slug; a port or a subgroup makes three.
pub(super) fn slug(address: &[u8]) -> Option<Vec<u8>> {
    let rest = match find(address, b"://") {
        Some(at) => address.get(at + 3..)?,
        None => address,
    };
    let authority = rest.split(|&byte| byte == b'/').next()?;
    let rest = match authority.iter().position(|&byte| byte == b'@') {
        Some(at) => rest.get(at + 1..)?,
        None => rest,
    };
    let host_end = rest.iter().position(|byte| b":/".contains(byte))?;
    let mut path = rest.get(host_end + 1..)?;
    while let Some(shorter) = path.strip_suffix(b"/") {
        path = shorter;
    }
    path = path.strip_suffix(b".git").unwrap_or(path);
    let mut parts = path.split(|&byte| byte == b'/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(owner), Some(repo), None) if !owner.is_empty() && !repo.is_empty() => Some(path.to_vec()),
        _ => None,
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn two_parts_after_the_host_are_a_slug() {
        for (address, want) in [
            ("git@github.com:owner/repo.git", Some("owner/repo")),
            ("git@github.com:owner/repo", Some("owner/repo")),
            ("github.com:owner/repo.git", Some("owner/repo")),
            ("https://github.com/owner/repo.git", Some("owner/repo")),
            ("https://github.com/owner/repo/", Some("owner/repo")),
            ("https://github.com/owner/repo.git/", Some("owner/repo")),
            ("https://user:pw@github.com/owner/repo.git", Some("owner/repo")),
            ("https://u:p@ss@github.com/owner/repo", Some("owner/repo")),
            ("ssh://git@github.com/owner/repo.git", Some("owner/repo")),
            ("git://github.com/owner/repo.git", Some("owner/repo")),
            ("https://github.com/My-Org_1/Re.Po-x_Y.git", Some("My-Org_1/Re.Po-x_Y")),
            ("https://github.com/owner/repo.git.git", Some("owner/repo.git")),
            ("https://github.com/owner/re@po", Some("owner/re@po")),
            ("/srv/git.git", Some("srv/git")),
            ("https://gitlab.com/group/sub/proj.git", None),
            ("git@gitlab.com:group/sub/proj.git", None),
            ("https://example.com/repo.git", None),
            ("ssh://git@github.com:2222/owner/repo.git", None),
            ("https://example.com:8443/owner/repo.git", None),
            ("/srv/git/repo.git", None),
            ("https://github.com/owner//repo", None),
            ("https://github.com//repo", None),
            ("nothing", None),
            ("", None),
            ("://", None),
            ("@", None),
        ] {
            let got = slug(address.as_bytes());
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{address}");
        }
    }
}
