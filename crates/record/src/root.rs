//! Where the machine's own files are read: one prefix before `/proc`, `/sys` and `/etc`.
//!
//! Everything this crate asks the kernel about goes through [`Root`], so that a test can build the files of a 4.19
//! machine with two NUMA nodes in a temporary folder and ask the same questions. Names that the kernel gives
//! (cgroup paths, task names) need not be UTF-8; they are read lossily, since the trace reader does the same.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder in which `/proc`, `/sys` and `/etc` of the machine are found; `/` in production.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// The machine this process runs on.
    pub(crate) fn system() -> Self {
        Root(PathBuf::from("/"))
    }

    /// A machine whose files lie under `folder`.
    #[cfg(test)]
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        Root(folder.into())
    }

    /// The real place of the absolute `path` of that machine.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file. Bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        fs::read(self.path(path)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The text of a file without white space at its ends, or nothing if it cannot be read.
    pub(crate) fn word(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).ok().map(|text| text.trim().to_owned())
    }

    /// The names in a folder, sorted; empty when it cannot be read.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }
}

/// A fake machine for unit tests: files are named by their absolute path.
#[cfg(test)]
pub(crate) mod fake {
    use super::Root;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    pub(crate) struct Machine {
        folder: tempfile::TempDir,
    }

    impl Machine {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let machine = Machine { folder: tempfile::tempdir().expect("a temporary folder") };
            for (path, text) in files {
                machine.put(path, text);
            }
            machine
        }

        pub(crate) fn put(&self, path: &str, text: &str) {
            let place = self.root().path(path);
            fs::create_dir_all(place.parent().expect("a file in a folder")).expect("folders");
            fs::write(place, text).expect("a file");
        }

        /// A script at `/bin/NAME` that can be run.
        ///
        /// A process of its own writes it: were it this one, a child that another test starts meanwhile would hold the
        /// file open for writing until it runs its program, and the script could not be run ("Text file busy").
        pub(crate) fn program(&self, name: &str, script: &str) {
            let source = format!("/sources/{name}");
            self.put(&source, script);
            let folder = self.root().path("/bin");
            fs::create_dir_all(&folder).expect("a folder");
            let place = folder.join(name);
            let done = Command::new("cp").arg(self.root().path(source)).arg(&place).status();
            assert!(done.expect("cp runs").success());
            fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("a mode");
        }

        pub(crate) fn root(&self) -> Root {
            Root::at(self.folder.path())
        }
    }
}
