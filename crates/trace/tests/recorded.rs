//! The recorder and the reader meet: a real recording of this machine, read back, wherever root, perf and tracefs allow
//! it. Elsewhere each test says `skipped: …` with what the recorder misses.
//!
//! The recorder takes over signals of its process, so the tests run one after the other.

mod common;
#[path = "../../record/tests/groups/mod.rs"]
mod groups;

use groups::{REMOVE, memory_groups, unique};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tenalloc_record::{Error, Options, What, record};
use tenalloc_trace::Program;
use tenalloc_trace::program::{GroupId, Op, OpKind};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Records what `sh -c job` does, or tells why this machine cannot.
fn recorded(folder: &Path, job: &str) -> Option<PathBuf> {
    let words = ["sh", "-c", job];
    let options = Options::new(folder.join("trace"), What::Command(words.map(Into::into).to_vec()));
    match record(&options, &mut |_| {}) {
        Err(Error::Refused(problems)) => {
            let what: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
            println!("skipped: {}", what.join("; "));
            None
        }
        result => Some(result.expect("a recording").folder),
    }
}

fn allocations(p: &Program, group: GroupId) -> impl Iterator<Item = &Op> {
    p.ops.iter().filter(move |op| op.kind == OpKind::Alloc && op.group == group)
}

fn events(p: &Program) -> u64 {
    p.counts.samples.iter().map(|s| s.1).sum()
}

#[test]
fn groups_of_this_machine_come_back_as_they_were() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(groups) = memory_groups() else { return };
    let place = tempfile::tempdir().expect("a folder");
    let name = unique("tenalloc trace");
    // A group with a group below it and a space in its name; shells in it; both removed again.
    let job = format!(
        "{REMOVE}; set -e; g='{groups}/{name}'; mkdir \"$g\" \"$g/below\"; \
         sh -c 'echo $$ > \"$0/cgroup.procs\"; ls -lR /etc > /dev/null; for i in 1 2 3 4 5; do sh -c \"ls /proc/self/fd\" \
         > /dev/null; done' \"$g/below\"; remove \"$g/below\"; remove \"$g\""
    );
    let Some(folder) = recorded(place.path(), &job) else { return };
    let p = common::open(&folder);
    let notes: Vec<&str> = p.notes.iter().map(|n| n.text.as_str()).collect();
    println!(
        "{} events, {} groups, {} caches; notes: {notes:#?}",
        events(&p),
        p.groups.len(),
        p.caches.len()
    );
    assert_eq!(p.counts.lost > 0, notes.iter().any(|n| n.contains("lost")), "{notes:?}");
    if p.counts.lost > 0 {
        return println!("skipped: perf lost {} events", p.counts.lost);
    }
    let stamps = common::run(&p);
    let labels: Vec<&str> = p.stamps.iter().map(|s| s.label.as_str()).collect();
    assert_eq!((labels, stamps.len()), (vec!["before", "after"], 2));

    let group = |path: &str| {
        let found: Vec<usize> =
            p.groups.iter().enumerate().filter(|(_, g)| g.path.ends_with(path)).map(|g| g.0).collect();
        assert_eq!(found.len(), 1, "{path} among {:?}", p.groups);
        GroupId(found[0] as u32)
    };
    let (outer, inner) = (group(&format!("/{name}")), group(&format!("/{name}/below")));
    let [o, i] = [outer, inner].map(|g| &p.groups[g.0 as usize]);
    assert_eq!(i.parent, Some(outer));
    assert!(o.created < i.created && i.created.is_some() && i.removed < o.removed && i.removed.is_some());
    let inside = allocations(&p, inner).count();
    println!("{inside} objects of {}", i.path);
    assert!(inside > 500, "{inside}");
    let late = allocations(&p, inner).filter(|op| op.time < i.created.unwrap()).count();
    assert_eq!(late, 0);
    // Only the shell that moved allocated there; each name of /etc is a dentry or more.
    let dentries = allocations(&p, inner).filter(|op| {
        let cache = &p.caches[usize::from(op.cache.0)];
        cache.name == "dentry" || cache.aliases.iter().any(|a| a == "dentry")
    });
    assert!(dentries.count() > 10);

    // Hardly a task of this machine has an unknown group.
    let unknown = allocations(&p, GroupId::UNKNOWN).count() as u64;
    assert!(unknown * 100 <= p.counts.accounted, "{unknown} of {}: {notes:?}", p.counts.accounted);
    let unnamed = p.caches.iter().filter(|c| c.name.starts_with('?')).count();
    assert!(unnamed * 10 <= p.caches.len(), "{unnamed} of {} caches", p.caches.len());
    let table = fs::read_to_string(folder.join("slabgeom.txt")).unwrap_or_default();
    if table.contains("\nA ") {
        assert!(p.caches.iter().any(|c| !c.aliases.is_empty()), "no merged cache");
        let cut = p.caches.iter().filter(|c| c.geometry.is_some()).count();
        assert!(cut * 10 >= p.caches.len() * 9, "{cut} of {} caches have a geometry", p.caches.len());
    }
    assert!(p.counts.matched_frees > p.counts.allocations / 4);
    // The functions of rules 3 and 7 were found in kallsyms.tsv.
    if folder.join("kallsyms.tsv").exists() {
        assert!(notes.iter().all(|n| !n.contains("kallsyms.tsv")), "{notes:?}");
    }
}

