use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ostler_engine::Forker;

use super::*;
use crate::error;
use crate::gojson::parse_object;

struct Repo {
    base: PathBuf,
    env: Env,
    _guard: tempfile::TempDir,
}

impl Repo {
    fn new() -> Self {
        let guard = tempfile::tempdir().unwrap();
        let base = guard.path().canonicalize().unwrap();
        let vars = [
            ("HOME", base.to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "t"),
            ("GIT_AUTHOR_EMAIL", "t@example.invalid"),
            ("GIT_COMMITTER_NAME", "t"),
            ("GIT_COMMITTER_EMAIL", "t@example.invalid"),
            ("LC_ALL", "C"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        let env =
            Env { path: std::env::var_os("PATH").unwrap(), home: None, vars, forker: Forker::here(), folder: None };
        let repo = Repo { base, env, _guard: guard };
        fs::create_dir(repo.dir()).unwrap();
        repo.git(&["init", "-q", "-b", "main"]);
        fs::write(repo.dir().join("a.txt"), "1\n").unwrap();
        repo.git(&["add", "-A"]);
        repo.git(&["commit", "-q", "-m", "first"]);
        repo
    }

    fn dir(&self) -> PathBuf {
        self.base.join("proj")
    }

    fn git(&self, args: &[&str]) {
        let status = Command::new("git")
            .current_dir(self.dir())
            .env_clear()
            .env("PATH", &self.env.path)
            .envs(self.env.vars.iter().cloned())
            .args(args)
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?}");
    }

    /// Asks with `@` in the params standing for the directory around the repository.
    fn ask(&self, method: &str, params: &str) -> Result<String, RpcError> {
        let params = params.replace('@', self.base.to_str().unwrap());
        let params = parse_object(params.as_bytes()).unwrap().unwrap_or_default();
        let mut out = Vec::new();
        call(method, &params, &self.env, &mut out).expect("a method")?;
        Ok(String::from_utf8(out).unwrap().replace(self.base.to_str().unwrap(), "@"))
    }

    fn said(&self, method: &str, params: &str) -> String {
        self.ask(method, params).unwrap()
    }
}

#[test]
fn every_field_of_the_namespace_must_be_well_typed_even_when_unused() {
    let repo = Repo::new();
    for field in ["path", "baseRepo", "branchName", "worktreePath", "sourceBranch"] {
        for method in ["info", "status", "list_branches", "worktree_create", "worktree_remove"] {
            let params = format!("{{\"{field}\":[1,2]}}");
            assert_eq!(repo.ask(method, &params), Err(error::invalid_params()), "{method} {field}");
        }
    }
    assert!(repo.ask("info", r#"{"path":"@","maxBytes":"x"}"#).is_ok());
    assert!(call("nope", &Object::default(), &repo.env, &mut Vec::new()).is_none());
}

#[test]
fn info_has_every_field_in_order() {
    let repo = Repo::new();
    repo.git(&["checkout", "-q", "-b", "feature/<a>"]);
    repo.git(&["config", "remote.origin.url", "git@github.com:owner/repo.git"]);
    assert_eq!(
        repo.said("info", r#"{"path":"@/proj"}"#),
        r#"{"isRepo":true,"repo":"proj","branch":"feature/\u003ca\u003e","root":"@/proj","repoSlug":"owner/repo","defaultBranch":""}"#
    );
    repo.git(&["checkout", "-q", "--detach"]);
    assert!(repo.said("info", r#"{"path":"@/proj"}"#).contains(r#""branch":"detached:"#));
    let none = r#"{"isRepo":false,"repoSlug":"","defaultBranch":""}"#;
    assert_eq!(repo.said("info", r#"{"path":"@"}"#), none);
    assert_eq!(repo.said("info", r#"{"path":"@/proj\u0000"}"#), none);
}

#[test]
fn status_and_branches_have_their_shapes() {
    let repo = Repo::new();
    let here = r#"{"path":"@/proj"}"#;
    assert_eq!(repo.said("status", here), r#"{"isRepo":true,"clean":true}"#);
    fs::write(repo.dir().join("a.txt"), "2\n").unwrap();
    fs::write(repo.dir().join("new"), "").unwrap();
    assert_eq!(repo.said("status", here), r#"{"isRepo":true,"clean":false,"changes":["M a.txt","?? new"]}"#);
    assert_eq!(repo.said("status", r#"{"path":"@"}"#), r#"{"isRepo":false,"clean":false}"#);
    repo.git(&["branch", "B"]);
    assert_eq!(repo.said("list_branches", here), r#"{"isRepo":true,"branches":["B","main"]}"#);
    assert_eq!(repo.said("list_branches", r#"{"path":"@"}"#), r#"{"isRepo":false,"branches":[]}"#);
}

#[test]
fn a_status_that_fails_is_an_error_and_not_clean() {
    let repo = Repo::new();
    fs::write(repo.dir().join(".git/index"), "garbage").unwrap();
    let error = repo.ask("status", r#"{"path":"@/proj"}"#).unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.starts_with("git: status failed"), "{}", error.message);
}

#[test]
fn a_worktree_is_made_and_removed() {
    let repo = Repo::new();
    let made = repo.said("worktree_create", r#"{"baseRepo":"@/proj","branchName":"w","worktreePath":"@/w"}"#);
    assert_eq!(made, r#"{"success":true,"path":"@/w","sourceBranch":"main"}"#);
    assert!(repo.base.join("w/a.txt").is_file());
    let ok = r#"{"success":true}"#;
    for _ in 0..2 {
        assert_eq!(repo.said("worktree_remove", r#"{"baseRepo":"@/proj","worktreePath":"@/w"}"#), ok);
        assert!(!repo.base.join("w").exists());
    }
    assert_eq!(repo.said("worktree_remove", r#"{"baseRepo":"@/proj"}"#), ok);
    assert!(repo.dir().join("a.txt").is_file());
}

#[test]
fn a_worktree_that_is_not_made_says_why() {
    let repo = Repo::new();
    let required = RpcError::params("branchName is required");
    assert_eq!(repo.ask("worktree_create", r#"{"baseRepo":"@/none"}"#), Err(required));
    let none = r#"{"success":false,"error":"not a git repository","errorCode":"not_a_repo"}"#;
    assert_eq!(repo.said("worktree_create", r#"{"path":"@/proj","baseRepo":"@","branchName":"b"}"#), none);
    for (params, part) in [
        (r#""branchName":"main","worktreePath":"@/w""#, "already exists"),
        (r#""branchName":"--foo","worktreePath":"@/w""#, "'--foo' is not a valid branch name"),
        (r#""branchName":"b","worktreePath":"@/w","sourceBranch":"<no>""#, r"\u003cno\u003e"),
        (r#""branchName":"b","worktreePath":"@/w","sourceBranch":"--detach""#, "--detach"),
        (r#""branchName":"b""#, "no path given"),
        (r#""branchName":"a\u0000b","worktreePath":"@/w""#, "nul byte"),
    ] {
        let said = repo.said("worktree_create", &format!("{{\"baseRepo\":\"@/proj\",{params}}}"));
        assert!(said.starts_with(r#"{"success":false,"error":"git worktree add failed: "#), "{said}");
        assert!(said.ends_with(r#"","errorCode":"worktree_add_failed"}"#), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(!repo.base.join("w").exists());
    }
}
