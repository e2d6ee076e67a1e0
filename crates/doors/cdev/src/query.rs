//! Parameters in an address: `?path=src/app.js&limit=20`. Read into the very types that JSON is read into: a number is digits,
//! a list has commas in between or comes as several, and what is given twice and is no list is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// More than any method takes.
const PAIRS_MAX: usize = 64;

type Unread = serde::de::value::Error;

/// Reads parameters.
pub(crate) fn read<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let mut pairs: BTreeMap<String, Values> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()).take(PAIRS_MAX) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.entry(decode(name)?).or_insert_with(|| Values(Vec::new())).0.push(decode(value)?);
    }
    T::deserialize(MapDeserializer::<_, Unread>::new(pairs.into_iter())).map_err(|why| why.to_string())
}

/// `%2F` and `+`, as forms write them.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let both = digit(rest.next()).zip(digit(rest.next()));
                let value = both.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                value.ok_or_else(|| format!("`{}` is not encoded as an address is", Excerpt(text)))?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| format!("`{}` is no text", Excerpt(text)))
}

/// The beginning of a text that a stranger wrote.
struct Excerpt<'a>(&'a str);

impl std::fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().take(40).try_for_each(|sign| write!(f, "{}", sign.escape_default()))
    }
}

/// What one name was given.
struct Values(Vec<String>);

impl Values {
    fn one(&self) -> Result<&str, Unread> {
        match self.0.as_slice() {
            [one] => Ok(one),
            _ => Err(serde::de::Error::custom("given twice")),
        }
    }
}

impl<'de> IntoDeserializer<'de, Unread> for Values {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($read:ident => $visit:ident: $type:ty),*) => {
        $(fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
            let text = self.one()?;
            let number: $type = text.parse().map_err(|_| {
                serde::de::Error::custom(format!("`{}` is not the number that is expected", Excerpt(text)))
            })?;
            visitor.$visit(number)
        })*
    };
}

impl<'de> Deserializer<'de> for Values {
    type Error = Unread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_string(self.one()?.to_owned())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        match self.one()? {
            "true" | "1" | "" => visitor.visit_bool(true),
            "false" | "0" => visitor.visit_bool(false),
            other => Err(serde::de::Error::custom(format!("`{}` is neither true nor false", Excerpt(other)))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        let words = self.0.iter().flat_map(|text| text.split(',')).filter(|word| !word.is_empty());
        visitor.visit_seq(SeqDeserializer::<_, Unread>::new(words.map(|word| Cow::Owned::<str>(word.to_owned()))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        visitor.visit_enum(self.one()?.to_owned().into_deserializer())
    }

    numbers!(
        deserialize_u8 => visit_u8: u8, deserialize_u16 => visit_u16: u16, deserialize_u32 => visit_u32: u32,
        deserialize_u64 => visit_u64: u64, deserialize_i8 => visit_i8: i8, deserialize_i16 => visit_i16: i16,
        deserialize_i32 => visit_i32: i32, deserialize_i64 => visit_i64: i64, deserialize_f32 => visit_f32: f32,
        deserialize_f64 => visit_f64: f64
    );

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Wanted {
        path: String,
        limit: Option<u32>,
        deep: bool,
        extensions: Vec<String>,
        order: Option<Order>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Asc,
        Desc,
    }

    #[test]
    fn an_address_is_read_into_the_types_of_the_method() {
        let all = "path=sp+ace%2F%C3%BC.txt&limit=20&deep&extensions=js,ts&extensions=py&order=desc&future=1";
        let wanted = Wanted {
            path: "sp ace/ü.txt".into(),
            limit: Some(20),
            deep: true,
            extensions: vec!["js".into(), "ts".into(), "py".into()],
            order: Some(Order::Desc),
        };
        assert_eq!(read::<Wanted>(all).unwrap(), wanted);
        assert_eq!(read::<Wanted>("").unwrap(), Wanted::default());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        for bad in
            ["limit=-1", "limit=x", "path=a&path=b", "deep=perhaps", "path=%zz", "path=%ff", "path=%2", "order=up"]
        {
            assert!(read::<Wanted>(bad).is_err(), "{bad}");
        }
    }
}
