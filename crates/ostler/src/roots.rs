//! The certificates that this machine trusts: the files of its system, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, parse_pem};

/// Where systems keep all of them in one file; the first that is there counts.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Where they keep one file for each.
const FOLDERS: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// All of them. None at all is no error: a server's certificate is then signed by nobody who is known.
pub(crate) fn trusted(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Certificate<'static>> {
    let bundle = match variable("SSL_CERT_FILE") {
        Some(file) => Some(PathBuf::from(file)),
        None => BUNDLES.iter().map(PathBuf::from).find(|file| file.exists()),
    };
    let mut found: Vec<Certificate<'static>> = bundle.iter().flat_map(|file| read(file)).collect();
    let folders: Vec<PathBuf> = match variable("SSL_CERT_DIR") {
        Some(folders) => std::env::split_paths(&folders).collect(),
        None if found.is_empty() => FOLDERS.iter().map(PathBuf::from).collect(),
        None => Vec::new(),
    };
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    found.extend(entries.flat_map(|entry| read(&entry.path())));
    found
}

/// What in a file is a certificate; the rest of it says nothing.
fn read(file: &Path) -> Vec<Certificate<'static>> {
    let text = std::fs::read(file).unwrap_or_default();
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    parse_pem(&text).filter_map(certificate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

    #[test]
    fn files_and_folders_that_a_person_names_are_used_instead_of_the_systems() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("two.pem");
        std::fs::write(&file, format!("# mine\n{PEM}{PEM}")).unwrap();
        let folder = place.path().join("each");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("a.pem"), PEM).unwrap();
        std::fs::write(folder.join("README"), "nothing").unwrap();
        let named = |file: &Path, folder: &Path| {
            let (file, folder) = (file.as_os_str().to_owned(), folder.as_os_str().to_owned());
            trusted(move |name| Some(if name == "SSL_CERT_FILE" { file.clone() } else { folder.clone() })).len()
        };
        assert_eq!(named(&file, &folder), 3);
        assert_eq!(named(Path::new("/nowhere"), &folder), 1);
        assert_eq!(named(Path::new("/nowhere"), Path::new("/nowhere")), 0);
    }
}
