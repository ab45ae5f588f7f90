//! Groups of the memory controller, for commands that are recorded: where they can be made, under which names, and how they
//! go. The tests of `tenalloc-trace` use it too.

use std::fs;
use std::path::Path;

/// The folder of the memory hierarchy, where new groups can be made in it.
pub(crate) fn memory_groups() -> Option<&'static str> {
    let found = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
        .into_iter()
        .find(|folder| Path::new(folder).join("cgroup.procs").exists());
    let Some(folder) = found else {
        println!("skipped: no cgroup hierarchy is mounted");
        return None;
    };
    let tried = Path::new(folder).join(unique("tenalloc-try"));
    if let Err(error) = fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)) {
        println!("skipped: no group can be made in {folder}: {error}");
        return None;
    }
    Some(folder)
}

/// A name that no former run has left behind, though process ids come again.
pub(crate) fn unique(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    format!("{name}-{}-{}", std::process::id(), now.as_nanos())
}

/// A function of the shell that removes a group, which may be said to be busy for a moment after its last task has ended.
pub(crate) const REMOVE: &str =
    r#"remove() { n=0; until rmdir "$1" 2> /dev/null; do n=$((n + 1)); [ $n -lt 5000 ] || return 1; done; }"#;
