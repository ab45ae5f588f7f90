//! Columns of text for a terminal: widths counted in cells, one column that gives way, safe names.
//!
//! Names come from the recorded machine and may hold anything, escape sequences too: [`Grid`] prints no
//! control character and no mark that changes the direction of writing, whatever it is given.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a cell looks like when colours are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ink {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Warn,
}

impl Ink {
    /// `text` wrapped in this ink's escape sequence, if `colour`.
    pub(super) fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.into(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
        };
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }
}

/// One text of a [`Grid`].
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    text: String,
    ink: Ink,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: printable(&text.into()), ink: Ink::Plain }
    }
}

impl Cell {
    pub(super) fn ink(self, ink: Ink) -> Self {
        Self { ink, ..self }
    }
}

/// Rows of cells. The first column is left-aligned and is shortened when the width does not suffice; the
/// others are right-aligned and always whole.
#[derive(Debug, Default)]
pub(super) struct Grid {
    rows: Vec<Vec<Cell>>,
    keep_tail: bool,
}

/// Blank cells between two columns.
pub(super) const GAP: usize = 2;

impl Grid {
    /// `keep_tail`: the first column loses its beginning, not its end, when it is too long (paths).
    pub(super) fn new(keep_tail: bool) -> Self {
        Self { rows: Vec::new(), keep_tail }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Prints the rows, no line wider than `width` as long as the first column keeps 8 cells.
    pub(super) fn print(&self, out: &mut impl Write, width: usize, colour: bool) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (cell, w) in row.iter().zip(&mut widths) {
                *w = (*w).max(cell.text.width());
            }
        }
        let rest: usize = widths.iter().skip(1).map(|w| w + GAP).sum();
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(width.saturating_sub(rest).max(8));
        }
        for row in &self.rows {
            let mut line = String::new();
            for (i, (cell, &w)) in row.iter().zip(&widths).enumerate() {
                let text = if i == 0 { shorten(&cell.text, w, self.keep_tail) } else { cell.text.clone() };
                let blank = " ".repeat(w.saturating_sub(text.width()));
                let text = cell.ink.paint(&text, colour && !text.is_empty());
                if i == 0 {
                    line.push_str(&text);
                    line.push_str(&blank);
                } else {
                    line.push_str(&" ".repeat(GAP));
                    line.push_str(&blank);
                    line.push_str(&text);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `text` with everything that a terminal would obey replaced by `\u{fffd}`.
pub(super) fn printable(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// `text` in at most `width` cells, with `…` where something was cut.
pub(super) fn shorten(text: &str, width: usize, keep_tail: bool) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut left = width.saturating_sub(1);
    let mut fits = |c: &char| {
        let w = c.width().unwrap_or(0);
        let fits = w <= left;
        left = if fits { left - w } else { 0 };
        fits
    };
    if keep_tail {
        let tail: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
        std::iter::once('…').chain(tail.into_iter().rev()).collect()
    } else {
        let head: String = text.chars().take_while(&mut fits).collect();
        head + "…"
    }
}

/// Prints `text` in lines of at most `width` cells, the first after `lead`, the others indented to match.
pub(super) fn wrap(out: &mut impl Write, lead: &str, text: &str, width: usize) -> io::Result<()> {
    let text = printable(text);
    let indent = lead.width();
    let mut line = String::from(lead);
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.width() + 1 + word.width() > width {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_count_cells_not_bytes() {
        assert_eq!(shorten("/a/b/container-17", 10, true), "…tainer-17");
        assert_eq!(shorten("dentry", 6, false), "dentry");
        assert_eq!(shorten("dentry_cache", 6, false), "dentr…");
        assert_eq!(shorten("日本語日本語", 6, false).width(), 5);
        assert_eq!(shorten("abc", 0, false), "…");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        let mut grid = Grid::new(false);
        grid.row(vec!["\x1b[2J\x07\u{202e}evil\n".into(), "1".into()]);
        let mut out = Vec::new();
        grid.print(&mut out, 40, false).expect("prints");
        let text = String::from_utf8(out).expect("utf-8");
        assert_eq!(text.lines().count(), 1);
        assert!(!text.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    }

    #[test]
    fn the_first_column_gives_way_and_colour_changes_no_width() {
        let mut grid = Grid::new(true);
        grid.row(vec!["x".repeat(300).into(), Cell::from("12.3 MiB").ink(Ink::Good)]);
        grid.row(vec!["y".into(), "1 B".into()]);
        let print = |colour| {
            let mut out = Vec::new();
            grid.print(&mut out, 40, colour).expect("prints");
            String::from_utf8(out).expect("utf-8")
        };
        let plain = print(false);
        assert!(plain.lines().all(|l| l.width() == 40), "{plain}");
        assert_eq!(print(true).replace("\x1b[32m", "").replace("\x1b[0m", ""), plain);
    }

    #[test]
    fn wrapped_text_keeps_its_indent() {
        let mut out = Vec::new();
        wrap(&mut out, "note  ", "one two three four", 15).expect("prints");
        assert_eq!(String::from_utf8(out).expect("utf-8"), "note  one two\n      three\n      four\n");
    }
}
