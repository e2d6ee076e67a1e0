//! The sudo-proxy door: one JSON line per connection, a human in between.
