//! Agents of one's own: a name, and the command that speaks the Agent Client Protocol.
//!
//! No shell reads the command, so a text with quotes is refused instead of being taken for something else.

use ostler_story::Agent;
use toml::de::DeValue;

use super::Origin;

/// The section of the file.
pub(crate) const SECTION: &str = "agents";
/// What `config` says about each.
pub(crate) const DOC: &str = "A command that speaks the Agent Client Protocol, for `ostler new NAME`.";
/// 64 bytes: a name is typed, and stands in a column of `ostler sessions`.
const NAME_MAX: usize = 64;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct OwnAgent {
    pub(crate) name: String,
    /// The program, by name or absolute, and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) origin: Origin,
}

impl OwnAgent {
    pub(super) fn read(name: &str, value: &DeValue<'_>, origin: Origin) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), command: command(value)?, origin })
    }

    /// Its name among the settings.
    pub(crate) fn key(&self) -> String {
        format!("{SECTION}.{}", self.name)
    }

    /// The command as the file has it.
    pub(crate) fn text(&self) -> String {
        toml::Value::from(self.command.clone()).to_string()
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name == "acp" || Agent::known(name).is_some() {
        return Err(format!("`{name}` is a built-in agent; use another name"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let good = name.len() <= NAME_MAX && name.bytes().all(plain) && !name.starts_with(['-', '.']) && !name.is_empty();
    let why = || format!("use 1 to {NAME_MAX} letters, digits, - _ or ., not starting with - or .");
    if good { Ok(()) } else { Err(why()) }
}

fn command(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let expected = || "expected a command: [\"program\", \"argument\"], or \"program argument\"".to_owned();
    let words: Vec<String> = match value {
        DeValue::String(text) if text.contains(['"', '\'', '\\', '$']) => {
            return Err("this is not run by a shell; use a list: [\"program\", \"an argument\"]".to_owned());
        }
        DeValue::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        DeValue::Array(words) => {
            let word = |word: &toml::Spanned<DeValue<'_>>| word.get_ref().as_str().map(str::to_owned);
            words.iter().map(word).collect::<Option<_>>().ok_or_else(expected)?
        }
        _ => return Err(expected()),
    };
    match words.first() {
        None => Err(expected()),
        Some(program) if program.is_empty() || words.iter().any(|word| word.contains('\0')) => Err(expected()),
        // It runs in the folder of the session: a path from somewhere else would mean another file in each.
        Some(program) if program.contains('/') && !program.starts_with('/') => {
            Err(format!("`{program}` must be a name in PATH or an absolute path"))
        }
        Some(_) => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;

    #[test]
    fn a_command_is_a_list_or_plain_words() {
        let text = "[agents]\nmine = [\"/opt/my agent\", \"--acp\"]\nhers = \"her-agent  acp\"\n";
        let (config, problems) = load(text, &[]);
        assert!(problems.is_empty(), "{problems:?}");
        let agents = &config.sessions.agents;
        assert_eq!(agents["mine"], ["/opt/my agent", "--acp"]);
        assert_eq!(agents["hers"], ["her-agent", "acp"]);
        let shown: Vec<_> = config.rows().filter(|row| row.key.starts_with("agents.")).collect();
        let [hers, mine] = shown.as_slice() else { panic!("{shown:?}") };
        assert_eq!((mine.key.as_str(), mine.text.as_str()), ("agents.mine", "[\"/opt/my agent\", \"--acp\"]"));
        assert!(hers.origin.to_string().ends_with("config.toml:3"), "{}", hers.origin);
    }

    #[test]
    fn what_is_no_command_is_told_with_its_line() {
        for (value, why) in [
            ("[]", "expected a command"),
            ("\"\"", "expected a command"),
            ("7", "expected a command"),
            ("[\"x\", 7]", "expected a command"),
            ("{ command = \"x\" }", "expected a command"),
            ("\"sh -c 'x y'\"", "not run by a shell"),
            ("\"~/bin/x\"", "a name in PATH or an absolute path"),
            ("\"./x\"", "a name in PATH or an absolute path"),
        ] {
            let (config, problems) = load(&format!("[agents]\nmine = {value}\n"), &[]);
            assert_eq!(problems.len(), 1, "{value}: {problems:?}");
            assert!(problems[0].starts_with("FILE:2: agents.mine = ") && problems[0].contains(why), "{problems:?}");
            assert!(config.sessions.agents.is_empty());
        }
    }

    #[test]
    fn a_name_that_is_taken_or_hard_to_type_is_refused() {
        for name in ["claude", "codex", "gemini", "opencode", "echo", "acp"] {
            let (_, problems) = load(&format!("[agents]\n{name} = \"x\"\n"), &[]);
            assert!(problems[0].contains("a built-in agent"), "{problems:?}");
        }
        for name in ["\"\"", "\"a b\"", "-x", "\"é\"", "\"a/b\""] {
            let (_, problems) = load(&format!("[agents]\n{name} = \"x\"\n"), &[]);
            assert!(problems[0].contains("use 1 to 64"), "{name}: {problems:?}");
        }
    }

    #[test]
    fn a_mistyped_section_is_told_the_right_one() {
        let (_, problems) = load("[agent]\nmine = [\"x\"]\n", &[]);
        assert_eq!(problems, ["FILE:1: no section `agent`; did you mean `agents`?"]);
    }
}
