//! What may follow what in a pairing, with a clock of its own.

use ostler_story::By;
use proptest::prelude::*;

use super::offers::{Claim, MakeError, Offers};
use super::*;

const STANDS: u64 = 600_000;

fn me() -> By {
    By::Terminal { uid: 0, pid: Some(1), tty: "test".into() }
}

fn terms(always: bool) -> Terms {
    let (rights, asks) = (Preset::Answer.rights(), if always { Asks::Always } else { Asks::Elsewhere });
    Terms { name: None, rights, stands_ms: STANDS, code: true, keyless: true, asks, lifetimes: Lifetimes::default() }
}

fn phone() -> Introduction {
    Introduction { name: "phone".into(), key: None }
}

fn made(ask: bool) -> (Offers, Offered) {
    let mut offers = Offers::default();
    let offered = offers.make(terms(ask), me(), Rights::all(), 0).unwrap();
    (offers, offered)
}

fn code(offered: &Offered) -> &str {
    offered.code.as_ref().unwrap().reveal()
}

fn is_nobody<T>(result: Result<T, MakeError>) -> bool {
    matches!(result, Err(MakeError::Offer(OfferError::Nobody)))
}

#[test]
fn a_code_works_once_and_then_neither_it_nor_the_link_does() {
    let (mut offers, offered) = made(true);
    let ticket = offers.use_code(code(&offered), 1).unwrap().0;
    assert!(is_nobody(offers.use_code(code(&offered), 2)));
    assert_eq!(offers.claim(offered.link.reveal(), &phone(), "a", false, 3), Err(OfferError::Nobody));
    let claim = offers.claim(ticket.reveal(), &phone(), "a", false, 4);
    assert_eq!(claim, Ok(Claim::Waits { offer: offered.id, left_ms: STANDS - 4 }));
}

#[test]
fn a_link_that_was_opened_makes_the_code_useless_and_is_nobody_elses() {
    let (mut offers, offered) = made(true);
    assert!(offers.claim(offered.link.reveal(), &phone(), "a", false, 1).is_ok());
    assert!(is_nobody(offers.use_code(code(&offered), 2)));
    let other = Introduction { name: "thief".into(), key: None };
    assert_eq!(offers.claim(offered.link.reveal(), &other, "b", false, 3), Err(OfferError::Another));
}

#[test]
fn an_offer_that_expired_is_brought_back_by_nobody_who_comes_late() {
    for ask in [true, false] {
        let (mut offers, offered) = made(ask);
        for later in [STANDS, STANDS + 1] {
            let late = offers.claim(offered.link.reveal(), &phone(), "a", true, later);
            assert_eq!(late, Err(OfferError::Nobody), "asks: {ask}");
        }
    }
}

#[test]
fn who_claims_waits_until_a_person_has_decided_and_is_let_in_once() {
    let (mut offers, offered) = made(true);
    let ask = |offers: &mut Offers, now| offers.claim(offered.link.reveal(), &phone(), "a", true, now);
    assert_eq!(offers.admit(&offered.id, me(), Rights::all(), 1), Err(OfferError::NotClaimed), "nobody is there yet");
    assert!(matches!(ask(&mut offers, 2), Ok(Claim::Waits { .. })));
    assert!(matches!(ask(&mut offers, 3), Ok(Claim::Waits { .. })), "also when it asks again");
    offers.admit(&offered.id, me(), Rights::all(), 4).unwrap();
    assert!(matches!(ask(&mut offers, 5), Ok(Claim::Goes { .. })));
    assert!(offers.take(&offered.id) && !offers.take(&offered.id));
    assert_eq!(offers.views(5)[0].standing, Standing::Admitted, "a person who looks meanwhile sees that it goes on");
    assert_eq!(ask(&mut offers, 5), Err(OfferError::Nobody), "nobody else gets it meanwhile");
    offers.paired(&offered.id, "d1".into(), 6);
    assert_eq!(ask(&mut offers, 7), Err(OfferError::Nobody));
    assert_eq!(offers.views(7)[0].standing, Standing::Paired("d1".into()));
}

#[test]
fn a_link_opened_at_this_machine_needs_no_second_word_and_one_opened_elsewhere_does() {
    let (mut offers, offered) = made(false);
    assert!(matches!(offers.claim(offered.link.reveal(), &phone(), "127.0.0.1", true, 1), Ok(Claim::Goes { .. })));
    let (mut offers, offered) = made(false);
    assert!(matches!(offers.claim(offered.link.reveal(), &phone(), "192.0.2.1", false, 1), Ok(Claim::Waits { .. })));
}

#[test]
fn who_was_refused_stays_so_and_an_offer_taken_back_is_gone() {
    let (mut offers, offered) = made(true);
    offers.claim(offered.link.reveal(), &phone(), "a", false, 1).unwrap();
    assert_eq!(offers.refuse(&offered.id, &me(), 2).unwrap().unwrap().0.name, "phone");
    assert_eq!(offers.claim(offered.link.reveal(), &phone(), "a", false, 3), Err(OfferError::Refused));
    assert_eq!(offers.admit(&offered.id, me(), Rights::all(), 4), Err(OfferError::NotClaimed));
    let (mut offers, offered) = made(true);
    assert_eq!(offers.refuse(&offered.id, &me(), 1), Ok(None));
    assert!(is_nobody(offers.use_code(code(&offered), 2)));
}

