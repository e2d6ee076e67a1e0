//! File type and permissions as Go prints them: `drwxr-xr-x`, `-rw-------`, `Dcrw-rw-rw-`.

const KIND: u32 = 0o170000;
const KINDS: [(u32, &str); 6] =
    [(0o040000, "d"), (0o120000, "L"), (0o060000, "D"), (0o020000, "Dc"), (0o010000, "p"), (0o140000, "S")];
const SPECIAL: [(u32, char); 3] = [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')];
const PERMISSIONS: &str = "rwxrwxrwx";

/// The text for an `st_mode`. Letters for kind and special bits come first and have a fixed order, in
/// which `c` stands between `g` and `t`.
pub(super) fn text(mode: u32) -> String {
    let kind = KINDS.iter().find(|(bits, _)| mode & KIND == *bits).map_or("", |(_, letters)| letters);
    let (first, second) = kind.split_at(kind.len().min(1));
    let mut text = String::from(first);
    let mut pending = second;
    for (bit, letter) in SPECIAL {
        if letter == 't' {
            text.push_str(std::mem::take(&mut pending));
        }
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in PERMISSIONS.chars().enumerate() {
        text.push(if mode & (0o400 >> index) != 0 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn modes_read_as_clients_know_them() {
        for (mode, want) in [
            (0o100644, "-rw-r--r--"),
            (0o100000, "----------"),
            (0o040700, "drwx------"),
            (0o104755, "urwxr-xr-x"),
            (0o102755, "grwxr-xr-x"),
            (0o101644, "trw-r--r--"),
            (0o107777, "ugtrwxrwxrwx"),
            (0o041777, "dtrwxrwxrwx"),
            (0o010600, "prw-------"),
            (0o140755, "Srwxr-xr-x"),
            (0o020666, "Dcrw-rw-rw-"),
            (0o027666, "Dugctrw-rw-rw-"),
            (0o060660, "Drw-rw----"),
            (0o120777, "Lrwxrwxrwx"),
        ] {
            assert_eq!(text(mode), want, "{mode:o}");
        }
    }
}
