//! The two small files of settings that clients of this protocol write, both YAML.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ostler_door_web::Tokens;
use saphyr::{LoadableYamlNode, Yaml};

/// Far more than either file needs.
const FILE_MAX: u64 = 1 << 20;

/// What a file holds; nothing if there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_MAX).read_to_string(&mut text).map(|_| Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The named settings of a flat file, in the order of the names; numbers are given as text.
pub(crate) fn settings<const N: usize>(text: &str, names: [&str; N]) -> Result<[Option<String>; N], String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let Some(top) = documents.first() else { return Ok(names.map(|_| None)) };
    if !(top.is_mapping() || top.is_null()) {
        return Err("expected names and values".to_owned());
    }
    Ok(names.map(|name| top.as_mapping_get(name).and_then(scalar)))
}

/// The tokens of a file, which may be missing: then nobody comes in without being our own user.
pub(crate) fn read_tokens(path: &Path) -> io::Result<Tokens> {
    let Some(text) = read(path)? else { return Ok(Tokens::default()) };
    let tokens = tokens(&text).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
    Ok(Tokens::of(tokens.iter().map(String::as_str)))
}

/// The tokens of `tokens: [{token, label, created}]`.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let Some(top) = documents.first().filter(|top| !top.is_null()) else { return Ok(Vec::new()) };
    let list = top.as_mapping_get("tokens").ok_or("expected a list named tokens")?;
    match list.as_vec() {
        Some(list) => Ok(list.iter().filter_map(|entry| entry.as_mapping_get("token").and_then(scalar)).collect()),
        None if list.is_null() => Ok(Vec::new()),
        None => Err("expected a list named tokens".to_owned()),
    }
}

fn scalar(value: &Yaml<'_>) -> Option<String> {
    match value.as_str() {
        Some(text) => Some(text.to_owned()),
        None => value.as_integer().map(|number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_settings_are_found_by_name() {
        let text = "# c\nport: 9200\nbind: '0.0.0.0'\nother: [1]\ntls_key: ~\n";
        let found = settings(text, ["port", "bind", "tls_key", "absent"]).unwrap();
        assert_eq!(found, [Some("9200".into()), Some("0.0.0.0".into()), None, None]);
        assert_eq!(settings("", ["port"]).unwrap(), [None]);
        assert_eq!(settings("# nothing\n", ["port"]).unwrap(), [None]);
    }

    #[test]
    fn what_is_no_list_of_settings_is_an_error() {
        for bad in ["[1, 2]", "port: [", "just words"] {
            assert!(settings(bad, ["port"]).is_err(), "{bad}");
        }
        for bad in ["tokens: x", "[a]", "other: 1"] {
            assert!(tokens(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tokens_without_a_token_are_none() {
        assert_eq!(tokens("tokens:\n- label: x\n- token: a\n- 7\n").unwrap(), ["a"]);
        assert!(tokens("tokens:\n").unwrap().is_empty());
        assert!(tokens("").unwrap().is_empty());
    }

    #[test]
    fn a_file_of_tokens_as_the_head_node_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.yaml");
        assert!(read_tokens(&path).unwrap().is_empty());
        std::fs::write(
            &path,
            "tokens:\n- token: ccast_ab\n  label: t\n  created: '2026-01-01T00:00:00+00:00'\n- token: second\n",
        )
        .unwrap();
        let tokens = read_tokens(&path).unwrap();
        assert!(tokens.know(b"ccast_ab") && tokens.know(b"second") && !tokens.know(b"t"));
    }

    #[test]
    fn a_file_that_does_not_read_is_an_error_not_an_open_door() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.yaml");
        std::fs::write(&path, "tokens: [").unwrap();
        assert!(read_tokens(&path).is_err());
    }
}
