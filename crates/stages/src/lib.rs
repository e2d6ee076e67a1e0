//! Runs an approved command line, stage by stage, and tells what came of it.
