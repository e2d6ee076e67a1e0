//! A pipeline as one line for people. No two different pipelines give the same line: a literal `|` is quoted, a pipe is not.

/// The whole pipeline, stages joined by pipes.
pub fn pipeline(stages: &[Vec<String>]) -> String {
    let stages: Vec<String> = stages.iter().map(|stage| command(stage)).collect();
    stages.join(" | ")
}

/// One stage.
pub fn command(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// A word as it is, unless that would be read as something else.
fn quoted(word: &str) -> String {
    // Texts with tabs are written as shells write them, because a tab is not seen.
    if word.contains('\t') {
        let inner = word.replace('\\', "\\\\").replace('\'', "\\'").replace('\t', "\\t");
        return format!("$'{inner}'");
    }
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '|'));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stages: &[&[&str]]) -> String {
        let stages: Vec<Vec<String>> =
            stages.iter().map(|stage| stage.iter().map(|word| (*word).to_owned()).collect()).collect();
        pipeline(&stages)
    }

    #[test]
    fn words_are_quoted_only_where_they_would_be_misread() {
        assert_eq!(line(&[&["echo", "shown words", "", "a=b", "$HOME"]]), "echo 'shown words' '' a=b $HOME");
        assert_eq!(line(&[&["printf", "it's", "\"q\""]]), r#"printf 'it'\''s' '"q"'"#);
    }

    #[test]
    fn a_literal_bar_is_shown_unlike_a_pipe() {
        assert_eq!(line(&[&["echo", "a", "|", "cat"]]), "echo a '|' cat");
        assert_eq!(line(&[&["echo", "a"], &["cat"]]), "echo a | cat");
        assert_eq!(line(&[&["echo", "a | cat"]]), "echo 'a | cat'");
    }

    #[test]
    fn a_tab_or_a_wide_space_is_seen() {
        assert_eq!(line(&[&["printf", "a\tb'\\"]]), r"printf $'a\tb\'\\'");
        assert_eq!(line(&[&["x\u{3000}y"]]), "'x\u{3000}y'");
    }

    #[test]
    fn different_pipelines_give_different_lines() {
        let words = ["a", "|", "'", "' '", "", "\t", "$'\\t'", "'\\''", "a b", "\\t", "$'a'"];
        let mut seen = std::collections::HashMap::new();
        for one in words {
            for two in words {
                for stages in [vec![vec![one, two]], vec![vec![one], vec![two]], vec![vec![one]]] {
                    let line = line(&stages.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    let before = seen.insert(line.clone(), stages.clone());
                    assert!(before.is_none_or(|before| before == stages), "{line}");
                }
            }
        }
    }
}
