//! Aligned columns. Cells are made safe to show, and the last column is cut to the terminal's width.

use std::io::{self, IsTerminal};

use unicode_width::UnicodeWidthStr;

use super::{Paint, Screen, visible};

/// Two spaces keep columns apart without rules.
const GAP: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Paint)>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<(String, Paint)>) {
        self.rows.push(cells.into_iter().map(|(text, paint)| (visible(&text), paint)).collect());
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
        all().map(|row| self.format(screen, row, &widths, width)).collect()
    }

    fn format(&self, screen: &Screen, row: &[(String, Paint)], widths: &[usize], width: usize) -> String {
        let mut line = String::new();
        let mut used = 0;
        for (index, ((text, paint), column)) in row.iter().zip(widths).enumerate() {
            let last = index + 1 == row.len();
            let text = if last { cut(text, width.saturating_sub(used)) } else { text.clone() };
            let pad = " ".repeat(column.saturating_sub(length(&text)));
            let painted = screen.paint(*paint, &text);
            match self.columns.get(index).map(|(_, align)| *align) {
                Some(Align::Right) => line.extend([pad.as_str(), &painted]),
                _ if last => line.push_str(&painted),
                _ => line.extend([painted.as_str(), &pad]),
            }
            if !last {
                line.push_str(&" ".repeat(GAP));
            }
            used += column + GAP;
        }
        line
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

fn cut(text: &str, room: usize) -> String {
    if length(text) <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room).collect();
    while length(&short) >= room && short.pop().is_some() {}
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_cut_to_the_width() {
        let screen = Screen::plain();
        let mut table = Table::new(&[("A", Align::Left), ("NUM", Align::Right), ("REST", Align::Left)]);
        table.row(vec![("long".into(), Paint::Plain), ("7".into(), Paint::Plain), ("x".repeat(50), Paint::Plain)]);
        table.row(vec![("s".into(), Paint::Plain), ("1234".into(), Paint::Plain), ("\x1b[2Jz".into(), Paint::Plain)]);
        let lines = table.lines(&screen, 20);
        assert_eq!(lines, ["A      NUM  REST", "long     7  xxxxxxx…", "s     1234  ^[[2Jz"]);
    }

    #[test]
    fn letters_that_take_two_columns_line_up_too() {
        let screen = Screen::plain();
        let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
        for name in ["漢字", "ü 🐴", "plain"] {
            table.row(vec![(name.into(), Paint::Plain), ("漢字漢字".into(), Paint::Plain)]);
        }
        assert_eq!(table.lines(&screen, 13), ["漢字   漢字…", "ü 🐴   漢字…", "plain  漢字…"]);
    }
}
