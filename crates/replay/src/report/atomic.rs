//! A file that is either whole or not there.
//!
//! Apart from the writers, which know only `std::io::Write`: this alone knows about paths.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Lets `write` fill a temporary file in the folder of `path`, then renames it to `path`. On any error the
/// temporary file is removed and what stood at `path` before is untouched.
///
/// A symbolic link is followed, the mode of an older file is kept, a new one gets `0666` less the umask.
/// What is no regular file (`/dev/stdout`, a pipe) cannot be replaced and is written to directly.
///
/// # Errors
/// Those of `write`, and of making, syncing and renaming the file; all name the path and keep their kind.
pub fn write_atomically<F>(path: &Path, write: F) -> io::Result<()>
where
    F: FnOnce(&mut dyn Write) -> io::Result<()>,
{
    // Not the name of the temporary file, which `tempfile` puts behind what the system said.
    let place = |e: io::Error| {
        let text = e.to_string();
        let said = text.split(" at path ").next().unwrap_or(&text);
        io::Error::new(e.kind(), format!("cannot write {}: {said}", path.display()))
    };
    let old = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(place(io::ErrorKind::IsADirectory.into())),
        Ok(meta) if !meta.is_file() => {
            let mut out = BufWriter::new(fs::OpenOptions::new().write(true).open(path).map_err(place)?);
            write(&mut out).map_err(place)?;
            return out.flush().map_err(place);
        }
        Ok(meta) => Some(meta),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(place(e)),
    };
    let target = match old {
        Some(_) => fs::canonicalize(path).map_err(place)?,
        None => path.to_path_buf(),
    };
    let folder = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tenalloc-").suffix(".tmp").permissions(Permissions::from_mode(0o666));
    let mut file = builder.tempfile_in(&folder).map_err(place)?;
    let mut out = BufWriter::new(file.as_file_mut());
    write(&mut out).map_err(place)?;
    out.flush().map_err(place)?;
    drop(out);
    if let Some(meta) = old {
        file.as_file().set_permissions(meta.permissions()).map_err(place)?;
    }
    file.as_file().sync_all().map_err(place)?;
    file.persist(&target).map_err(|e| place(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .expect("folder")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_error_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.json");
        write_atomically(&path, |w| w.write_all(b"old")).expect("first");
        let error = write_atomically(&path, |w| {
            w.write_all(&[b'x'; 100_000])?;
            Err(io::Error::other("half way"))
        });
        let text = error.expect_err("fails").to_string();
        assert_eq!(text, format!("cannot write {}: half way", path.display()));
        assert_eq!(fs::read(&path).expect("read"), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn mode_and_link_survive() {
        let folder = tempfile::tempdir().expect("folder");
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        write_atomically(&path, |w| w.write_all(b"1")).expect("first");
        assert_ne!(fs::metadata(&path).expect("meta").permissions().mode() & 0o400, 0);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("chmod");
        std::os::unix::fs::symlink(&path, &link).expect("link");
        write_atomically(&link, |w| w.write_all(b"2")).expect("second");
        assert!(fs::symlink_metadata(&link).expect("link").is_symlink());
        assert_eq!(fs::read(&path).expect("read"), b"2");
        assert_eq!(fs::metadata(&path).expect("meta").permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn devices_are_not_replaced_and_missing_folders_are_named() {
        write_atomically(Path::new("/dev/null"), |w| w.write_all(b"x")).expect("null");
        assert!(!fs::metadata("/dev/null").expect("null").is_file());
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("no/such.html");
        let error = write_atomically(&path, |w| w.write_all(b"x")).expect_err("no folder");
        let expected = format!("cannot write {}: No such file or directory (os error 2)", path.display());
        assert_eq!(error.to_string(), expected);
        let error = write_atomically(folder.path(), |w| w.write_all(b"x")).expect_err("a folder");
        assert!(error.to_string().contains("cannot write"), "{error}");
    }
}
