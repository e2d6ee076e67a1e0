//! Why an agent that is logged in elsewhere may not be where ostler runs it.

use ostler_story::ErrorKind;

/// What agents say when nobody is logged in.
const WORDS: &[&str] = &["not logged in", "/login", "auth login", "codex login", "authentication required", "api key"];

/// The rule, for whoever just heard that an agent is not logged in.
pub(super) const RULE: &str = "  agents get the environment that ostler was started in, not this terminal's: `ostler doctor` shows \
                               who is logged in there, `ostler new --env KEY` passes a key on";

/// Whether an error or a failed turn is about a login.
pub(super) fn is_about_login(kind: Option<ErrorKind>, message: &str) -> bool {
    let message = message.to_lowercase();
    kind == Some(ErrorKind::Login) || WORDS.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_say_without_a_login_is_known() {
        let failed = |message| is_about_login(Some(ErrorKind::Agent), message);
        assert!(failed("Not logged in · Please run /login") && failed("Invalid API key · Fix external API key"));
        assert!(is_about_login(Some(ErrorKind::Login), "") && !failed("the model is overloaded"));
    }
}
