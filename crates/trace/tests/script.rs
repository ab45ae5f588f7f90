//! The text of `perf script`: each kernel's style, and that it says the same as the file it was made from.

mod common;

use std::process::{Command, Stdio};
use tenalloc_trace::program::{GroupId, OpKind};
use tenalloc_trace::{Options, Program, read_script};

fn read(text: &str) -> Result<Program, tenalloc_trace::Error> {
    read_script(text.as_bytes(), &Options::default(), &mut |_| {})
}

#[test]
fn the_text_of_the_small_trace_says_what_the_file_says() {
    let folder = common::small();
    // Without symbols perf prints addresses, which callsites.tsv knows. With those of this machine they would be wrong.
    let nothing = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&nothing, "\n").unwrap();
    let perf = Command::new("perf")
        .args(["script", "--ns", "-F", "comm,tid,cpu,time,event,trace", "--kallsyms"])
        .arg(nothing.path())
        .arg("-i")
        .arg(folder.join("perf.data"))
        .env("PERF_CONFIG", "/dev/null")
        .env("LC_ALL", "C")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut perf) = perf else {
        println!("skipped: no perf here");
        return;
    };
    let input = std::io::BufReader::new(perf.stdout.take().unwrap());
    let options = Options { sidecar: Some(folder.clone()), ..Options::default() };
    let text = read_script(input, &options, &mut |_| {});
    // A perf that fails because nobody reads its text any more is no such perf.
    let all_was_read = text.as_ref().map_or_else(|e| e.to_string().contains("the input is empty"), |_| true);
    if !perf.wait().unwrap().success() && all_was_read {
        println!("skipped: this perf cannot print the trace");
        return;
    }
    let (mut text, mut file) = (text.unwrap(), common::open(&folder));
    // A text names events in the order they happened.
    text.counts.samples.sort();
    file.counts.samples.sort();
    assert_eq!(text.counts, file.counts);
    assert_eq!(text.caches, file.caches);
    assert_eq!(text.groups, file.groups);
    assert!(text.ops == file.ops && text.stamps == file.stamps);
}

const V5_10: &str = "\
            perf   127 [000]     4.545608:          kmem:kmalloc_node: call_site=bpf_lru_pop_free+0x72b ptr=0xffff888100001630 bytes_req=8 bytes_alloc=8 gfp_flags=GFP_KERNEL|__GFP_ACCOUNT node=-1
           churn   129 [001]     6.210758:               kmem:kmalloc: call_site=f+0xb ptr=0xffff888043d934c0 bytes_req=24 bytes_alloc=32 gfp_flags=GFP_KERNEL
              ls   917 [000]    11.556674:      kmem:kmem_cache_alloc: call_site=g+0xb3 ptr=0xffff8880044bc100 bytes_req=256 bytes_alloc=256 gfp_flags=GFP_KERNEL|__GFP_ZERO
           churn   263 [003]    12.549181:                 kmem:kfree: call_site=h+0x33 ptr=0xffff888043d934c0
           churn   263 [003]    12.549182:                 kmem:kfree: call_site=h+0x33 ptr=(nil)
           churn   263 [003]    12.549183:      kmem:kmem_cache_free: call_site=i+0x33 ptr=0xffff8880044bc100
";

#[test]
fn kernel_5_10() {
    let p = read(V5_10).unwrap();
    let c = &p.counts;
    assert_eq!((c.allocations, c.accounted, c.matched_frees, c.live_at_end), (3, 1, 2, 1));
    let names: Vec<_> = p.caches.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[..2], ["kmalloc-cg-8", "kmalloc-32"]);
    assert!(names[2].starts_with("?0x") && names[2].ends_with("/256"), "{names:?}");
    assert!(p.notes.iter().any(|n| n.text.contains("does not tell which kmem_cache objects are accounted")));
    assert_eq!((p.cpus, p.length_ns), (4, 8_003_575_000));
}

/// `perf script` as it prints by default, with `-F +pid` and callchains, and a comm that looks like much else.
const V6_18: &str = "\
# captured on: some day
my [0] 1.5: srv  3012/3013  [001]  3121.127335:     kmem:kmem_cache_alloc: call_site=getname_flags.part.0+0x24 ptr=0xffff88810c51c000 name=names cache bytes_req=4096 bytes_alloc=4096 gfp_flags=GFP_KERNEL node=-1 accounted=false
\tffffffff81636e0d f+0x20d ([kernel.kallsyms])

