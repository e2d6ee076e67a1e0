//! A file as browsers and phones post one: `multipart/form-data` with a part called `file`. It becomes the parameters of the
//! method behind the address, so that a picture is judged the same however it comes. Reads nothing but that part.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use ostler_door_web::{BodyLimits, read_body};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Code, Error};
use crate::file::encoded;
use crate::upload::FILE_MAX;
use crate::{http, query};

/// What stands around the file: a few lines, and what browsers send beside it.
const AROUND: usize = 64 << 10;
/// Longer than any program makes it; the standard says 70.
const BOUNDARY_MAX: usize = 200;

/// What the address says.
#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    workspace_id: Option<String>,
}

/// What the method is given.
#[derive(Serialize)]
struct Params<'a> {
    data: String,
    workspace_id: Option<&'a str>,
}

/// As the description has it.
pub(crate) fn described() -> Value {
    let file = json!({ "type": "string", "format": "binary" });
    let schema = json!({ "type": "object", "properties": { "file": file }, "required": ["file"] });
    json!({ "multipart/form-data": { "schema": schema } })
}

/// A form that was sent.
pub(crate) struct Form {
    body: Bytes,
    boundary: String,
    which: Which,
}

impl Form {
    /// Reads it.
    pub(crate) async fn read(request: Request) -> Result<Self, Error> {
        let which: Which = query::read(request.uri().query().unwrap_or_default()).map_err(Error::params)?;
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = kind.and_then(boundary).ok_or_else(|| {
            Error::new(Code::MediaType, "the file is posted as multipart/form-data, in a part called `file`")
        })?;
        let limits = BodyLimits { size: usize::try_from(FILE_MAX).unwrap_or(usize::MAX) + AROUND, ..http::BODY };
        let body = read_body(request, limits).await.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Error::new(Code::FileTooLarge, format!("at most {FILE_MAX} bytes are taken"))
            }
            _ => Error::params(error.to_string()),
        })?;
        Ok(Self { body, boundary, which })
    }

    /// Its file, as the parameters of the method. Goes through all of it, so not on a thread that many share.
    pub(crate) fn params(&self) -> Result<String, Error> {
        let none = || Error::params("the form has no part called `file` that is whole");
        let file = part(&self.body, &self.boundary, "file").ok_or_else(none)?;
        let params = Params { data: encoded(file), workspace_id: self.which.workspace_id.as_deref() };
        serde_json::to_string(&params).map_err(Error::internal)
    }
}

/// What parts are told apart by.
fn boundary(kind: &str) -> Option<String> {
    let (form, rest) = kind.split_once(';')?;
    if !form.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = rest.split(';').find_map(|member| {
        let (name, value) = member.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    (1..=BOUNDARY_MAX).contains(&value.len()).then(|| value.to_owned())
}

/// Where a text begins.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|here| here == wanted)
}

/// The content of the first part of this name.
fn part<'a>(body: &'a [u8], boundary: &str, name: &str) -> Option<&'a [u8]> {
    let (first, between) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    let mut rest = body.get(find(body, first.as_bytes())? + first.len()..)?;
    loop {
        // What follows the last part is two dashes.
        let head_and_content = rest.strip_prefix(b"\r\n")?;
        let head_ends = find(head_and_content, b"\r\n\r\n")?;
        let (head, content) = head_and_content.split_at_checked(head_ends)?;
        let content = content.get(4..)?;
        let ends = find(content, between.as_bytes())?;
        if is_called(head, name) {
            return content.get(..ends);
        }
        rest = content.get(ends + between.len()..)?;
    }
}

/// Whether the lines above a part give it this name.
fn is_called(head: &[u8], name: &str) -> bool {
    let text = String::from_utf8_lossy(head);
    text.split("\r\n").any(|line| {
        let Some((key, value)) = line.split_once(':') else { return false };
        let mut members = value.split(';').map(str::trim);
        key.trim().eq_ignore_ascii_case("content-disposition")
            && members.next().is_some_and(|kind| kind.eq_ignore_ascii_case("form-data"))
            && members.any(|member| member == format!("name=\"{name}\"") || member == format!("name={name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"before\r\n--xx\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nfile\r\n--xx\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a;b.png\"\r\nContent-Type: image/png\r\n\r\n\r\n--x\0\r\n--xx--\r\n";

    #[test]
    fn a_part_is_found_by_its_name_and_has_every_byte() {
        assert_eq!(part(FORM, "xx", "file"), Some(&b"\r\n--x\0"[..]));
        assert_eq!(part(FORM, "xx", "note"), Some(&b"file"[..]));
        assert_eq!(part(FORM, "xx", "other"), None);
    }

    #[test]
    fn a_form_that_breaks_off_anywhere_has_no_file() {
        let whole = find(FORM, b"\r\n--xx--").unwrap() + 6;
        for length in 0..whole {
            assert_eq!(part(&FORM[..length], "xx", "file"), None, "{length}");
        }
    }

    #[test]
    fn only_forms_have_a_boundary() {
        assert_eq!(boundary("multipart/form-data; boundary=\"a b\"").as_deref(), Some("a b"));
        assert_eq!(boundary("Multipart/Form-Data; charset=utf-8; Boundary=x").as_deref(), Some("x"));
        for odd in ["multipart/form-data", "multipart/form-data; boundary=", "application/json; boundary=x"] {
            assert_eq!(boundary(odd), None, "{odd}");
        }
    }
}
