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
    cut: Cut,
}

/// Where a text that is too long loses its letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cut {
    #[default]
    End,
    /// Paths: what tells two of them apart stands at either end.
    Middle,
}

/// Blank cells between two columns.
pub(super) const GAP: usize = 2;

impl Grid {
    /// `cut` is for the first column.
    pub(super) fn new(cut: Cut) -> Self {
        Self { rows: Vec::new(), cut }
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
                let text = if i == 0 { shorten(&cell.text, w, self.cut) } else { cell.text.clone() };
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
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// `text` in at most `width` cells, with `…` where something was cut.
pub(super) fn shorten(text: &str, width: usize, cut: Cut) -> String {
    if text.width() <= width {
        return text.into();
    }
    let left = width.saturating_sub(1);
    let tail_cells = if cut == Cut::Middle { left / 2 } else { 0 };
    let head: String = fitting(text.chars(), left - tail_cells).into_iter().collect();
    let tail = fitting(text.chars().rev(), tail_cells);
    head + "…" + &tail.into_iter().rev().collect::<String>()
}

/// The first characters that fit in `cells`.
fn fitting(chars: impl Iterator<Item = char>, mut cells: usize) -> Vec<char> {
    chars
        .map_while(|c| {
            cells = cells.checked_sub(c.width().unwrap_or(0))?;
            Some(c)
        })
        .collect()
}

/// Prints `text` in lines of at most `width` cells, the first after `lead`, the others indented to match.
pub(super) fn wrap(out: &mut impl Write, lead: &str, text: &str, width: usize) -> io::Result<()> {
    let text = printable(text);
    let indent = lead.width();
    let mut line = String::from(lead);
    let mut empty = true;
    for word in words(&text) {
        if !empty && line.width() + 1 + word.width() > width {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    writeln!(out, "{}", line.trim_end())
}

/// The words of `text`; a number and its unit (`39 %`, `12.3 MiB`) are one.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 7] = ["%", "B", "KiB", "MiB", "GiB", "s", "ms"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches(['.', ',', ':', ';']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.into()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_count_cells_not_bytes() {
        assert_eq!(shorten("/a/b/container-17", 10, Cut::Middle), "/a/b/…r-17");
        assert_eq!(shorten("dentry", 6, Cut::End), "dentry");
        assert_eq!(shorten("dentry_cache", 6, Cut::End), "dentr…");
        assert_eq!(shorten("日本語日本語", 6, Cut::End).width(), 5);
        assert_eq!(shorten("abc", 0, Cut::End), "…");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        let mut grid = Grid::new(Cut::End);
        grid.row(vec!["\x1b[2J\x07\u{202e}evil\n".into(), "1".into()]);
        let mut out = Vec::new();
        grid.print(&mut out, 40, false).expect("prints");
        let text = String::from_utf8(out).expect("utf-8");
        assert_eq!(text.lines().count(), 1);
        assert!(!text.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    }

    #[test]
    fn the_first_column_gives_way_and_colour_changes_no_width() {
        let mut grid = Grid::new(Cut::Middle);
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
        let mut out = Vec::new();
        wrap(&mut out, "", "it is 39 % less", 8).expect("prints");
        assert_eq!(String::from_utf8(out).expect("utf-8"), "it is\n39 %\nless\n");
    }
}
