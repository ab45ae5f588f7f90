//! Colours, widths and the progress bar: on a terminal only, and only where they are wanted.

use super::support::{replay, run, script, small};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::Command;

const ESCAPE: &str = "\x1b[";

#[test]
fn into_a_pipe_there_are_no_escape_codes_and_no_bar() {
    let ended = run(replay().arg(small())).with(0);
    assert!(!ended.out.contains('\x1b') && ended.err.is_empty(), "{}", ended.err);
}

#[test]
fn colours_are_had_by_force() {
    for option in ["--colour", "--color"] {
        let forced = run(replay().arg(script()).args([option, "always"]).env("NO_COLOR", "1")).with(0);
        assert!(forced.out.contains(ESCAPE), "{option}");
    }
    let plain = run(replay().arg(script()).args(["--colour", "never"])).with(0);
    assert!(!plain.out.contains(ESCAPE));
}

#[test]
fn columns_are_respected() {
    for width in [80, 100, 132] {
        let ended = run(replay().arg(script()).env("COLUMNS", width.to_string())).with(0);
        // All is ASCII but a few signs of one cell each.
        let longest = ended.out.lines().map(|l| l.chars().count()).max();
        assert!(
            longest.is_some_and(|l| l <= width && l > width - 25),
            "{longest:?} of {width}:\n{}",
            ended.out
        );
    }
    // Too narrow, or no number: it prints, somehow.
    for columns in ["0", "1", "20", "", "-5", "wide", "99999999999999999999"] {
        let ended = run(replay().arg(script()).env("COLUMNS", columns)).with(0);
        assert!(ended.out.contains("utilisation at peak"), "{columns}");
    }
}

/// Runs the command on a terminal of 80 columns and gives all that it wrote there; `None`: no terminals here.
fn on_a_terminal(command: &mut Command) -> Option<String> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
    grantpt(&master).ok()?;
    unlockpt(&master).ok()?;
    let name = ptsname(&master, Vec::new()).ok()?;
    let name = name.to_str().ok()?;
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).ok()?;
    let slave = File::options().read(true).write(true).open(name).ok()?;
    let other = slave.try_clone().ok()?;
    let mut child = command.stdout(slave).stderr(other).spawn().ok()?;
    // The command keeps copies of its own ends: they go with it, or the terminal would never end.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let (mut master, mut seen, mut part) = (File::from(master), Vec::new(), [0; 4096]);
    // A terminal that nobody holds any more ends in an error.
    while let Ok(n) = master.read(&mut part) {
        if n == 0 {
            break;
        }
        seen.extend_from_slice(&part[..n]);
    }
    assert!(child.wait().ok()?.success());
    Some(String::from_utf8_lossy(&seen).into_owned())
}

#[test]
fn on_a_terminal_there_are_colours_a_bar_and_its_width() {
    let Some(seen) = on_a_terminal(replay().arg(small())) else {
        return println!("skipped: no terminals here");
    };
    assert!(seen.contains("\x1b[1m") && seen.contains("reading"), "{seen:?}");
    assert!(seen.contains("tenalloc  vs linux-5.8") || seen.contains("vs linux-5.8"), "{seen:?}");
    let quiet = on_a_terminal(replay().arg(script()).arg("-q").env("NO_COLOR", "1")).expect("a terminal");
    assert!(!quiet.contains(ESCAPE) && !quiet.contains("reading"), "{quiet:?}");
    let widest = quiet.lines().map(|l| l.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|w| w <= 80), "{quiet}");
    // A terminal that can do nothing, and a user who wants nothing.
    let dumb = on_a_terminal(replay().arg(script()).arg("-q").env("TERM", "dumb")).expect("a terminal");
    assert!(!dumb.contains(ESCAPE), "{dumb:?}");
    let never = on_a_terminal(replay().arg(script()).args(["-q", "--colour", "never"])).expect("a terminal");
    assert!(!never.contains(ESCAPE), "{never:?}");
}
