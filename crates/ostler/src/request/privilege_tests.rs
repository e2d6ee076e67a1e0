use ostler_door_sudo_proxy::{File, Peer, Request};

use super::*;

const OFFER: Offer = Offer { seconds: 60, unattended: false };

fn file(path: &str, canonical: &str) -> Result<File, Missing> {
    Ok(File { path: path.into(), canonical: canonical.into(), seal: None, writable: None })
}

fn question(stages: Vec<(Vec<&str>, Result<File, Missing>)>) -> Question {
    let owned = |argv: &[&str]| argv.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    Question {
        approval: "a1".into(),
        hash: "h".into(),
        request: Request {
            id: "550e".into(),
            host: "workstation.local".into(),
            session: "alpha".into(),
            time: "2026-02-13T14:30:00Z".into(),
            pipeline: stages.iter().map(|(argv, _)| owned(argv)).collect(),
            env: [("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned()), ("TZ".to_owned(), "UTC".to_owned())]
                .into(),
            reason: "Install nginx".into(),
            privileged: true,
            forward_agent: false,
            version: "1.2.0".into(),
        },
        stages: stages
            .into_iter()
            .map(|(argv, file)| Stage { argv: owned(&argv), file, behind: Default::default() })
            .collect(),
        peer: Peer { uid: 1000, pid: Some(42), hosted: Some("pabc".into()), workspace: None },
    }
}

fn shown(question: &Question, offer: Offer) -> String {
    let (rows, asked) = privilege(question, offer);
    rows.iter().map(|row| format!("{}\n", row.text)).collect::<String>() + &asked
}

#[test]
fn the_whole_block_is_laid_out_as_people_know_it() {
    let asked = question(vec![(vec!["apt", "install", "nginx x"], file("/usr/bin/apt", "/usr/bin/apt"))]);
    let expected = "
━━━ Privilege Request ━━━
From:    alpha @ workstation.local
Client:  sudo-proxy 1.2.0
Peer:    uid 1000, pid 42, hosted as pabc
Time:    2026-02-13T14:30:00Z
ID:      550e
Reason:  Install nginx
Command: apt install 'nginx x'
Resolves: /usr/bin/apt
Env:     DEBIAN_FRONTEND=noninteractive TZ=UTC
Execute as root? [y/N] (60s timeout, default=N) ";
    assert_eq!(shown(&asked, OFFER), expected);
}

#[test]
fn absent_things_take_no_line_and_empty_claims_have_a_word() {
    let mut asked = question(vec![(vec!["/bin/true"], file("/bin/true", "/bin/true"))]);
    asked.request.reason.clear();
    asked.request.env.clear();
    asked.request.host.clear();
    asked.request.version.clear();
    asked.request.privileged = false;
    let text = shown(&asked, OFFER);
    assert!(text.contains("From:    alpha @ local\nClient:  sudo-proxy (unknown)\n"), "{text}");
    assert!(text.ends_with("Command: /bin/true\nExecute? [y/N] (60s timeout, default=N) "), "{text}");
}

#[test]
fn every_stage_shows_its_file_and_a_missing_one_is_warned_about() {
    let asked = question(vec![
        (vec!["awk", "x"], file("/usr/bin/awk", "/usr/bin/mawk")),
        (vec!["no-such"], Err(Missing::NotFound)),
        (vec!["sort"], file("/usr/bin/sort", "/usr/bin/sort")),
        (vec!["dir"], Err(Missing::Unusable("dir: is a directory".into()))),
    ]);
    let text = shown(&asked, OFFER);
    let expected = "Command: awk x | no-such | sort | dir
Resolves: /usr/bin/awk -> /usr/bin/mawk
Warning:  no-such not found in PATH
Resolves: [2] /usr/bin/sort
Resolves: [3] (dir: is a directory)
Env:";
    assert!(text.contains(expected), "{text}");
    let alone = shown(&question(vec![(vec!["no-such"], Err(Missing::NotFound))]), OFFER);
    assert!(alone.contains("Resolves: (not found in PATH)\n"), "{alone}");
}

#[test]
fn a_file_that_the_asker_could_replace_is_warned_about() {
    let mut asked = question(vec![(vec!["/home/u/x"], file("/home/u/x", "/home/u/x"))]);
    if let Ok(file) = &mut asked.stages[0].file {
        file.writable = Some("/home/u".into());
    }
    assert!(shown(&asked, OFFER).contains("Warning:  uid 1000 can write /home/u and so decide what runs\n"));
}

#[test]
fn a_grant_is_offered_only_where_it_may_be_given() {
    let eligible = Offer { unattended: true, ..OFFER };
    let mut asked = question(vec![(vec!["true"], file("/usr/bin/true", "/usr/bin/true"))]);
    assert!(shown(&asked, eligible).ends_with("Execute as root? [y/N] (60s timeout, default=N) "));
    asked.request.privileged = false;
    asked.request.forward_agent = true;
    let text = shown(&asked, eligible);
    let expected = "a = approve and allow unprivileged on this host for this session (not saved)
Execute? [y/N/a] (60s timeout, default=N) ";
    assert!(text.ends_with(expected), "{text}");
    assert!(text.contains("Command: true (agent forwarded)\n"), "{text}");
}

#[test]
fn a_command_that_does_not_fit_says_so_and_counts_as_not_shown() {
    let long = "x".repeat(SHOWN_MAX);
    let asked = question(vec![(vec!["echo", &long], file("/usr/bin/echo", "/usr/bin/echo"))]);
    assert!(!is_shown_whole(&asked));
    assert!(shown(&asked, OFFER).contains("x… [15365 more chars hidden — full command not shown]\n"));
    let fits = question(vec![(vec!["echo", &long[5..]], file("/usr/bin/echo", "/usr/bin/echo"))]);
    assert!(is_shown_whole(&fits));
}

#[test]
fn nothing_that_a_client_said_reaches_the_terminal_raw() {
    let mut asked = question(vec![(vec!["x\u{1b}[2J"], Err(Missing::Unusable("y\u{9b}2J".into())))]);
    let request = &mut asked.request;
    for text in [&mut request.time, &mut request.id, &mut request.session, &mut request.reason, &mut request.version] {
        text.push_str("\u{1b}[8m\u{202e}\u{3000}\u{2800}\u{fe0f}\u{a0}");
    }
    request.env.insert("LANG".into(), "C\u{2003}\u{e000}".into());
    asked.peer.hosted = Some("p\u{1b}".into());
    let text = shown(&asked, OFFER).replace(['━', '\n'], "");
    assert!(text.chars().all(ostler_door_rpc::is_plain), "{text:?}");
}

#[test]
fn values_that_could_be_mistaken_are_quoted() {
    let mut asked = question(vec![(vec!["rm", "-r", "/srv/old\\", "/etc"], file("/usr/bin/rm", "/usr/bin/r m"))]);
    asked.request.session = "a @ b".into();
    asked.request.reason = "x      Command: df -h".into();
    asked.request.env.insert("LANG".into(), "C Env: y".into());
    let text = shown(&asked, OFFER);
    for part in [
        "From:    'a @ b' @ workstation.local\n",
        "Reason:  'x      Command: df -h'\n",
        "Command: rm -r '/srv/old\\' /etc\n",
        "Resolves: /usr/bin/rm -> '/usr/bin/r m'\n",
        "Env:     DEBIAN_FRONTEND=noninteractive LANG='C Env: y' TZ=UTC\n",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

/// A whole false question, drawn by a variable that is padded to the width of the terminal.
#[test]
fn a_padded_variable_draws_no_second_question() {
    let mut asked = question(vec![(vec!["rm", "-rf", "/"], file("/usr/bin/rm", "/usr/bin/rm"))]);
    let pad = |line: &str| format!("{line:79}");
    let lines = ["C", "━━━ Privilege Request ━━━", "Command: df -h", "Execute as root? [y/N] (60s timeout, default=N)"];
    asked.request.env.insert("LANG".into(), lines.map(pad).concat());
    let (rows, asked) = privilege(&asked, OFFER);
    for width in [30, 79, 80, 120] {
        let pages = super::super::Pages::of(&rows, &asked, (width, 50)).unwrap();
        let drawn = pages.body(0);
        let starts = |start: &str| drawn.iter().filter(|row| row.text.starts_with(start)).count();
        assert_eq!((starts("Command: "), starts("━━━"), starts("Execute")), (1, 1, 0), "{drawn:?}");
        assert!(pages.foot(0)[0].text.starts_with("Execute as root? "));
    }
}

/// Many stages push the command off the top of a screen; they make pages instead.
#[test]
fn many_stages_are_read_page_by_page() {
    let stages = (0..128).map(|_| (vec!["cat"], file("/usr/bin/cat", "/usr/bin/cat"))).collect();
    let (rows, asked) = privilege(&question(stages), OFFER);
    let pages = super::super::Pages::of(&rows, &asked, (80, 24)).unwrap();
    assert!(pages.count() > 5);
    assert!(pages.body(0).iter().any(|row| row.text.starts_with("Command: cat | cat")));
    assert!((0..pages.count() - 1).all(|page| !pages.foot(page)[0].text.contains("Execute")));
}
