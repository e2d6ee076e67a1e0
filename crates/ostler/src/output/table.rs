//! Aligned columns. Cells are made safe to show. The last column is the one that matters: it gets what the others leave, goes
//! on below where that is too little, and below the whole row where it is next to nothing.

use std::io::{self, IsTerminal};

use unicode_width::UnicodeWidthStr;

use super::{Paint, Screen, visible};

/// Two spaces keep columns apart without rules.
const GAP: usize = 2;
/// With less room than this beside the others, the last column has lines of its own.
const ROOM_MIN: usize = 24;
/// What stands before such a line.
const INDENT: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Paint)>>,
    /// Lines of the last column.
    most: usize,
    /// The second column says of each row which instance it is from.
    several: bool,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), most: usize::MAX, several: false }
    }

    /// The same for rows of instances, which are named where there are several.
    pub(crate) fn of_instances(columns: &[(&'static str, Align)], several: bool) -> Self {
        let mut table = Self { several, ..Self::new(columns) };
        if several {
            table.columns.insert(1, ("INSTANCE", Align::Left));
        }
        table
    }

    /// Cuts the last column after so many lines, where its beginning is enough to know it by.
    pub(crate) fn at_most(mut self, lines: usize) -> Self {
        self.most = lines;
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<(String, Paint)>) {
        self.rows.push(cells.into_iter().map(|(text, paint)| (visible(&text), paint)).collect());
    }

    /// A row of such a table.
    pub(crate) fn row_of(&mut self, instance: &str, mut cells: Vec<(String, Paint)>) {
        if self.several {
            cells.insert(1, (instance.to_owned(), Paint::Plain));
        }
        self.row(cells);
    }

    pub(crate) fn print(&self, screen: &Screen) -> io::Result<()> {
        for line in self.lines(screen, terminal_width().unwrap_or(usize::MAX)) {
            screen.line(&line)?;
        }
        Ok(())
    }

    pub(crate) fn lines(&self, screen: &Screen, width: usize) -> Vec<String> {
        let head: Vec<(String, Paint)> =
            self.columns.iter().map(|(name, _)| ((*name).to_owned(), Paint::Head)).collect();
        let titled = self.columns.iter().any(|(name, _)| !name.is_empty());
        let all = || titled.then_some(&head).into_iter().chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| all().filter_map(|row| row.get(index)).map(|(text, _)| length(text)).max().unwrap_or(0))
            .collect();
        let last = self.columns.len().saturating_sub(1);
        let before: usize = widths.iter().take(last).map(|column| column + GAP).sum();
        let room = width.saturating_sub(before);
        let own_lines = before > width || room < ROOM_MIN && room < widths.get(last).copied().unwrap_or(0);
        all()
            .flat_map(|row| self.format(screen, row, &widths, if own_lines { width } else { room }, own_lines))
            .collect()
    }

    /// The lines of a row. `room` is what the last column has, or the whole width if that has lines of its own.
    fn format(
        &self,
        screen: &Screen,
        row: &[(String, Paint)],
        widths: &[usize],
        room: usize,
        own_lines: bool,
    ) -> Vec<String> {
        let last = self.columns.len().saturating_sub(1);
        let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
        for (index, ((text, paint), column)) in row.iter().zip(widths).take(last).enumerate() {
            // A column that does not fit begins a line, so that no terminal breaks it in the middle.
            if own_lines && used > 0 && used + column > room {
                lines.push(std::mem::replace(&mut line, " ".repeat(INDENT)).trim_end().to_owned());
                used = INDENT;
            }
            let pad = " ".repeat(column.saturating_sub(length(text)));
            let painted = screen.paint(*paint, text);
            match self.columns.get(index).map(|(_, align)| *align) {
                Some(Align::Right) => line.extend([pad.as_str(), &painted]),
                _ => line.extend([painted.as_str(), &pad]),
            }
            line.push_str(&" ".repeat(GAP));
            used += column + GAP;
        }
        let Some((text, paint)) = row.get(last) else { return vec![line.trim_end().to_owned()] };
        let indent = if own_lines { INDENT } else { used };
        let pieces = wrap(text, if own_lines { room.saturating_sub(INDENT) } else { room }, self.most);
        let painted = pieces.iter().map(|piece| {
            let align = self.columns.get(last).map(|(_, align)| *align);
            let pad = widths.get(last).map_or(0, |column| column.saturating_sub(length(piece)));
            let pad = if matches!(align, Some(Align::Right)) { " ".repeat(pad) } else { String::new() };
            format!("{pad}{}", screen.paint(*paint, piece))
        });
        if own_lines {
            lines.push(line.trim_end().to_owned());
            lines.retain(|line| !line.is_empty());
            lines.extend(painted.filter(|piece| !piece.is_empty()).map(|piece| format!("{:indent$}{piece}", "")));
            return lines;
        }
        for piece in painted {
            let start = if lines.is_empty() { std::mem::take(&mut line) } else { " ".repeat(indent) };
            lines.push(format!("{start}{piece}"));
        }
        lines
    }
}

