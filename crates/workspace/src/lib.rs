//! A directory: files and git.
