//! Devices in the record: what survives, what nobody vouches for, and what a device may decide.

use super::tests::*;
use super::*;
use crate::access::device::key::tests::Browser;
use crate::access::device::roster::Refresh;
use crate::access::device::{Device, Grant, Lifetimes, NotIn, Preset, Rights, Secret};
use crate::may_wait::IN_A_TEST;
use ostler_story::Signed;

fn device(name: &str, rights: Rights) -> Device {
    Device { id: crate::id::device().unwrap(), name: name.into(), rights, key: None, by: me() }
}

fn pair(inbox: &Inbox, name: &str, rights: Rights) -> (Device, Grant) {
    let (grant, tokens) = Grant::fresh(None, Lifetimes::default(), clock::wall_ms()).unwrap();
    (inbox.pair(IN_A_TEST, device(name, rights), Some(tokens), "192.0.2.1".into()).unwrap(), grant)
}

fn renew(inbox: &Inbox, refresh: &Secret) -> Result<Grant, NotIn> {
    let fresh = Grant::fresh(Some(refresh.reveal()), Lifetimes::default(), clock::wall_ms()).unwrap();
    inbox.renew(IN_A_TEST, refresh.reveal(), fresh, 0, "192.0.2.2".into()).unwrap()
}

fn by(device: &Device) -> By {
    By::Device { name: device.name.clone(), signed: None }
}

/// Whose access token it is, by the device's name.
fn whose(inbox: &Inbox, access: &Secret) -> Result<String, NotIn> {
    inbox.roster().with_access(access.reveal(), clock::wall_ms()).map(|held| held.device.name.clone())
}

#[test]
fn a_device_that_names_another_place_for_notices_again_and_again_does_not_fill_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (device, grant) = pair(&inbox, "phone", Preset::Watch.rights());
    let subscribe = |number: u32| {
        let endpoint = Some(format!("https://push.example/{number}"));
        inbox.subscribe_device(IN_A_TEST, &device.id, endpoint).is_ok()
    };
    // The clock goes on meanwhile.
    let noted = (0..1000).filter(|number| subscribe(*number)).count();
    assert!((32..=33).contains(&noted), "{noted}");
    assert_eq!(renew(&inbox, &grant.refresh), Err(NotIn::TooOften), "its own doing");
    // Nor does the next daemon let it.
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(whose(&inbox, &grant.access), Ok("phone".into()));
    assert!(inbox.subscribe_device(IN_A_TEST, &device.id, Some("https://push.example/x".into())).is_err());
}

#[test]
fn a_device_and_its_tokens_outlive_the_daemon_and_no_secret_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, grant) = pair(&inbox, "phone", Preset::Answer.rights());
    let grant = renew(&inbox, &grant.refresh).unwrap();
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(whose(&inbox, &grant.access), Ok("phone".into()));
    let next = renew(&inbox, &grant.refresh).unwrap();
    assert_eq!(whose(&inbox, &grant.access), Err(NotIn::Nobody), "the older one is used up");
    assert_eq!(whose(&inbox, &next.access), Ok("phone".into()));
    let files = ["inbox.db", "inbox.db-wal"].map(|name| std::fs::read(folder.path().join(name)).unwrap_or_default());
    let written = |text: &str| memchr::memmem::find(&files.concat(), text.as_bytes()).is_some();
    assert!(written("device_renewed"));
    for secret in [&next.access, &next.refresh, &grant.refresh] {
        assert!(!secret.reveal().split('.').any(written));
    }
}

#[test]
fn a_refresh_token_that_comes_again_at_once_is_refused_and_where_that_is_forgiven_nobody_is_put_out() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, first) = pair(&inbox, "phone", Preset::Answer.rights());
    let next = renew(&inbox, &first.refresh).unwrap();
    let fresh = Grant::fresh(None, Lifetimes::default(), clock::wall_ms()).unwrap();
    let again = inbox.renew(IN_A_TEST, first.refresh.reveal(), fresh, 60_000, "192.0.2.2".into()).unwrap();
    assert_eq!(again, Err(NotIn::Again));
    assert_eq!(whose(&inbox, &next.access), Ok("phone".into()));
}

#[test]
fn a_refresh_token_that_is_used_twice_revokes_its_device_and_the_audit_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, first) = pair(&inbox, "phone", Preset::Answer.rights());
    let (_, other) = pair(&inbox, "tablet", Preset::Answer.rights());
    let second = renew(&inbox, &first.refresh).unwrap();
    let third = renew(&inbox, &second.refresh).unwrap();
    // However old it is.
    assert_eq!(renew(&inbox, &first.refresh), Err(NotIn::Reused));
    assert_eq!(whose(&inbox, &third.access), Err(NotIn::Nobody));
    assert_eq!(renew(&inbox, &third.refresh), Err(NotIn::Nobody));
    assert_eq!(whose(&inbox, &other.access), Ok("tablet".into()), "nobody else is touched");
    let said = inbox.audit(IN_A_TEST, 0, 100).unwrap().last().unwrap().body.clone();
    assert!(said.contains("device_revoked") && said.contains("used twice"), "{said}");
    drop(inbox);
    assert_eq!(renew(&open(folder.path()), &third.refresh), Err(NotIn::Nobody), "also after a restart");
}

