//! The page at `/pair`: what a phone scans, what a person types, and how long it is good. Everything on it is written here and
//! escaped; it loads nothing from elsewhere and runs nothing that is not a file of its own.

use axum::http::{StatusCode, header};

use crate::reply::Reply;

/// Files of our own, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const STYLE: &str = include_str!("page.css");

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
    let body = match shown {
        None => "<p class=\"note\">The code is shown at the machine itself. Run <code>cdev pair</code> there, or open this page \
                 in a browser on it.</p>"
            .to_owned(),
        Some(shown) => {
            let (first, rest) = shown.code.split_at_checked(3).unwrap_or((&shown.code, ""));
            let minutes = shown.left_s.div_ceil(60);
            let asked = if approval { "<p class=\"note\">You are asked before a device is let in.</p>" } else { "" };
            format!(
                "<div class=\"square\">{}</div>\
                 <p>Scan this with the phone, or type the code at <b>{}</b>:</p>\
                 <p class=\"code\">{} {}</p>\
                 <p class=\"note\">Good for {minutes} minutes, and for one device.</p>{asked}\
                 <details><summary>Token</summary><code class=\"token\">{}</code></details>",
                shown.square,
                text(url),
                text(first),
                text(rest),
                text(&shown.token),
            )
        }
    };
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <link rel=\"stylesheet\" href=\"/api/pair/page.css\"></head><body><main><h1>{title}</h1>{body}</main></body></html>"
    );
    Reply::of(StatusCode::OK, "text/html; charset=utf-8", html.into_bytes())
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
}

/// A file of the page.
pub(crate) fn file(path: &str) -> Option<Reply> {
    let (kind, text) = match path {
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
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)") && !html.contains("<script"));
    }
}
