//! The recorded command: run as the user who asked for it, with its input and output untouched.
//!
//! Recording takes root, the workload should not have it: under `sudo` the command gets back the user id, the group
//! ids and the home of the user who called sudo (`SUDO_UID`). Without sudo it runs as this process does.

use crate::error::Error;
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

/// How the recorded command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// With this exit status.
    Exited(i32),
    /// Killed by this signal.
    Signalled(i32),
    /// It had not ended when the recording was stopped for the second time: its process id.
    StillRunning(u32),
}

impl CommandEnd {
    /// The exit status to pass on, by the rule of shells: 128 + the signal's number for a killed command, and 130
    /// (interrupted) when nobody waited for its end.
    pub fn exit_code(self) -> u8 {
        match self {
            CommandEnd::Exited(code) => u8::try_from(code & 0xff).unwrap_or(1),
            CommandEnd::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(255),
            CommandEnd::StillRunning(_) => 130,
        }
    }

    pub(crate) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => CommandEnd::Exited(code),
            (None, signal) => CommandEnd::Signalled(signal.unwrap_or(0)),
        }
    }
}

/// The user behind sudo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    groups: Vec<u32>,
    name: Option<String>,
    home: Option<String>,
}

impl User {
    /// The user who called sudo; nothing when this process is not root or was not started by sudo.
    pub(crate) fn behind_sudo(is_root: bool, variable: impl Fn(&str) -> Option<String>) -> Option<User> {
        // The highest number means "leave as it is" to the system calls that change ids.
        let number = |name: &str| variable(name)?.parse::<u32>().ok().filter(|&number| number != u32::MAX);
        if !is_root {
            return None;
        }
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        // The system's own tools answer from every source of users there is, not from /etc/passwd alone.
        let (name, home) =
            ask("getent", &["passwd", &uid.to_string()]).as_deref().map(passwd).unwrap_or_default();
        let name = name.or_else(|| variable("SUDO_USER"));
        let listed = name.as_deref().and_then(|name| ask("id", &["-G", "--", name]));
        let mut groups: Vec<u32> =
            listed.unwrap_or_default().split_whitespace().filter_map(|text| text.parse().ok()).collect();
        if groups.is_empty() {
            groups.push(gid);
        }
        Some(User { uid, gid, groups, name, home })
    }
}

/// Name and home of a line `name:password:uid:gid:comment:home:shell`.
fn passwd(line: &str) -> (Option<String>, Option<String>) {
    let field = |number| line.trim().split(':').nth(number).filter(|text| !text.is_empty()).map(String::from);
    (field(0), field(5))
}

fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Starts the command. It stays in this process's group, so that a terminal's Ctrl-C reaches it as it always would.
pub(crate) fn start(words: &[OsString], user: Option<&User>) -> Result<Child, Error> {
    let (first, rest) = words.split_first().ok_or_else(|| Error::Command {
        command: String::new(),
        source: std::io::ErrorKind::InvalidInput.into(),
    })?;
    let mut command = Command::new(first);
    command.args(rest);
    if let Some(user) = user {
        for (variable, value) in [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)] {
            if let Some(value) = value {
                command.env(variable, value);
            }
        }
        become_user(&mut command, user);
    }
    command.spawn().map_err(|source| Error::Command { command: first.to_string_lossy().into_owned(), source })
}

/// Lets the child take over the user's ids before it runs its program.
///
/// `Command::uid` and `gid` would do, but drop every other group of the user: no `docker`, no `kvm`.
fn become_user(command: &mut Command, user: &User) {
    let groups: Vec<Gid> = user.groups.iter().map(|&group| Gid::from_raw_unchecked(group)).collect();
    let (uid, gid) = (Uid::from_raw_unchecked(user.uid), Gid::from_raw_unchecked(user.gid));
    let change = move || {
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    };
    // SAFETY: `change` runs in the child between fork and exec, where only async-signal-safe calls are allowed. It
    // makes three plain system calls on data prepared before the fork: no allocation, no lock. The child has one
    // thread, so the calls' reach (the calling thread) is the whole process.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_become_exit_codes() {
        assert_eq!(CommandEnd::of(ExitStatus::from_raw(3 << 8)).exit_code(), 3);
        assert_eq!(CommandEnd::of(ExitStatus::from_raw(9)).exit_code(), 137);
        assert_eq!(CommandEnd::StillRunning(7).exit_code(), 130);
    }

    #[test]
    fn the_user_behind_sudo() {
        let set = |name: &str| match name {
            "SUDO_UID" | "SUDO_GID" => Some(String::from("4294967")),
            "SUDO_USER" => Some(String::from("no such user")),
            _ => None,
        };
        let user = User::behind_sudo(true, set).expect("a user");
        assert_eq!(
            (user.uid, user.gid, user.groups, user.home),
            (4_294_967, 4_294_967, vec![4_294_967], None)
        );
        assert_eq!(User::behind_sudo(false, set), None);
        assert_eq!(User::behind_sudo(true, |_| None), None);
        assert_eq!(
            passwd("ann:x:7:8:Ann:/home/ann:/bin/sh\n"),
            (Some("ann".into()), Some("/home/ann".into()))
        );
        assert_eq!(passwd("odd"), (Some("odd".into()), None));
    }

    #[test]
    fn the_command_runs_as_that_user() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can start a command as somebody else");
            return;
        }
        // Root of a container may have no other users, or may not become one.
        let ids = ["--reuid=65534", "--regid=65533", "--groups=65533,65532", "true"];
        if Command::new("setpriv").args(ids).status().is_ok_and(|tried| !tried.success()) {
            println!("skipped: this root may not become somebody else");
            return;
        }
        let user = User { uid: 65_534, gid: 65_533, groups: vec![65_533, 65_532], name: None, home: None };
        let script = "test \"$(id -u) $(id -g) $(id -G)\" = '65534 65533 65533 65532'";
        let words = ["sh", "-c", script].map(OsString::from);
        let mut child = start(&words, Some(&user)).expect("a shell");
        assert!(child.wait().expect("its end").success());
    }
}
