//! What a device may do: small rights, each with a name. Nobody grants more than they have, and a person at a terminal of their
//! own has them all.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! rights {
    ($($(#[doc = $doc:literal])* $right:ident = $word:literal,)*) => {
        /// One thing that a device may be allowed to do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Right {
            $($(#[doc = $doc])* #[serde(rename = $word)] $right,)*
        }

        impl Right {
            /// Every right there is.
            pub const ALL: &[Self] = &[$(Self::$right),*];

            /// Its word, on the disk and on the wire: one may be added, none may change.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$right => $word,)*
                }
            }
        }
    };
}

rights! {
    /// See sessions, output and requests.
    View = "view",
    /// Begin sessions and say things to agents, stop a turn.
    Prompt = "prompt",
    /// Answer what an agent asks, this time.
    AnswerOnce = "answer_once",
    /// Answer for a session or for good: make rules.
    AnswerLastingly = "answer_lastingly",
    /// Say yes to what runs as another user.
    AnswerPrivileged = "answer_privileged",
    /// Let an agent do more without asking.
    LoosenAutonomy = "loosen",
    /// Write files and use git.
    WriteFiles = "write",
    /// Type into terminals and start commands.
    TypeIntoTerminals = "type",
    /// Let other devices in, and put them out.
    AdmitDevices = "admit",
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Right>", into = "Vec<Right>")]
pub struct Rights(u16);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);

    /// Those of a person.
    pub fn all() -> Self {
        Right::ALL.iter().copied().collect()
    }

    /// Whether this is one of them.
    pub fn has(self, right: Right) -> bool {
        self.0 & bit(right) != 0
    }

    /// Whether every one of these is among them.
    pub fn cover(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Those that both have.
    #[must_use]
    pub fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// One by one, in their order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.iter().copied().filter(move |right| self.has(*right))
    }
}

fn bit(right: Right) -> u16 {
    1 << (right as u16)
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | bit(right)))
    }
}

impl From<Vec<Right>> for Rights {
    fn from(rights: Vec<Right>) -> Self {
        rights.into_iter().collect()
    }
}

impl From<Rights> for Vec<Right> {
    fn from(rights: Rights) -> Self {
        rights.iter().collect()
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Rights as people choose them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// See, and nothing else.
    Watch,
    /// See, prompt, answer once: what is given unless more is said.
    Answer,
    /// The same, and write files and use git.
    Work,
    /// Everything.
    Full,
}

impl Preset {
    /// Every one there is, the smallest first.
    pub const ALL: [Self; 4] = [Self::Watch, Self::Answer, Self::Work, Self::Full];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Answer => "answer",
            Self::Work => "work",
            Self::Full => "full",
        }
    }

    /// What it stands for.
    pub fn rights(self) -> Rights {
        match self {
            Self::Watch => Rights::from_iter([Right::View]),
            Self::Answer => Rights::from_iter([Right::View, Right::Prompt, Right::AnswerOnce]),
            Self::Work => Rights(Self::Answer.rights().0 | bit(Right::WriteFiles)),
            Self::Full => Rights::all(),
        }
    }
}

/// A word that is neither a right nor a preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRight(pub String);

impl fmt::Display for NoRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no right", self.0)
    }
}

impl std::error::Error for NoRight {}

impl FromStr for Rights {
    type Err = NoRight;

    /// Words of rights and presets, with commas in between.
    fn from_str(words: &str) -> Result<Self, NoRight> {
        let meant = |word: &str| {
            let preset = Preset::ALL.into_iter().find(|preset| preset.word() == word).map(Preset::rights);
            let right = || Right::ALL.iter().find(|right| right.word() == word).map(|right| Self(bit(*right)));
            preset.or_else(right).ok_or_else(|| NoRight(word.to_owned()))
        };
        words.split(',').map(str::trim).try_fold(Self::NONE, |rights, word| Ok(Self(rights.0 | meant(word)?.0)))
    }
}

impl fmt::Display for Rights {
    /// The preset that they are, or each of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Preset::ALL.into_iter().find(|preset| preset.rights() == *self) {
            Some(preset) => f.write_str(preset.word()),
            None => f.write_str(&self.iter().map(Right::word).collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_hold_what_they_say_and_each_covers_the_one_before() {
        let words = |preset: Preset| preset.rights().iter().map(Right::word).collect::<Vec<_>>();
        assert_eq!(words(Preset::Watch), ["view"]);
        assert_eq!(words(Preset::Answer), ["view", "prompt", "answer_once"]);
        assert_eq!(words(Preset::Work), ["view", "prompt", "answer_once", "write"]);
        assert_eq!(Preset::Full.rights().iter().count(), Right::ALL.len());
        for pair in Preset::ALL.windows(2) {
            assert!(pair[1].rights().cover(pair[0].rights()) && !pair[0].rights().cover(pair[1].rights()));
        }
    }

    #[test]
    fn a_word_that_is_no_right_is_named() {
        assert_eq!("view,root".parse::<Rights>(), Err(NoRight("root".into())));
        assert_eq!("".parse::<Rights>(), Err(NoRight(String::new())));
        assert_eq!("work, admit".parse::<Rights>().unwrap().to_string(), "view,prompt,answer_once,write,admit");
        assert_eq!("view,prompt,answer_once".parse::<Rights>().unwrap().to_string(), "answer");
    }

    #[test]
    fn rights_come_back_from_their_words_and_from_the_disk() {
        for rights in (1u16..(1 << Right::ALL.len())).map(Rights) {
            assert_eq!(rights.to_string().parse(), Ok(rights));
            assert_eq!(serde_json::from_str::<Rights>(&serde_json::to_string(&rights).unwrap()).unwrap(), rights);
            assert!(Rights::all().cover(rights) && rights.within(Rights::all()) == rights);
        }
    }
}
