//! The parts of the comparison by themselves. Whole recordings are compared in `tests/fidelity`.

use super::*;
use tenalloc_trace::program::Cache;
use tenalloc_trace::slabinfo;

fn row(cache: &str, kernel: i64, replay: i64, seeded: i64) -> Row {
    let (slab_bytes, before, free_before) = (16384, 3, 2);
    Row { cache: cache.into(), slab_bytes, before, free_before, kernel, replay, seeded }
}

#[test]
fn off_is_a_part_of_what_the_kernel_saw() {
    let grew = row("a", 40, 50, 36);
    assert_eq!((grew.off(grew.replay), grew.off(grew.seeded)), (Some(0.25), Some(-0.1)));
    // More slabs freed than the kernel freed: the change is below it.
    let shrank = row("b", -10, -15, -10);
    assert_eq!((shrank.off(shrank.replay), shrank.off(shrank.seeded)), (Some(-0.5), Some(0.0)));
    assert_eq!(row("c", 0, 1, 0).off(1), None);
}

#[test]
fn a_release_is_the_first_number_of_uname() {
    assert_eq!(release("Linux 6.12.111+deb12-cloud-amd64 x86_64"), Some((6, 12)));
    assert_eq!(release("5.10.0-32-cloud-amd64"), Some((5, 10)));
    assert_eq!(release("Linux 6-rc1"), None);
    assert_eq!((release("Linux"), release(""), release("Linux 99999999999.1")), (None, None, None));
}

fn cache(name: &str, slot_size: u32) -> Cache {
    Cache { name: name.into(), aliases: Vec::new(), slot_size, geometry: None }
}

#[test]
fn a_seeded_design_begins_with_the_kernels_slabs() {
    let program = Program {
        kernel: Some("Linux 6.12.1 x86_64".into()),
        page_size: 4096,
        cpus: 2,
        nodes: 1,
        cpu_node: vec![0, 0],
        caches: vec![cache("filled", 256), cache("half", 256), cache("unknown", 256)],
        ..Program::default()
    };
    let text = "filled 160 160 256 16 1 : tunables 0 0 0 : slabdata 10 10 0\n\
                half 80 160 256 16 1 : tunables 0 0 0 : slabdata 10 10 0\n";
    let before = slabinfo::parse(text, "t").unwrap();
    let moment = Moment { label: "after".into(), time: 1, caches: before.clone() };
    let recorded = Recorded { before, moments: vec![moment] };
    let found = compare(&program, &recorded, false).unwrap();
    assert_eq!((found.schema.as_str(), found.design.as_str()), ("tenalloc.fidelity", "linux-5.9"));
    let rows = &found.moments[0].rows;
    // What slabinfo does not know is not compared; nothing happened to the others.
    let names: Vec<_> = rows.iter().map(|r| (r.cache.as_str(), r.before, r.free_before)).collect();
    assert_eq!(names, [("filled", 10, 0), ("half", 10, 80)]);
    assert!(rows.iter().all(|r| (r.kernel, r.replay, r.seeded) == (0, 0, 0)), "{rows:?}");

    let machine = Machine { cpus: 2, nodes: 1, cpu_node: vec![0, 0], page_size: 4096 };
    let mut design = tenalloc_designs::as_recorded((6, 12), &machine).unwrap();
    for c in &program.caches {
        design.add_cache(&CacheSpec { name: &c.name, slot_size: c.slot_size, geometry: None }).unwrap();
    }
    seed::seed(&program, &recorded.before, design.as_mut()).unwrap();
    let slabs: Vec<u64> = design.caches().iter().map(|c| c.slabs).collect();
    assert_eq!((slabs[0], slabs[2]), (10, 0));
    // Half of 16 places at random: that a slab came to be empty and was given back is all that may happen.
    assert!((8..=10).contains(&slabs[1]), "{slabs:?}");
}

#[test]
fn without_a_release_there_is_no_design_to_hold_against() {
    let program = Program { cpus: 1, nodes: 1, cpu_node: vec![0], page_size: 4096, ..Program::default() };
    let error = compare(&program, &Recorded::default(), false).unwrap_err();
    assert!(matches!(error, Error::NoKernel), "{error}");
}

#[test]
fn the_table_shows_ten_caches_and_sums_all() {
    let mut rows: Vec<Row> = (0..11).map(|n| row(&format!("cache-{n}"), 64, 64, 80)).collect();
    rows[1] = row("a_name_that_is_longer_than_its_column", 0, 1, 0);
    let moments = vec![Compared { label: "steady".into(), t: 2.25, rows }];
    let (schema, kernel, design) = ("s".into(), "Linux 6.1".into(), "linux-5.9".into());
    let mut out = Vec::new();
    table::write(&Fidelity { schema, version: 1, kernel, design, moments }, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "Linux 6.1 against linux-5.9: change in slabs since before the recording",
        "steady at 2.2 s",
        "  cache-0                   16       3      2      +64      +64   +0 %      +80  +25 %",
        "  a_name_that_is_longer     16       3      2       +0       +1      –       +0      –",
        "  within 10 %: 9 of 10, seeded 0 of 10",
        "  all 11 caches: kernel +10.0 MiB, replay +10.0 MiB, seeded +12.5 MiB",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    assert!(text.contains("cache-9") && !text.contains("cache-10"), "{text}");
}
