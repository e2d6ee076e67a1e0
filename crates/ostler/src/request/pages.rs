//! A request in pages that fit a screen, the question on the last line of the last one.

use super::row::{Row, wrap};
use crate::output::Paint;

/// Narrower than this, a line would be all marks and no text.
pub(crate) const NARROWEST: usize = 20;
/// Lower than this, a question would not leave room for what it is about.
const LOWEST: usize = 4;

/// The pages of one request on a screen of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pages {
    rows: Vec<Row>,
    question: Vec<Row>,
    /// How many rows a page holds beside its last line.
    height: usize,
    /// Columns and rows of the screen.
    size: (usize, usize),
}

impl Pages {
    /// The rows and the question that stands below them. `None` on a screen that is too small for any.
    pub(crate) fn of(rows: &[Row], question: &str, size: (usize, usize)) -> Option<Self> {
        let (width, height) = size;
        if width < NARROWEST || height < LOWEST {
            return None;
        }
        // One column is left free: terminals differ in what they do after the last one.
        let question = wrap(&[Row::ours(Paint::Plain, question)], width - 1);
        let room = height.saturating_sub(question.len()).max(1);
        Some(Self { rows: wrap(rows, width - 1), question, height: room, size })
    }

    /// How many pages there are; at least one.
    pub(crate) fn count(&self) -> usize {
        self.rows.len().div_ceil(self.height).max(1)
    }

    /// All rows but the question.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The size of the screen that they are for.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Where a page begins, and how many rows of the request are on it.
    pub(super) fn place(&self, page: usize) -> (usize, usize) {
        let top = (page * self.height).min(self.rows.len());
        (top, (self.rows.len() - top).min(self.height))
    }

    /// One page without what stands on its last line.
    pub(crate) fn body(&self, page: usize) -> &[Row] {
        let (top, height) = self.place(page);
        self.rows.get(top..top + height).unwrap_or_default()
    }

    /// The last line of a page: the question, or that there is more to read.
    pub(crate) fn foot(&self, page: usize) -> Vec<Row> {
        if page + 1 >= self.count() {
            return self.question.clone();
        }
        let (top, height) = self.place(page);
        let long = format!("-- {}-{} of {} lines, more: space --", top + 1, top + height, self.rows.len());
        let text = if long.len() < self.size.0 { long } else { "-- more: space --".to_owned() };
        vec![Row::ours(Paint::Plain, text)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        (0..count).map(|number| Row::ours(Paint::Plain, format!("row {number}"))).collect()
    }

    #[test]
    fn what_fits_is_one_page_and_ends_in_the_question() {
        let pages = Pages::of(&rows(23), "yes? ", (80, 24)).unwrap();
        assert_eq!((pages.count(), pages.body(0).len(), pages.foot(0)[0].text.as_str()), (1, 23, "yes? "));
    }

    #[test]
    fn what_does_not_fit_is_paged_and_only_the_last_page_asks() {
        let pages = Pages::of(&rows(50), "yes? ", (80, 24)).unwrap();
        assert_eq!(pages.count(), 3);
        assert_eq!(pages.foot(0)[0].text, "-- 1-23 of 50 lines, more: space --");
        assert_eq!(pages.foot(2)[0].text, "yes? ");
        let all: Vec<Row> = (0..3).flat_map(|page| pages.body(page).to_vec()).collect();
        assert_eq!(all, rows(50));
        assert!((0..3).all(|page| pages.body(page).len() + pages.foot(page).len() <= 24));
    }

    #[test]
    fn a_question_that_is_broken_leaves_less_room_and_a_small_screen_none() {
        let pages = Pages::of(&rows(23), "a question of more than twenty columns? ", (20, 24)).unwrap();
        assert_eq!(pages.count(), 2);
        assert!(pages.body(0).len() + pages.foot(1).len() <= 24);
        assert!(pages.foot(0).iter().all(|row| row.text.len() < 20));
        assert_eq!(Pages::of(&rows(1), "yes?", (19, 24)), None);
        assert_eq!(Pages::of(&rows(1), "yes?", (80, 3)), None);
    }
}