#[test]
fn a_refresh_token_that_was_never_given_puts_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, grant) = pair(&inbox, "phone", Preset::Answer.rights());
    let good = grant.refresh.reveal();
    let other = if good.ends_with('A') { "B" } else { "A" };
    let (family, own) = good.split_once('.').unwrap();
    let middle = own.replacen(own.get(9..10).unwrap(), if own.get(9..10) == Some("_") { "-" } else { "_" }, 1);
    for made_up in [
        format!("{good}x"),
        format!("{}{other}", &good[..good.len() - 1]),
        format!("{family}.{middle}"),
        format!("{family}."),
    ] {
        assert_eq!(inbox.roster().with_refresh(&made_up, 0, clock::wall_ms()), Err(NotIn::Nobody), "{made_up}");
        assert!(inbox.roster().of_family(&made_up).is_none(), "{made_up}");
    }
    assert!(inbox.roster().of_family(good).is_some_and(|(_, is_newest)| is_newest));
}

#[test]
fn a_refresh_whose_answer_was_lost_may_be_repeated_soon_and_until_somebody_uses_what_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (phone, first) = pair(&inbox, "phone", Preset::Answer.rights());
    let lost = renew(&inbox, &first.refresh).unwrap();
    drop(inbox);
    let inbox = open(folder.path());
    let again = renew(&inbox, &first.refresh).unwrap();
    assert_eq!(whose(&inbox, &lost.access), Err(NotIn::Nobody), "only the last answer counts");
    assert_eq!(whose(&inbox, &again.access), Ok("phone".into()));
    let shown = |now: u64| inbox.roster().with_refresh(first.refresh.reveal(), 0, now);
    let (now, minute) = (clock::wall_ms(), 60_000);
    assert_eq!(shown(now), Ok(Refresh::Good(phone.id.clone())));
    assert_eq!(shown(now + minute), Ok(Refresh::Old(phone.id.clone())), "a repetition gives no more time");
    assert_eq!(
        inbox.roster().with_refresh(lost.refresh.reveal(), 0, now),
        Ok(Refresh::Old(phone.id.clone())),
        "whoever got the lost answer is somebody else"
    );
    // Its first request: from now on whoever shows the old one has stolen it.
    inbox.device_seen(IN_A_TEST, &phone.id, "192.0.2.2").unwrap();
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(renew(&inbox, &first.refresh), Err(NotIn::Reused), "also after a restart");
    assert_eq!(whose(&inbox, &again.access), Err(NotIn::Nobody));
}

#[test]
fn tokens_run_out_each_in_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, grant) = pair(&inbox, "phone", Preset::Answer.rights());
    let (roster, access) = (inbox.roster(), grant.access.reveal());
    assert!(roster.with_access(access, grant.access_until - 1).is_ok());
    assert_eq!(roster.with_access(access, grant.access_until).err(), Some(NotIn::Expired));
    assert!(roster.with_refresh(grant.refresh.reveal(), 0, grant.refresh_until - 1).is_ok());
    assert_eq!(roster.with_refresh(grant.refresh.reveal(), 0, grant.refresh_until).err(), Some(NotIn::Expired));
    for wrong in ["", ".", "a.b", grant.refresh.reveal()] {
        assert_eq!(roster.with_access(wrong, 0).err(), Some(NotIn::Nobody), "{wrong}");
    }
    assert_eq!(roster.with_refresh(access, 0, 0).err(), Some(NotIn::Nobody));
}

#[test]
fn rotating_as_fast_as_one_can_fills_no_disk() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, mut grant) = pair(&inbox, "phone", Preset::Answer.rights());
    let mut done = 0;
    let stopped = loop {
        match renew(&inbox, &grant.refresh) {
            Ok(next) => (grant, done) = (next, done + 1),
            Err(why) => break why,
        }
    };
    // The clock goes on meanwhile.
    assert!(stopped == NotIn::TooOften && (32..40).contains(&done), "{stopped} after {done}");
    assert_eq!(whose(&inbox, &grant.access), Ok("phone".into()), "it is not revoked");
}

#[test]
fn with_keeper_and_daemon_lost_every_device_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, grant) = pair(&inbox, "phone", Rights::all());
    drop(inbox);
    lose_keeper(folder.path());
    for _ in 0..2 {
        let inbox = open(folder.path());
        assert_eq!(whose(&inbox, &grant.access), Err(NotIn::Suspended));
        assert_eq!(renew(&inbox, &grant.refresh), Err(NotIn::Suspended));
    }
    let inbox = open(folder.path());
    assert_eq!(inbox.affirm_devices(IN_A_TEST, &["0".repeat(64)], me()).unwrap(), Vec::<String>::new());
    let digest = inbox.roster().iter().next().unwrap().digest();
    assert_eq!(inbox.affirm_devices(IN_A_TEST, &[digest], me()).unwrap(), ["phone"]);
    assert_eq!(whose(&inbox, &grant.access), Ok("phone".into()));
    drop(inbox);
    assert_eq!(whose(&open(folder.path()), &grant.access), Ok("phone".into()));
}

