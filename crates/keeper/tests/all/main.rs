//! A real keeper. The tests are the keeper that they test, and the daemons that it serves: a program that re-executes
//! itself needs its own main.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod groups;
mod keeper;
mod life;
mod spawn;
mod torture;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [name @ ("first" | "second" | "doomed"), dir] => return life::play(name, Path::new(dir)),
        [_, "stranger", dir, said] => return life::intrude(Path::new(dir), Path::new(said)),
        ["powerless"] => groups::powerless(),
        ["crowd"] => torture::crowd(),
        ["stuck"] => torture::stuck(),
        ["hindered"] => torture::hindered(),
        _ => {
            let all = [groups::tests(), keeper::tests(), life::tests(), spawn::tests(), torture::tests()];
            return common::main(&all.concat());
        }
    }
    ExitCode::SUCCESS
}
