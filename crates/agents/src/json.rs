//! Small looks into JSON that may be anything.

use serde::de::DeserializeOwned;

use ostler_story::Json;

/// An object, or nothing: agents speak in objects.
pub(crate) fn object(line: &[u8]) -> Option<Json> {
    serde_json::from_slice::<Json>(line).ok().filter(Json::is_object)
}

/// The value at the end of a path of member names.
pub(crate) fn at<'a>(value: &'a Json, path: &[&str]) -> Option<&'a Json> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The string at the end of a path.
pub(crate) fn text<'a>(value: &'a Json, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The string at the end of a path, or nothing at all.
pub(crate) fn text_or_empty(value: &Json, path: &[&str]) -> String {
    text(value, path).unwrap_or_default().to_owned()
}

/// The list at the end of a path, empty if there is none.
pub(crate) fn list<'a>(value: &'a Json, path: &[&str]) -> &'a [Json] {
    at(value, path).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// The number at the end of a path.
pub(crate) fn number(value: &Json, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

/// Whether the end of a path says true.
pub(crate) fn yes(value: &Json, path: &[&str]) -> bool {
    at(value, path).and_then(Json::as_bool).unwrap_or(false)
}

/// A member as a type of the agent's protocol, or nothing when it is missing or odd: a word that is slightly off must
/// not cost what stands beside it.
pub(crate) fn part<T: DeserializeOwned>(value: &Json, name: &str) -> Option<T> {
    T::deserialize(value.get(name)?).ok()
}

/// One line for stdin.
pub(crate) fn line(value: &Json) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// 120 characters: a title is one line on a phone.
const TITLE: usize = 120;

/// The first line of a text, short enough for a title.
pub(crate) fn title(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match first.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", first.get(..end).unwrap_or_default()),
        None => first.to_owned(),
    }
}
