//! The page at `/pair`: what a phone scans, what a person types, and how long it is good. Everything on it is written here and
//! escaped; it loads nothing from elsewhere and runs nothing that is not a file of its own.

use axum::http::{StatusCode, header};

use crate::reply::Reply;

/// Files of our own, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A phone beside a screen.
const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect x="1" y="3" width="9" height="8" rx="1" fill="#0b57c2"/><rect x="9" y="5" width="6" height="9" rx="1" fill="#5b9bff"/></svg>"##;

/// What is shown to who may see it.
pub(crate) struct Shown {
    /// The QR code.
    pub(crate) square: String,
    /// Six digits.
    pub(crate) code: String,
    pub(crate) token: String,
    /// How many seconds they are good.
    pub(crate) left_s: u64,
}

/// The page, of a server at this address.
pub(crate) fn page(url: &str, repo: &str, approval: bool, shown: Option<&Shown>) -> Reply {
    let title = if repo.is_empty() { "Pair a device".to_owned() } else { format!("Pair a device with {}", text(repo)) };
    let code = shown.map_or_else(|| ELSEWHERE.to_owned(), |shown| code(url, shown));
    let waiting = if approval { WAITING } else { "" };
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <link rel=\"icon\" href=\"/api/pair/icon.svg\"><link rel=\"stylesheet\" href=\"/api/pair/page.css\"><script src=\"/api/pair/page.js\" defer></script></head>\
         <body><main><h1>{title}</h1>{code}{waiting}<p id=\"told\" class=\"note\" role=\"status\"></p></main></body></html>"
    );
    Reply::of(StatusCode::OK, "text/html; charset=utf-8", html.into_bytes())
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
}

/// For who is not at this machine.
const ELSEWHERE: &str = "<section><p>The code is shown at the machine itself. Run <code>cdev pair</code> there, or open this \
                         page in a browser on it.</p></section>";

/// Who waits; filled by the script, for who may decide.
const WAITING: &str = "<section id=\"waiting\" hidden><h2>Waiting devices</h2>\
    <div id=\"may\" hidden><ul id=\"list\"></ul><p id=\"nobody\" class=\"note\">None. A device that scans or types the code \
    shows here.</p></div>\
    <p id=\"may-not\" class=\"note\" hidden>To accept devices here, run <code>cdev pair</code> in a terminal and open the link \
    that it prints.</p></section>";

fn code(url: &str, shown: &Shown) -> String {
    let (first, rest) = shown.code.split_at_checked(3).unwrap_or((&shown.code, ""));
    let left = shown.left_s;
    format!(
        "<section><div class=\"square\">{}</div><p>Scan this with the phone, or type the code at <b class=\"where\">{}</b>:</p>\
         <p class=\"code\">{} {}</p>\
         <p class=\"note\">For one device, for another <b id=\"left\" data-seconds=\"{left}\">{}:{:02}</b> minutes.</p>\
         <details><summary>Token</summary><code class=\"token\">{}</code></details></section>",
        shown.square,
        text(url),
        text(first),
        text(rest),
        left / 60,
        left % 60,
        text(&shown.token),
    )
}

/// A file of the page.
pub(crate) fn file(path: &str) -> Option<Reply> {
    let (kind, text) = match path {
        "/api/pair/icon.svg" => ("image/svg+xml", ICON),
        "/api/pair/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/api/pair/page.css" => ("text/css; charset=utf-8", STYLE),
        _ => return None,
    };
    Some(Reply::of(StatusCode::OK, kind, text.as_bytes().to_vec()))
}

/// A text as HTML has it.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            sign => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_folder_is_called_becomes_a_part_of_the_page() {
        let reply = page("http://localhost", "<script>alert('x')</script>", false, None);
        let html = String::from_utf8(reply.body).unwrap();
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)") && !html.contains("<script>"));
    }
}
