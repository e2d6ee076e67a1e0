//! The open door: an HTTP listener with one endpoint, for our own user or, in auth mode, for whoever shows a token.

use std::io;
use std::sync::Arc;

use ostler_door_web::{Tls, Tokens, Web};
use ostler_engine::Engine;
use tokio::net::TcpListener;

use crate::connection::Connection;
use crate::{Config, DOOR, DoorState, Settings, yaml};

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
    tokens: Option<Arc<Tokens>>,
    web: Web,
}

/// What a door of this configuration needs, read: there is no door without it, and so nothing to start an engine for.
#[derive(Clone)]
pub struct Ready(Option<AuthMode>);

/// What auth mode needs.
#[derive(Clone)]
struct AuthMode {
    tls: Tls,
    tokens: Arc<Tokens>,
}

impl Ready {
    /// In auth mode reads tokens and the certificate, which may wait for the disk.
    pub fn read(config: &Config) -> io::Result<Self> {
        if !config.is_open() {
            return Ok(Self(None));
        }
        let tokens = yaml::read_tokens(&config.tokens_file)?;
        if tokens.is_empty() {
            tracing::warn!(
                "codecast: {} holds no token: nobody can come in from elsewhere",
                config.tokens_file.display()
            );
        }
        Ok(Self(Some(AuthMode { tls: Tls::made(&config.tls_cert, &config.tls_key)?, tokens: Arc::new(tokens) })))
    }
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, settings: Settings, ready: Ready) -> Self {
        let (tls, tokens) = ready.0.map(|mode| (mode.tls, mode.tokens)).unzip();
        let web = Web::new(DOOR, tls, tokens.is_some());
        Self { shared: Arc::new(DoorState::new(engine, settings, web.stopping())), tokens, web }
    }

    /// Serves every client that comes, until dropped.
    pub async fn serve(&self, listener: &TcpListener) {
        let (shared, tokens) = (Arc::clone(&self.shared), self.tokens.clone());
        let serving = self.web.serve(listener, move |arrived| {
            Connection { shared: Arc::clone(&shared), tokens: tokens.clone(), arrived }.router()
        });
        serving.await;
    }

    /// Ends every stream: as it should end where its turn is over, broken off where that goes on. Waits until they have
    /// ended, if that is soon.
    pub async fn close(&self) {
        self.web.close().await;
    }
}
