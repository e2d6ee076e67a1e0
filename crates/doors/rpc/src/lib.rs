//! What newline-delimited doors share: line framing, the bounded connection.
