//! Which session is meant: the one place where a text becomes a session, for every door.

use super::{Session, SessionError, Sessions};

impl Sessions {
    /// The session meant by what a program knows it by: its UUID, its id, a name that a client chose, or the agent's own id of
    /// the conversation. Names of these spaces come first, in their order; one that is open comes before those that are closed.
    pub fn find(&self, spaces: &[&str], text: &str) -> Result<Session, SessionError> {
        match self.get(text).filter(|session| spaces.is_empty() && !session.is_closed()) {
            Some(session) => Ok(session),
            None => meant(&self.list(), spaces, text, |_| false),
        }
    }

    /// As [`Self::find`], where only an open one will do.
    pub fn find_open(&self, spaces: &[&str], text: &str) -> Result<Session, SessionError> {
        let mut open = self.list();
        open.retain(|session| !session.is_closed());
        meant(&open, spaces, text, |_| false)
    }

    /// As [`Self::find`], for people: also by the name that one of them gave it, or by the unique beginning of an id or UUID.
    pub fn resolve(&self, text: &str) -> Result<Session, SessionError> {
        if let Some(session) = self.get(text) {
            return Ok(session);
        }
        let all = self.list();
        let named = |session: &Session| session.look().state.settings.name.as_deref() == Some(text);
        match meant(&all, &[], text, named) {
            Err(SessionError::NotFound(_)) if !text.is_empty() => {
                let begins = |session: &&Session| session.id().starts_with(text) || session.uuid().starts_with(text);
                only(&all.iter().filter(begins).collect::<Vec<_>>(), text)
            }
            found => found,
        }
    }
}

/// The session that `text` means among all, oldest first; `also` says what else one may be called.
fn meant(
    all: &[Session],
    spaces: &[&str],
    text: &str,
    also: impl Fn(&Session) -> bool,
) -> Result<Session, SessionError> {
    let open: Vec<&Session> = all.iter().filter(|session| !session.is_closed()).collect();
    let closed: Vec<&Session> = all.iter().filter(|session| session.is_closed()).collect();
    for among in [&open, &closed] {
        let bears = |space: &&str| among.iter().rfind(|session| session.bears(space, text));
        let own = || among.iter().find(|session| session.id() == text || session.uuid() == text);
        if let Some(session) = spaces.iter().find_map(bears).or_else(own) {
            return Ok((*session).clone());
        }
        let called = |session: &&&Session| {
            let alias = session.inner.alias.as_ref().is_some_and(|alias| alias.id == text);
            alias || session.look().state.settings.agent_session.as_deref() == Some(text) || also(session)
        };
        let mut alike: Vec<&Session> = among.iter().filter(called).copied().collect();
        if alike.iter().all(|session| session.is_closed()) {
            alike = last_lives(alike);
        }
        if !alike.is_empty() {
            return only(&alike, text);
        }
    }
    Err(SessionError::NotFound(text.to_owned()))
}

/// One conversation that was gone on with in several sessions, all of them closed, is that of the last.
fn last_lives(alike: Vec<&Session>) -> Vec<&Session> {
    let talk = |session: &Session| {
        let desk = session.look();
        let id = desk.state.settings.agent_session.clone()?;
        Some((desk.state.created.agent.name().to_owned(), id))
    };
    let talks: Vec<_> = alike.iter().map(|session| talk(session)).collect();
    let is_last = |at: usize| {
        talks.get(at).is_some_and(|own| own.is_none() || !talks.iter().skip(at + 1).any(|later| later == own))
    };
    alike.into_iter().enumerate().filter(|(at, _)| is_last(*at)).map(|(_, session)| session).collect()
}

/// The only one of them, or why there is none.
fn only(alike: &[&Session], text: &str) -> Result<Session, SessionError> {
    match alike {
        [] => Err(SessionError::NotFound(text.to_owned())),
        [one] => Ok((*one).clone()),
        several => {
            let ids = several.iter().map(|session| session.id().to_owned()).collect();
            Err(SessionError::Ambiguous { text: text.to_owned(), ids })
        }
    }
}
