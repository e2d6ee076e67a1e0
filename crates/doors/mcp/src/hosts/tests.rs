use super::*;

fn registry() -> (tempfile::TempDir, Registry) {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::at(folder.path().join("sudo-proxy/hosts.json"));
    (folder, registry)
}

#[test]
fn the_file_and_its_folder_are_the_owners_alone() {
    let (_folder, registry) = registry();
    registry.change(|hosts| hosts.touch("box", "1.2.0")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&registry.path), mode(registry.path.parent().unwrap())), (0o600, 0o700));
    let host = registry.load().unwrap().hosts["box"].clone();
    assert_eq!(host.version, "1.2.0");
    assert!(host.last_connected.ends_with('Z'), "{host:?}");
}

#[test]
fn an_answer_without_a_release_keeps_the_known_one() {
    let (_folder, registry) = registry();
    registry.change(|hosts| hosts.touch("box", "1.2.0")).unwrap();
    registry.change(|hosts| hosts.touch("box", "")).unwrap();
    assert_eq!(registry.load().unwrap().hosts["box"].version, "1.2.0");
}

#[test]
fn what_we_do_not_know_stays_in_the_file() {
    let (_folder, registry) = registry();
    fs::create_dir_all(registry.path.parent().unwrap()).unwrap();
    let text =
        r#"{"hosts":{"a":{"os":"x","tags":[1]}},"policy":{"unattended_eligible":true,"more":2},"future":{"k":null}}"#;
    fs::write(&registry.path, text).unwrap();
    registry.change(|hosts| hosts.host("b").os.push('y')).unwrap();
    let now: Value = serde_json::from_str(&fs::read_to_string(&registry.path).unwrap()).unwrap();
    assert_eq!(now["hosts"]["a"]["tags"], serde_json::json!([1]));
    assert_eq!(now["policy"], serde_json::json!({"unattended_eligible": true, "more": 2}));
    assert_eq!(now["future"], serde_json::json!({"k": null}));
    assert_eq!(now["hosts"]["b"]["os"], "y");
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let (_folder, registry) = registry();
    fs::create_dir_all(registry.path.parent().unwrap()).unwrap();
    fs::write(&registry.path, "{\"policy\": oops").unwrap();
    assert!(matches!(registry.change(|hosts| hosts.touch("a", "")), Err(HostsError::Damaged { .. })));
    assert_eq!(fs::read_to_string(&registry.path).unwrap(), "{\"policy\": oops");
    assert_eq!(registry.load_or_empty(), Hosts::default());
}

#[test]
fn the_file_cannot_grow_without_end() {
    let (_folder, registry) = registry();
    registry.change(|hosts| hosts.touch("a", "")).unwrap();
    let long = "x".repeat(FILE_MAX as usize);
    assert!(matches!(registry.change(|hosts| hosts.host("a").os = long), Err(HostsError::TooLong(_))));
    assert_eq!(registry.load().unwrap().hosts["a"].os, "");
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let (_folder, registry) = registry();
    thread::scope(|scope| {
        for i in 0..8 {
            let registry = registry.clone();
            scope.spawn(move || {
                for j in 0..5 {
                    registry.change(|hosts| hosts.touch(&format!("h{i}-{j}"), "")).unwrap();
                }
            });
        }
    });
    assert_eq!(registry.load().unwrap().hosts.len(), 40);
}

#[test]
fn an_absent_policy_allows_nothing() {
    let hosts: Hosts = serde_json::from_str(r#"{"hosts":{},"policy":{"confirm_unprivileged":false}}"#).unwrap();
    assert!(!hosts.policy.unattended_eligible);
    assert_eq!(serde_json::to_value(Hosts::default()).unwrap()["policy"]["unattended_eligible"], false);
}
