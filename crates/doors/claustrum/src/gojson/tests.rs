use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// The last value under `name`; `None` when it is absent or `null`.
fn get<'a>(object: &Object<'a>, name: &str) -> Option<Raw<'a>> {
    object.all(name).next_back().filter(|value| !value.is_null())
}

fn present(object: &Object<'_>, name: &str) -> bool {
    object.all(name).next().is_some()
}

fn object(text: &str) -> Object<'_> {
    parse_object(text.as_bytes()).expect("well formed").expect("not null")
}

fn refused(text: &[u8]) -> bool {
    parse_object(text).is_err()
}

fn written(text: &str) -> String {
    let mut out = Vec::new();
    push_string(&mut out, text);
    String::from_utf8(out).expect("UTF-8")
}

fn lossy(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    push_bytes_lossy(&mut out, bytes);
    String::from_utf8(out).expect("UTF-8")
}

fn compact(raw: &str) -> String {
    let mut out = Vec::new();
    push_compact_id(&mut out, raw.as_bytes());
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn members_are_split_with_their_raw_text() {
    let members = object(" { \"a\" : [ 1, 2 ] , \"b\":{\"c\":\"}\"},\"d\":-0.5e+3 } ");
    assert_eq!(get(&members, "a").expect("a").text(), b"[ 1, 2 ]");
    assert_eq!(get(&members, "b").expect("b").text(), b"{\"c\":\"}\"}");
    assert_eq!(get(&members, "d").expect("d").text(), b"-0.5e+3");
    assert!(get(&members, "e").is_none());
}

#[test]
fn only_an_object_or_null_is_taken() {
    assert!(parse_object(b" null ").expect("null").is_none());
    for text in ["", " ", "[]", "\"x\"", "5", "true", "nul", "nullx", "NaN", "{}{}"] {
        assert!(refused(text.as_bytes()), "{text}");
    }
}

#[test]
fn text_outside_the_grammar_is_refused() {
    for text in [
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":+1}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":NaN}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{\"a\":[}",
        "{\"a\":{]}",
        "{\"a\":tru}",
        "{\"a\":truex}",
        "{\"a\":1} x",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"tab\there\"}",
        "{\"a\":\"open}",
        "{\"a\":\"\\\"}",
        "\u{feff}{}",
        "{\u{a0}}",
    ] {
        assert!(refused(text.as_bytes()), "{text}");
    }
}

#[test]
fn nesting_ends_at_ten_thousand_brackets() {
    let nested = |depth: usize| {
        let inner = depth - 1;
        format!("{{\"a\":{}{}}}", "[".repeat(inner), "]".repeat(inner))
    };
    assert!(!refused(nested(10_000).as_bytes()));
    assert!(refused(nested(10_001).as_bytes()));
    assert!(refused("{\"a\":".repeat(200_000).as_bytes()));
    assert!(refused("[".repeat(1_000_000).as_bytes()));
}

#[test]
fn a_string_ends_where_it_ends_at_every_length() {
    for length in 0..300 {
        let body = "x".repeat(length);
        for (end, fine) in
            [("\"}", true), ("\\n\"}", true), ("\u{1f}\"}", false), ("\\x\"}", false), ("", false), ("\u{80}\"}", true)]
        {
            let text = format!("{{\"k\":\"{body}{end}");
            assert_eq!(!refused(text.as_bytes()), fine, "{text:?}");
        }
    }
}

#[test]
fn keys_match_without_regard_to_case() {
    let members = object(r#"{"MAXBYTES":1,"pa\u0074h":"x","\u212a\u017f":true,"Kſ2":false}"#);
    assert_eq!(members.int("maxBytes"), Ok(Some(1)));
    assert_eq!(members.string("path").expect("typed").as_deref(), Some("x"));
    assert_eq!(members.bool("ks"), Ok(Some(true)));
    assert_eq!(members.bool("KS2"), Ok(Some(false)));
    assert!(!present(&members, "maxByte"));
    assert!(!present(&object("{\"é\":1}"), "É"), "only folding into ASCII is needed");
}

#[test]
fn the_last_of_a_repeated_key_counts_but_each_must_be_well_typed() {
    let members = object(r#"{"a":1,"A":2,"b":"x","b":5,"c":7,"c":null}"#);
    assert_eq!(members.int("a"), Ok(Some(2)));
    assert_eq!(members.int("b"), Err(Mistyped));
    assert_eq!(members.string("b"), Err(Mistyped));
    assert_eq!(members.int("c"), Ok(Some(7)));
    assert!(get(&members, "c").is_none());
}

#[test]
fn null_is_absent_but_present() {
    let members = object(r#"{"a":null}"#);
    assert!(get(&members, "a").is_none());
    assert!(present(&members, "a"));
    assert_eq!(members.string("a"), Ok(None));
    assert_eq!(members.bool("a"), Ok(None));
    assert_eq!(members.int("a"), Ok(None));
    assert_eq!(members.strings("a"), Ok(None));
    assert_eq!(members.string_map("a"), Ok(None));
}

#[test]
fn integers_must_be_written_as_integers() {
    let members = object(
        r#"{"zero":-0,"max":9223372036854775807,"min":-9223372036854775808,
        "over":9223372036854775808,"huge":99999999999999999999,"dot":5.0,"exp":1e2,"text":"5"}"#,
    );
    assert_eq!(members.int("zero"), Ok(Some(0)));
    assert_eq!(members.int("max"), Ok(Some(i64::MAX)));
    assert_eq!(members.int("min"), Ok(Some(i64::MIN)));
    for name in ["over", "huge", "dot", "exp", "text"] {
        assert_eq!(members.int(name), Err(Mistyped), "{name}");
    }
}

#[test]
fn values_of_other_types_are_mistyped() {
    let members = object(r#"{"s":"x","n":1,"b":true,"l":["a",1],"m":{"a":1},"ls":["a"]}"#);
    assert_eq!(members.string("n"), Err(Mistyped));
    assert_eq!(members.string("ls"), Err(Mistyped));
    assert_eq!(members.bool("s"), Err(Mistyped));
    assert_eq!(members.bool("n"), Err(Mistyped));
    assert_eq!(members.int("b"), Err(Mistyped));
    assert_eq!(members.strings("s"), Err(Mistyped));
    assert_eq!(members.strings("l"), Err(Mistyped));
    assert_eq!(members.strings("m"), Err(Mistyped));
    assert_eq!(members.string_map("m"), Err(Mistyped));
    assert_eq!(members.string_map("ls"), Err(Mistyped));
}

#[test]
fn null_inside_a_list_or_map_is_the_empty_string() {
    let members = object(r#"{"l":["a",null,"\u0062"],"e":[],"m":{"A":"1","B":null},"M":{"A":"2"}}"#);
    assert_eq!(members.strings("l"), Ok(Some(vec!["a".into(), String::new(), "b".into()])));
    assert_eq!(members.strings("e"), Ok(Some(Vec::new())));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(members.string_map("m"), Ok(Some(vec![pair("A", "1"), pair("B", ""), pair("A", "2")])));
}

#[test]
fn a_string_without_escapes_is_not_copied() {
    let members = object(r#"{"a":"plain é","b":"with \n"}"#);
    assert!(matches!(members.string("a"), Ok(Some(Cow::Borrowed("plain é")))));
    assert!(matches!(members.string_bytes("a"), Ok(Some(Cow::Borrowed(_)))));
    assert_eq!(members.string("b").expect("typed").as_deref(), Some("with \n"));
    assert_eq!(members.string_bytes("b").expect("typed").as_deref(), Some(&b"with \n"[..]));
}

#[test]
fn escapes_are_resolved() {
    let members = object(r#"{"a":"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00z"}"#);
    assert_eq!(members.string("a").expect("typed").as_deref(), Some("\"\\/\u{8}\u{c}\n\r\tA😀z"));
}

#[test]
fn half_a_surrogate_pair_becomes_the_replacement_character() {
    for (text, want) in [
        (r#"{"a":"\ud800"}"#, "\u{fffd}"),
        (r#"{"a":"\ud800x"}"#, "\u{fffd}x"),
        (r#"{"a":"\ud800\u0041"}"#, "\u{fffd}A"),
        (r#"{"a":"\udc00\ud800"}"#, "\u{fffd}\u{fffd}"),
        (r#"{"a":"\ud800\ud83d\ude00"}"#, "\u{fffd}😀"),
        (r#"{"a":"\ud800\n"}"#, "\u{fffd}\n"),
    ] {
        assert_eq!(object(text).string("a").expect("typed").as_deref(), Some(want), "{text}");
    }
}

#[test]
fn every_byte_that_is_not_utf8_becomes_one_replacement_character() {
    let members =
        parse_object(b"{\"a\":\"x\xff\xe2\x82y\",\"b\":\"\\n\xf0\x9f\x98\"}").expect("accepted").expect("object");
    assert_eq!(members.string("a").expect("typed").as_deref(), Some("x\u{fffd}\u{fffd}\u{fffd}y"));
    assert_eq!(members.string("b").expect("typed").as_deref(), Some("\n\u{fffd}\u{fffd}\u{fffd}"));
}

#[test]
fn strings_are_written_with_go_escaping() {
    assert_eq!(
        written("<a>&\u{2028}\u{2029}\u{2027}é/\u{7f}\"\\\u{8}\u{c}\n\r\t\u{0}\u{1f}"),
        "\"\\u003ca\\u003e\\u0026\\u2028\\u2029\u{2027}é/\u{7f}\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\""
    );
}

#[test]
fn file_content_that_is_not_utf8_is_written_as_escapes() {
    assert_eq!(lossy(b"a\xff\xfeb\0c"), "\"a\\ufffd\\ufffdb\\u0000c\"");
    assert_eq!(lossy(b"\xe2\x80"), "\"\\ufffd\\ufffd\"");
    assert_eq!(lossy("\u{fffd}\u{2028}<".as_bytes()), "\"\u{fffd}\\u2028\\u003c\"");
}

#[test]
fn an_id_is_echoed_compact_and_otherwise_as_written() {
    for (raw, want) in [
        ("1.50", "1.50"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("{ \"a\" : [ 1,\t2 ] }", "{\"a\":[1,2]}"),
        (r#""<a> & \u0041\/ \" b""#, r#""\u003ca\u003e \u0026 \u0041\/ \" b""#),
        (r#""a\\" "#, r#""a\\""#),
        ("\"\u{2028}é€\"", "\"\\u2028é€\""),
    ] {
        assert_eq!(compact(raw), want);
    }
}

#[test]
fn integers_are_written_in_full() {
    let mut out = Vec::new();
    push_int(&mut out, i64::MIN);
    assert_eq!(out, b"-9223372036854775808");
}

fn documents() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_valid_document_is_accepted_and_its_members_found(
        map in prop::collection::btree_map("[a-z]{1,6}", documents(), 0..8),
        pretty in any::<bool>(),
    ) {
        let text = if pretty {
            serde_json::to_vec_pretty(&map)
        } else {
            serde_json::to_vec(&map)
        }
        .expect("printed");
        let members = parse_object(&text).expect("accepted").expect("object");
        for (key, value) in &map {
            let raw = members.all(key).next_back().expect("present");
            let printed = serde_json::to_vec(value).expect("printed");
            let [back, want]: [serde_json::Value; 2] =
                [raw.text(), &printed].map(|text| serde_json::from_slice(text).expect("parses"));
            prop_assert_eq!(back, want);
            if let Some(text) = value.as_str() {
                prop_assert_eq!(&raw.string().expect("a string"), text);
            }
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same(text in any::<String>()) {
        let out = written(&text);
        let back: String = serde_json::from_str(&out).expect("valid JSON");
        prop_assert_eq!(&back, &text);
        let raw = ['<', '>', '&', '\u{2028}', '\u{2029}', '\n'];
        prop_assert!(!out.contains(raw));
        prop_assert_eq!(lossy(text.as_bytes()), out);
    }

    #[test]
    fn near_misses_are_judged_as_a_strict_parser_judges_them(
        soup in r#"\{("a"|"\\n"|[-0-9.eE+:,\[\]{} tfn"\\a]|true|null|:|,|[0-9]+|\[|\])*\}"#,
    ) {
        let strict = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(&soup).is_ok();
        prop_assert_eq!(!refused(soup.as_bytes()), strict, "{}", soup);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_object(&bytes);
        lossy(&bytes);
        let mut out = Vec::new();
        push_compact_id(&mut out, &bytes);
    }
}