/// Columns of the terminal that standard output is; narrower than 40 nothing is readable anyway.
pub(crate) fn terminal_width() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col).max(40))
}

/// Columns, not letters: some take two.
pub(crate) fn length(text: &str) -> usize {
    text.width()
}

/// A text in lines of so many columns, broken between words where there are some; the last line of `most` says if more follows.
fn wrap(text: &str, room: usize, most: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        if !line.is_empty() && length(&line) + length(word.trim_end()) > room {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if length(&line) + length(c.encode_utf8(&mut [0; 4])) > room.max(2) && c != ' ' {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    let more = lines.len() > most;
    lines.truncate(most);
    let mut lines: Vec<String> = lines.iter().map(|line| line.trim_end().to_owned()).collect();
    if let Some(last) = lines.last_mut().filter(|_| more) {
        while length(last) >= room && last.pop().is_some() {}
        last.push('…');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> Table {
        let mut table = Table::new(&[("A", Align::Left), ("NUM", Align::Right), ("WHAT", Align::Left)]);
        for row in rows {
            table.row(row.iter().map(|cell| ((*cell).to_owned(), Paint::Plain)).collect());
        }
        table
    }

    #[test]
    fn columns_line_up_and_the_last_goes_on_below() {
        let table = table(&[["long", "7", "systemctl restart nginx and more"], ["s", "1234", "\x1b[2Jz"]]);
        let lines = table.lines(&Screen::plain(), 36);
        let wanted =
            ["A      NUM  WHAT", "long     7  systemctl restart nginx", "            and more", "s     1234  ^[[2Jz"];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn where_the_others_leave_no_room_the_last_has_lines_of_its_own() {
        let table = table(&[["a".repeat(20).as_str(), "7", "apt-get install 'lib*-dev'"], ["s", "1", ""]]);
        let wanted = [
            "A                     NUM",
            "    WHAT",
            "aaaaaaaaaaaaaaaaaaaa    7",
            "    apt-get install 'lib*-dev'",
            "s                       1",
        ];
        assert_eq!(table.lines(&Screen::plain(), 40), wanted);
    }

    #[test]
    fn a_column_that_does_not_fit_is_not_broken_but_goes_below() {
        let long = "a".repeat(38);
        let wanted = ["A", "    NUM", "    WHAT", long.as_str(), "      7", "    apt", "s", "      1"];
        assert_eq!(table(&[[&long, "7", "apt"], ["s", "1", ""]]).lines(&Screen::plain(), 40), wanted);
    }

    #[test]
    fn where_the_beginning_is_enough_the_rest_is_cut() {
        let table = table(&[["a", "7", &"x".repeat(90)]]).at_most(2);
        let lines = table.lines(&Screen::plain(), 40);
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with("x…") && lines.iter().all(|line| length(line) <= 40), "{lines:?}");
    }

    #[test]
    fn letters_that_take_two_columns_line_up_too() {
        let screen = Screen::plain();
        let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
        for name in ["漢字", "ü 🐴", "plain"] {
            table.row(vec![(name.into(), Paint::Plain), ("漢字漢字".into(), Paint::Plain)]);
        }
        assert_eq!(table.lines(&screen, 40), ["漢字   漢字漢字", "ü 🐴   漢字漢字", "plain  漢字漢字"]);
        assert_eq!(wrap("漢字漢字", 5, 9), ["漢字", "漢字"]);
    }
}
