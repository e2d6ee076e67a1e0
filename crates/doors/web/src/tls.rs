//! A listener's certificate: the user's own, or one that is made at the first start, signed by itself, its key readable by
//! nobody else.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_workspace::{Durable, replace};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::server::TlsStream;
use webpki::EndEntityCert;

/// What the certificate is good for; clients are told its fingerprint rather than to trust a name.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// What speaks TLS.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Whom it is for.
    leaf: CertificateDer<'static>,
}

impl Tls {
    /// With the certificate in these files, which are made if neither is there. Waits for the disk.
    pub fn made(certificate: &Path, key: &Path) -> io::Result<Self> {
        if !certificate.exists() && !key.exists() {
            make(certificate, key)?;
        }
        Self::read(certificate, key)
    }

    /// With the certificate in these files. Waits for the disk.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Self> {
        let named =
            |path: &Path, error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| named(certificate, &error))?;
        let leaf = chain.first().cloned().ok_or_else(|| named(certificate, &"no certificate in it"))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| named(certificate, &error))?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), leaf })
    }

    /// Whether it is for this host, a name or an address: a browser would not have come here under another one.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let name = ServerName::try_from(host);
        let leaf = ParsedCertificate::try_from(&self.leaf);
        leaf.is_ok_and(|leaf| name.is_ok_and(|name| verify_server_name(&leaf, &name).is_ok()))
    }

    /// The first name that it is for and that leads to this machine from elsewhere.
    pub(crate) fn name(&self) -> Option<String> {
        let leaf = EndEntityCert::try_from(&self.leaf).ok()?;
        let leads = |name: &&str| !name.eq_ignore_ascii_case("localhost") && !name.starts_with("*.");
        leaf.valid_dns_names().find(leads).map(str::to_ascii_lowercase)
    }

    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, socket: S) -> io::Result<TlsStream<S>> {
        self.acceptor.accept(socket).await
    }
}

fn make(certificate: &Path, key: &Path) -> io::Result<()> {
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).map_err(io::Error::other)?;
    for (path, text) in [(key, made.signing_key.serialize_pem()), (certificate, made.cert.pem())] {
        let beside = path.with_extension(format!("new.{}", std::process::id()));
        replace(path, &beside, text.as_bytes(), Durable::Yes)?;
    }
    tracing::info!("made a certificate in {}", certificate.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_made_once_and_its_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("tls-cert.pem"), dir.path().join("tls-key.pem"));
        Tls::made(&certificate, &key).unwrap();
        let first = fs::read(&certificate).unwrap();
        for path in [&certificate, &key] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        Tls::made(&certificate, &key).unwrap();
        assert_eq!(fs::read(&certificate).unwrap(), first);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_certificate_is_for_its_own_names() {
        let dir = tempfile::tempdir().unwrap();
        let tls = Tls::made(&dir.path().join("c.pem"), &dir.path().join("k.pem")).unwrap();
        assert!(tls.is_for("localhost") && tls.is_for("127.0.0.1"));
        assert!(!tls.is_for("evil.example") && !tls.is_for("127.0.0.2") && !tls.is_for(""));
    }

    #[test]
    fn half_a_pair_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        fs::write(&certificate, "junk").unwrap();
        let error = Tls::made(&certificate, &key).err().unwrap().to_string();
        assert!(error.contains("c.pem") || error.contains("k.pem"), "{error}");
    }
}