my [0] 1.5: srv  3012/3013  [001]  3121.127336:   1  kmem:kmalloc: call_site=0xffffffff81c5ca55 ptr=0xffff888104ccdb40 bytes_req=184 bytes_alloc=192 gfp_flags=GFP_KERNEL_ACCOUNT|__GFP_RECLAIMABLE node=1 accounted=true
          a=b c   10 [000]  3121.127337: sched:sched_process_fork: comm=x pid=9 pid=10 child_comm=y child_pid=3 child_pid=11
              w   10 [000]  3121.127338: cgroup:cgroup_mkdir: root=0 id=97 level=2 path=/g/with blank
              w   10 [000]  3121.127339: cgroup:cgroup_attach_task: dst_root=0 dst_id=97 dst_level=2 dst_path=/g/with blank pid=11 comm=a pid=12
              w   11 d..1.  3121.127340: kmem:kmalloc: call_site=k+0x1 ptr=0xffff888104ccd000 bytes_req=8 bytes_alloc=8 gfp_flags=GFP_KERNEL|__GFP_ACCOUNT node=-1 accounted=true
              w   11 [001]  3121.127341:   syscalls:sys_enter_mount: dev_name: 0x0, dir_name: 0x5, type: 0x00000000, flags: 0x00044000, data: 0x00000000
              w   11 [001]  3121.127342:   syscalls:sys_exit_mount: 0x0
              w   11 [001]  3121.127343:   syscalls:sys_enter_mount: dev_name: 0x0, dir_name: 0x5, type: 0x00000000, flags: 0x00000000, data: 0x00000000
              w   11 [001]  3121.127344:   syscalls:sys_exit_mount: 0x0
              w   11 [001]  3121.127345:     kmem:kmem_cache_free: call_site=f+0x4 ptr=0xffff88810c51c000 name=names cache
              w   11 [001]  3121.127346: sched:sched_process_exit: comm=w pid=11 prio=120
";

#[test]
fn kernel_6_18_and_a_comm_that_may_be_anything() {
    let p = read(V6_18).unwrap();
    assert_eq!(p.counts.samples.iter().map(|s| s.1).sum::<u64>(), 12, "{:?}", p.counts.samples);
    assert!(!p.notes.iter().any(|n| n.text.contains("could not be read")), "{:?}", p.notes);
    let names: Vec<_> = p.caches.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["names cache", "kmalloc-rcl-192", "kmalloc-cg-8"]);
    let c = &p.counts;
    assert_eq!((c.accounted, c.charged, c.explicit_node, c.matched_frees), (2, 1, 1, 1));
    let paths: Vec<_> = p.groups[4..].iter().map(|g| g.path.as_str()).collect();
    assert_eq!(paths, ["/g", "/g/with blank"]);
    let owners: Vec<_> = p.ops.iter().filter(|o| o.kind == OpKind::Alloc).map(|o| o.group).collect();
    assert_eq!(owners, [GroupId::NOBODY, GroupId::UNKNOWN, GroupId(5)]);
    // The first mount only makes the tree private.
    assert_eq!(p.ops.iter().filter(|o| o.kind == OpKind::Mount).count(), 1);
    common::run(&p);
}

#[test]
fn text_that_is_none_of_perfs() {
    for (text, told) in [
        ("", "standard input, line 1: the input is empty"),
        ("hello\nworld\n", "line 1: no line reads as one of `perf script`"),
        ("x 1 [000] 1.5: sched:sched_process_exit: comm=x pid=1 prio=1\n", "no slab events"),
    ] {
        let e = read(text).unwrap_err();
        assert!(e.to_string().contains(told) && e.exit_code() == 2, "{e}");
    }
    let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    assert!(read_script(endless, &Options::default(), &mut |_| {}).is_err());
    let p = read(&format!("{V5_10}this is odd\n")).unwrap();
    assert!(
        p.notes.iter().any(|n| n.text.contains("1 lines could not be read, the first is line 7")),
        "{:?}",
        p.notes
    );
}

#[test]
fn a_file_with_text_is_read_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    std::fs::write(&file, V5_10).unwrap();
    let mut seen = 0;
    let p = tenalloc_trace::open(&file, &Options::default(), &mut |progress| {
        assert_eq!(progress.total, Some(V5_10.len() as u64));
        seen = progress.read;
    });
    assert_eq!((p.unwrap().counts.allocations, seen), (3, V5_10.len() as u64));
}

#[test]
fn damaged_text_is_never_a_panic() {
    let text = format!("{V5_10}{V6_18}");
    for at in 0..text.len() {
        if text.is_char_boundary(at) {
            let cut = read(&text[..at]);
            assert!(cut.is_ok() || at < 300);
        }
        let mut bytes = text.clone().into_bytes();
        bytes[at] = b"\0:=/ 9\xff"[at % 7];
        if let Ok(p) = read_script(&bytes[..], &Options::default(), &mut |_| {}) {
            common::run(&p);
        }
    }
}
