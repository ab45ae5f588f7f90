//! Bars on standard error, only where a person watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar for `total` units of work; `bytes`: they are bytes. Hidden when standard error is not a terminal.
pub(crate) fn bar(what: &str, total: u64, bytes: bool) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let counts = if bytes { "{bytes}/{total_bytes}" } else { "{human_pos}/{human_len} steps" };
    let style =
        ProgressStyle::with_template(&format!("{{msg:<24}} {{wide_bar:.cyan/dim}} {counts} {{eta:>4}}"));
    let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what.to_owned());
    // The template is a constant; were it wrong, a plain bar would do.
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A line that changes, for work without an end in sight.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    });
    bar
}
