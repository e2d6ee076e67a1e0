//! `docs/commands.md`: every command with its help, written from the command line's own description. The test fails when the
//! file says something else, and writes it when `OSTLER_WRITE_REFERENCE` is set.

use std::fmt::Write;
use std::path::Path;

use clap::Command;

const HEAD: &str = "# Commands\n\nGenerated from the program itself; `ostler COMMAND --help` says the same.\n";

/// A command and those below it, each with a heading of its own.
fn describe(command: &Command, name: &str, out: &mut String) {
    let shown = command.clone().mut_args(|arg| {
        let everywhere = arg.is_global_set() || arg.get_id() == "help";
        if everywhere { arg.hide(true) } else { arg }
    });
    let help = shown.bin_name(name).term_width(100).render_help().to_string();
    let lines: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    let _ = write!(out, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        describe(below, &format!("{name} {}", below.get_name()), out);
    }
}

#[test]
fn the_command_reference_says_what_the_program_says() {
    let mut text = HEAD.to_owned();
    let mut command = crate::cli::description();
    command.build();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        describe(verb, &format!("ostler {}", verb.get_name()), &mut text);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    if std::env::var_os("OSTLER_WRITE_REFERENCE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = text.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(
        text == written,
        "docs/commands.md is not what the program says ({differs:?}): OSTLER_WRITE_REFERENCE=1 cargo test --workspace command_reference writes it"
    );
}
