//! A folder that appears whole or not at all.
//!
//! Everything is written into `DIR.partial-PID` beside its destination, made durable, and renamed at the end. A
//! recording that is given up removes the folder on the way out; one that is killed leaves a name that says what it
//! is. With `--force` the old folder is exchanged with the new one in one step, and only then removed. Only a folder
//! that is a recording, or empty, is ever replaced: a slip such as `-o ~` must not cost a home.

use crate::error::{Error, Problem};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The files that mark a folder as a recording.
const MARKS: [&str; 2] = ["perf.data", "recording.json"];

/// Whether `dest` can become a recording.
pub(crate) fn check(dest: &Path, force: bool) -> Option<Problem> {
    let name = dest.display();
    if dest.file_name().is_none() {
        return Some(Problem::new(
            format!("`{name}` does not name a new folder"),
            "give -o a name of its own",
        ));
    }
    let parent = parent(dest);
    if !parent.is_dir() {
        let what = format!("there is no folder {}", parent.display());
        return Some(Problem::new(what, format!("mkdir -p {}", parent.display())));
    }
    let Ok(about) = fs::symlink_metadata(dest) else { return None };
    if !about.is_dir() {
        return Some(Problem::new(format!("{name} exists and is not a folder"), "choose another -o"));
    }
    let recording = MARKS.iter().any(|mark| dest.join(mark).is_file());
    let empty = fs::read_dir(dest).is_ok_and(|mut entries| entries.next().is_none());
    match (force, recording || empty) {
        (true, true) => None,
        (false, _) => {
            Some(Problem::new(format!("{name} exists"), "choose another -o, or replace it with --force"))
        }
        (true, false) => {
            let what = format!("{name} exists and is not a recording");
            Some(Problem::new(what, "choose another -o: --force replaces recordings and empty folders only"))
        }
    }
}

fn parent(dest: &Path) -> &Path {
    match dest.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The folder while it is being filled. Dropping it removes it, unless it was published.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    dest: PathBuf,
    published: bool,
}

impl Partial {
    /// Makes the folder, for its owner only: what the kernel tells root is not for everyone.
    pub(crate) fn create(dest: &Path) -> Result<Partial, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let mut name: OsString = dest.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let path = dest.with_file_name(name);
        // Absolute, since perf runs inside it and the program may change its folder.
        let path = std::path::absolute(&path).map_err(Error::file(&path, "finding its place"))?;
        let dest = std::path::absolute(dest).map_err(Error::file(dest, "finding its place"))?;
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(Error::file(&path, "making the folder"))?;
        Ok(Partial { path, dest, published: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a whole file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let place = self.path.join(name);
        fs::write(&place, text).map_err(Error::file(&place, "writing"))
    }

    /// Makes everything durable and gives the folder its name. Returns the folder and the bytes in it.
    ///
    /// `owner` becomes the owner of the folder and its files; a failure of that is not a failure of the recording.
    pub(crate) fn publish(mut self, force: bool, owner: Option<(u32, u32)>) -> Result<(PathBuf, u64), Error> {
        let mut bytes = 0;
        let entries = fs::read_dir(&self.path).map_err(Error::file(&self.path, "listing"))?;
        for entry in entries {
            let place = entry.map_err(Error::file(&self.path, "listing"))?.path();
            let file = File::open(&place).map_err(Error::file(&place, "opening"))?;
            file.sync_all().map_err(Error::file(&place, "making it durable"))?;
            bytes += file.metadata().map_err(Error::file(&place, "reading its size"))?.len();
            hand_over(&place, owner);
        }
        hand_over(&self.path, owner);
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
        sync(&self.path).map_err(Error::file(&self.path, "making it durable"))?;
        self.rename(force).map_err(Error::file(&self.dest, "giving the recording its name"))?;
        self.published = true;
        sync(parent(&self.dest)).map_err(Error::file(parent(&self.dest), "making it durable"))?;
        Ok((self.dest.clone(), bytes))
    }

    fn rename(&self, force: bool) -> io::Result<()> {
        match renameat_with(CWD, &self.path, CWD, &self.dest, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) if force => {
                renameat_with(CWD, &self.path, CWD, &self.dest, RenameFlags::EXCHANGE)?;
                // From here on `path` is the old recording.
                fs::remove_dir_all(&self.path)
            }
            // File systems that know no flags: a plain rename replaces an empty folder at most.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if force && self.dest.exists() {
                    fs::remove_dir_all(&self.dest)?;
                }
                fs::rename(&self.path, &self.dest)
            }
            other => Ok(other?),
        }
    }
}

fn hand_over(place: &Path, owner: Option<(u32, u32)>) {
    if let Some((user, group)) = owner {
        // Best effort: the recording is whole either way, and root can still read it.
        let _ = std::os::unix::fs::lchown(place, Some(user), Some(group));
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_dropped_folder_leaves_nothing_and_a_published_one_only_its_name() {
        let place = tempfile::tempdir().expect("a folder");
        let dest = place.path().join("out");
        let partial = Partial::create(&dest).expect("a partial folder");
        partial.write("perf.data", "half").expect("a file");
        assert!(names(place.path())[0].starts_with("out.partial-"));
        drop(partial);
        assert!(names(place.path()).is_empty());

        let partial = Partial::create(&dest).expect("a partial folder");
        partial.write("perf.data", "whole").expect("a file");
        let (path, bytes) = partial.publish(false, None).expect("published");
        assert_eq!((path, bytes), (dest, 5));
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn a_recording_is_replaced_on_demand_only() {
        let place = tempfile::tempdir().expect("a folder");
        let dest = place.path().join("out");
        for (force, text) in [(false, "old"), (true, "new")] {
            let partial = Partial::create(&dest).expect("a partial folder");
            partial.write("perf.data", text).expect("a file");
            partial.publish(force, None).expect("published");
        }
        assert_eq!(fs::read_to_string(dest.join("perf.data")).expect("a file"), "new");
        let partial = Partial::create(&dest).expect("a partial folder");
        partial.publish(false, None).expect_err("the name is taken");
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn only_recordings_and_empty_folders_may_be_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let dest = place.path().join("out");
        assert_eq!(check(&dest, false), None);
        fs::create_dir(&dest).expect("a folder");
        assert!(check(&dest, false).is_some_and(|problem| problem.remedy.contains("--force")));
        assert_eq!(check(&dest, true), None);
        fs::write(dest.join("thesis.txt"), "").expect("a file");
        assert!(check(&dest, true).is_some_and(|problem| problem.what.contains("not a recording")));
        fs::write(dest.join("perf.data"), "").expect("a file");
        assert_eq!(check(&dest, true), None);
        assert!(
            check(&dest.join("a/b"), false).is_some_and(|problem| problem.remedy.starts_with("mkdir -p"))
        );
        assert!(check(&dest.join("perf.data"), true).is_some());
        assert!(check(Path::new("/"), true).is_some() && check(Path::new(".."), true).is_some());
    }
}