#[test]
fn nobody_grants_more_than_they_have() {
    let mut offers = Offers::default();
    let own: Rights = "watch,admit".parse().unwrap();
    let refused = offers.make(terms(true), me(), own, 0);
    assert!(matches!(refused, Err(MakeError::Offer(OfferError::MoreThanOwn))));
    let offered = offers.make(terms(true), me(), Rights::all(), 0).unwrap();
    offers.claim(offered.link.reveal(), &phone(), "a", false, 1).unwrap();
    assert_eq!(offers.admit(&offered.id, me(), own, 2), Err(OfferError::MoreThanOwn));
    assert_eq!(offers.admit(&offered.id, me(), Preset::Answer.rights(), 3), Ok(()));
}

#[test]
fn there_are_few_offers_at_once_and_time_makes_room() {
    let mut offers = Offers::default();
    let made = (0..100).filter(|_| offers.make(terms(true), me(), Rights::all(), 0).is_ok()).count();
    assert_eq!(made, 8);
    assert!(offers.make(terms(true), me(), Rights::all(), STANDS).is_ok());
}

fn protocol(name: &str) -> By {
    By::Client { door: name.into(), uid: 0 }
}

#[test]
fn what_a_protocol_offers_makes_room_for_newer_and_takes_none_from_a_person() {
    let mut offers = Offers::default();
    let mut make = |by: By| offers.make(terms(true), by, Rights::all(), 0).unwrap();
    let old = make(protocol("cdev"));
    let newer: Vec<Offered> = (0..4).map(|_| make(protocol("cdev"))).collect();
    make(me());
    assert!(is_nobody(offers.use_code(code(&old), 1)), "four codes, not five");
    assert!(newer.iter().all(|offered| offers.use_code(code(offered), 1).is_ok()));
    // Those that somebody came for stay.
    let mut offers = Offers::default();
    for _ in 0..4 {
        let offered = offers.make(terms(true), protocol("cdev"), Rights::all(), 0).unwrap();
        offers.claim(offered.link.reveal(), &phone(), "a", false, 1).unwrap();
    }
    let links = Terms { code: false, ..terms(true) };
    let made = (0..100).filter(|_| offers.make(links.clone(), protocol("cdev"), Rights::all(), 2).is_ok()).count();
    assert_eq!((made, offers.views(3).len()), (100, 64));
}

#[test]
fn a_client_of_a_protocol_decides_about_what_that_offered_and_nothing_else() {
    let mut offers = Offers::default();
    let [own, others] = [protocol("cdev"), me()].map(|by| {
        let offered = offers.make(terms(true), by, Rights::all(), 0).unwrap();
        offers.claim(offered.link.reveal(), &phone(), "a", false, 1).unwrap();
        offered.id
    });
    for by in [protocol("cdev"), protocol("other")] {
        assert_eq!(offers.admit(&others, by.clone(), Rights::all(), 2), Err(OfferError::Nobody));
        assert_eq!(offers.refuse(&others, &by, 2), Err(OfferError::Nobody));
    }
    assert_eq!(offers.admit(&own, protocol("other"), Rights::all(), 2), Err(OfferError::Nobody));
    assert_eq!(offers.admit(&own, protocol("cdev"), Rights::all(), 2), Ok(()));
    assert_eq!(offers.admit(&others, me(), Rights::all(), 2), Ok(()));
}

proptest! {
    /// Whatever is tried in whatever order, nobody is let in whom no person admitted, and nobody twice.
    #[test]
    fn only_whom_a_person_admitted_is_let_in_and_once(steps in prop::collection::vec((0u8..6, 0u64..400_000), 1..40)) {
        let (mut offers, offered) = made(true);
        let (mut now, mut ticket, mut admitted, mut went) = (0, offered.link.reveal().to_owned(), false, 0);
        for (step, later) in steps {
            now += later;
            match step {
                0 => if let Ok((new, _)) = offers.use_code(code(&offered), now) {
                    prop_assert!(now < STANDS);
                    ticket = new.reveal().to_owned();
                },
                1 | 2 => if let Ok(Claim::Goes { offer, .. }) = offers.claim(&ticket, &phone(), "a", true, now) {
                    prop_assert!(admitted && now < STANDS);
                    if offers.take(&offer) {
                        went += 1;
                        offers.paired(&offer, "d1".into(), now);
                    }
                },
                3 => admitted |= offers.admit(&offered.id, me(), Rights::all(), now).is_ok(),
                4 => drop(offers.claim("guess", &phone(), "b", true, now).unwrap_err()),
                _ => drop(offers.use_code("none", now).unwrap_err()),
            }
        }
        prop_assert!(went <= 1);
    }
}