/// Empties files into the second folder, in the group of the first, until there are more slabs of dentries than at some
/// moment before: one was made meanwhile. Says so in a file of that folder. The caller puts it in single quotes.
const MAKE_A_SLAB: &str = r#"
echo $$ > "$0/cgroup.procs" && cd "$1" || exit 1
objects() { while read -r name active all rest; do [ "$name" != dentry ] || echo "$all"; done < /proc/slabinfo; }
least=$(objects)
n=0
while [ -n "$least" ] && [ $n -lt 400000 ]; do
    end=$((n + 500))
    while [ $n -lt $end ]; do : > f$n; n=$((n + 1)); done
    now=$(objects)
    if [ "$now" -gt "$least" ]; then echo $n > more; exit 0; fi
    least=$now
done
"#;

#[test]
fn the_kernels_own_owner_vectors_are_told_from_objects() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(groups) = memory_groups() else { return };
    if fs::read_to_string("/proc/cmdline").is_ok_and(|line| line.contains("nokmem")) {
        return println!("skipped: this kernel accounts no slab objects");
    }
    let place = tempfile::tempdir().expect("a folder");
    let files = place.path().join("files");
    fs::create_dir(&files).expect("a folder");
    let group = format!("{groups}/{}", unique("tenalloc vectors"));
    // Dentries are accounted: a new slab of them gets its vector at once, or on older kernels with its first object of a
    // group.
    let job = format!(
        "{REMOVE}; mkdir '{group}' || exit 1; sh -c '{MAKE_A_SLAB}' '{group}' '{}'; end=$?; remove '{group}'; exit $end",
        files.display()
    );
    let Some(folder) = recorded(place.path(), &job) else { return };
    let Ok(made) = fs::read_to_string(files.join("more")) else {
        return println!("skipped: no slab of dentries was made, or /proc/slabinfo does not tell");
    };
    if !folder.join("kallsyms.tsv").exists() {
        return println!("skipped: the kernel hides its functions");
    }
    let p = common::open(&folder);
    println!("{} files, {} owner vectors of {} events", made.trim(), p.counts.owner_vectors, events(&p));
    if p.counts.lost > 0 {
        return println!("skipped: perf lost {} events", p.counts.lost);
    }
    assert!(p.counts.owner_vectors > 0);
}

#[test]
fn a_recording_cut_short_is_read_with_its_formats() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().expect("a folder");
    let Some(folder) = recorded(place.path(), "ls -R /etc > /dev/null") else { return };
    let whole = fs::read(folder.join("perf.data")).expect("a recording");
    let uncut = common::open(&folder);
    // perf itself sometimes ends its compressed stream inside a record (now and then on a busy machine; perf script
    // then shows as many events as we do): that is told, and nothing else may be.
    let told = uncut.notes.iter().any(|note| note.text.contains("incomplete one"));
    assert_eq!(uncut.truncated.is_some(), told, "{:?}", uncut.notes);
    let all = events(&uncut);
    let (mut readable, mut last) = (0, 0);
    let step = whole.len() / 40;
    for n in (1..40).map(|i| i * step).chain([whole.len() - 1]) {
        fs::write(folder.join("perf.data"), &whole[..n]).expect("a file");
        match tenalloc_trace::open(&folder, &tenalloc_trace::Options::default(), &mut |_| {}) {
            Ok(p) => {
                common::run(&p);
                assert!(p.truncated.is_some_and(|at| at <= n as u64), "cut at {n}: {:?}", p.truncated);
                assert!(p.notes.iter().any(|note| note.text.contains("byte ")), "cut at {n}: {:?}", p.notes);
                assert!((last..=all).contains(&events(&p)), "cut at {n}");
                last = events(&p);
                readable += 1;
            }
            // Before the first whole compressed record there is not a sample.
            Err(e) => assert!(last == 0 && e.to_string().contains("byte "), "cut at {n}: {e}"),
        }
    }
    println!("{readable} of 40 cuts of {} bytes gave events, at most {last} of {all}", whole.len());
    // How many of them depends on when perf came to write: the last one loses no event at least. damage.rs does the same
    // with a recording that is always the same.
    assert!(readable > 0 && last == all, "{readable} cuts, {last} of {all} events");

    // perf killed: the header was never completed.
    let mut killed = whole[..whole.len() / 2].to_vec();
    killed[48..56].fill(0);
    fs::write(folder.join("perf.data"), &killed).expect("a file");
    let p = common::open(&folder);
    assert!(p.truncated.is_some() && events(&p) > 0);
    fs::remove_file(folder.join("formats.txt")).expect("it was there");
    let error = tenalloc_trace::open(&folder, &tenalloc_trace::Options::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("formats.txt"), "{error}");
}
