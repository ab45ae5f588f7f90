//! The table: it fits, it obeys nobody, and at 80 columns it is the text in `tests/data`.

use std::path::PathBuf;

use tenalloc_replay::report::{Report, compare, table, truth};
use unicode_width::UnicodeWidthStr;

use super::fixture;

fn print(report: &Report, colour: bool, width: usize) -> String {
    let style = table::Style { colour, width };
    let mut out = Vec::new();
    table::write(report, style, &mut out).expect("writes to memory");
    truth::write(report, style, &mut out).expect("writes to memory");
    String::from_utf8(out).expect("UTF-8")
}

/// Compares with the file; `TENALLOC_BLESS=1` writes it instead, for a change that is meant.
fn same(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    if std::env::var_os("TENALLOC_BLESS").is_some() {
        std::fs::write(&path, text).expect("writes the expected text");
    }
    let expected = std::fs::read_to_string(&path).expect("the expected text");
    assert!(text == expected, "{name} differs; now it is\n{text}");
}

#[test]
fn eighty_columns_are_as_expected() {
    same("table-80.txt", &print(&fixture::plain(), false, 80));
    same("table-80-seven.txt", &print(&fixture::seven(), false, 80));
    same("table-80-empty.txt", &print(&fixture::empty(), false, 80));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, report) in fixture::all() {
        for width in [80, 100, 120, 160, 240] {
            for line in print(&report, false, width).lines() {
                // A word longer than the line cannot be wrapped: only notes and the trace's name hold such.
                let unbroken = name == "ugly" && line.split_whitespace().any(|w| w.width() > 60);
                assert!(line.width() <= width || unbroken, "{name} at {width}: {line}");
            }
        }
    }
}

#[test]
fn a_wide_terminal_is_told_more() {
    let report = fixture::seven();
    let (narrow, wide) = (print(&report, false, 80), print(&report, false, 240));
    // Designs with the same slabs share a column; every design has a line of its own at the head.
    let columns = compare::by_slabs(&report).designs;
    assert_eq!(columns.len(), 4);
    assert!(wide.lines().any(|l| columns.iter().all(|d| l.contains(&d.name))), "{wide}");
    assert!(!narrow.lines().any(|l| columns.iter().all(|d| l.contains(&d.name))), "{narrow}");
    for text in [&narrow, &wide] {
        for design in &report.designs {
            assert!(text.lines().any(|l| l.trim_start().starts_with(&design.name)), "{}", design.name);
        }
    }
}

#[test]
fn colours_are_only_there_when_asked_for_and_names_are_never_obeyed() {
    for (name, report) in fixture::all() {
        let plain = print(&report, false, 80);
        assert!(
            !plain.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{name}: {plain:?}"
        );
        let painted = print(&report, true, 80);
        assert!(painted.contains("\x1b["), "{name} has no colour");
        let mut bare = painted;
        for code in ["1", "2", "31", "32", "33", "0"] {
            bare = bare.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(bare, plain, "{name}");
    }
}