#[test]
fn a_device_that_somebody_wrote_into_the_file_is_let_in_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    pair(&inbox, "phone", Rights::all());
    drop(inbox);
    let (grant, tokens) = Grant::fresh(None, Lifetimes::default(), clock::wall_ms()).unwrap();
    let forged = Record::DevicePaired {
        device: device("forged", Rights::all()),
        tokens: Some(tokens),
        address: "192.0.2.9".into(),
    };
    super::vouch_tests::forge(folder.path(), &[(None, &forged)]);
    let inbox = open(folder.path());
    assert_eq!(whose(&inbox, &grant.access), Err(NotIn::Nobody), "what is behind our last entry is put aside");
    drop(inbox);
    super::vouch_tests::forge(folder.path(), &[(None, &forged)]);
    lose_keeper(folder.path());
    let inbox = open(folder.path());
    assert_eq!(whose(&inbox, &grant.access), Err(NotIn::Suspended), "with nobody to vouch it waits like all others");
}

#[test]
fn devices_are_in_the_sum_and_revoked_ones_do_not_come_back_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (_, kept) = pair(&inbox, "phone", Rights::all());
    let kept = renew(&inbox, &kept.refresh).unwrap();
    let (gone, lost) = pair(&inbox, "tablet", Rights::all());
    inbox.revoke_devices(IN_A_TEST, &[gone.id], "revoked", me()).unwrap();
    inbox.sum_up_now();
    drop(inbox);
    let inbox = open(folder.path());
    assert_eq!(whose(&inbox, &kept.access), Ok("phone".into()));
    assert_eq!(whose(&inbox, &lost.access), Err(NotIn::Nobody));
    assert_eq!(inbox.roster().len(), 1);
}

#[test]
fn two_devices_never_have_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let names: Vec<String> = (0..3).map(|_| pair(&inbox, "phone", Rights::all()).0.name).collect();
    assert_eq!(names, ["phone", "phone-2", "phone-3"]);
}

/// What a device with these rights may say to a request.
async fn decided(rights: &str, privileged: bool, decision: Decision) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (device, _) = pair(&inbox, "phone", rights.parse().unwrap());
    let ticket = inbox.ask(Ask { privileged, ..ask("a") }).await.unwrap();
    let hash = ticket.approval().unwrap().hash;
    inbox.decide(ticket.id(), &hash, decision, by(&device)).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_device_answers_what_its_rights_say_and_nothing_else() {
    for (rights, privileged, decision, may) in [
        ("answer", false, Decision::Once, true),
        ("answer", false, Decision::deny(), true),
        ("answer", true, Decision::deny(), true),
        ("answer", true, Decision::Once, false),
        ("answer", false, Decision::Session, false),
        ("answer", false, Decision::Always, false),
        ("watch", false, Decision::Once, false),
        ("watch", false, Decision::deny(), false),
        ("answer,answer_lastingly", false, Decision::Always, true),
        ("answer,answer_lastingly", true, Decision::Always, false),
        ("answer,answer_privileged", true, Decision::Once, true),
        ("full", true, Decision::Always, true),
    ] {
        let got = decided(rights, privileged, decision.clone()).await;
        assert_eq!(got.is_ok(), may, "{rights} {privileged} {decision:?}: {got:?}");
    }
}

#[tokio::test]
async fn who_only_calls_itself_a_device_decides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let (device, _) = pair(&inbox, "phone", Rights::all());
    let ticket = inbox.ask(ask("a")).await.unwrap();
    let hash = ticket.approval().unwrap().hash;
    let nobody = By::Device { name: "other".into(), signed: None };
    assert!(inbox.decide(ticket.id(), &hash, Decision::Once, nobody).await.is_err());
    inbox.revoke_devices(IN_A_TEST, std::slice::from_ref(&device.id), "revoked", me()).unwrap();
    assert!(inbox.decide(ticket.id(), &hash, Decision::Once, by(&device)).await.is_err(), "nor one that was revoked");
}

#[tokio::test]
async fn a_device_with_a_key_signs_its_answers_and_the_record_holds_the_signature() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = open(folder.path());
    let browser = Browser::new();
    let paired = Device { key: Some(browser.public()), ..device("browser", Rights::all()) };
    let device = inbox.pair(IN_A_TEST, paired, None, "127.0.0.1".into()).unwrap();
    let ticket = inbox.ask(ask("a")).await.unwrap();
    let hash = ticket.approval().unwrap().hash;
    assert!(inbox.decide(ticket.id(), &hash, Decision::Once, by(&device)).await.is_err());
    let text = format!("{} {hash} once", ticket.id());
    let signature = browser.sign(&text);
    let signed = Some(Signed { text, signature: signature.clone() });
    let by = By::Device { name: device.name.clone(), signed };
    inbox.decide(ticket.id(), &hash, Decision::Once, by).await.unwrap();
    let entries = inbox.audit(IN_A_TEST, 0, 100).unwrap();
    assert!(entries.iter().any(|entry| entry.body.contains(&signature)));
}
