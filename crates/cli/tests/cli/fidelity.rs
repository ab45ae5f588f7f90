//! `tenalloc replay --fidelity`: a table, JSON, and what it refuses.

use super::support::{replay, run, script, small};

#[test]
fn the_table_holds_the_replay_against_the_kernel() {
    let ended = run(replay().arg(small()).args(["--fidelity", "-q"])).with(0);
    for words in
        ["Linux 6.12", "against linux-5.9", "steady at 14.5 s", "after at 15.5 s", "ovl_inode", "within 10 %"]
    {
        assert!(ended.out.contains(words), "{words} in {}", ended.out);
    }
    assert_eq!(ended.err, "");
}

#[test]
fn json_has_every_cache() {
    let ended = run(replay().arg(small()).args(["--fidelity", "-q", "-f", "json"])).with(0);
    let found: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&found["schema"], &found["version"]), (&"tenalloc.fidelity".into(), &1.into()));
    let rows = found["moments"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() > 50, "{}", rows.len());
    assert!(rows.iter().all(|r| r["kernel"].is_i64() && r["replay"].is_i64() && r["seeded"].is_i64()));
}

#[test]
fn without_slabinfo_there_is_nothing_to_compare_with() {
    let ended = run(replay().arg(script()).args(["--fidelity", "-q"])).with(2);
    assert!(ended.err.contains("no slab.before.txt beside the recording"), "{}", ended.err);
    assert_eq!((ended.err.lines().count(), ended.out.as_str()), (1, ""));
}

#[test]
fn other_forms_are_refused_before_the_work() {
    for form in ["csv", "html"] {
        let ended = run(replay().arg(small()).args(["--fidelity", "-f", form])).with(2);
        assert!(ended.err.contains("--fidelity prints a table, or JSON"), "{}", ended.err);
        assert_eq!(ended.out, "");
    }
    run(replay().arg(small()).args(["--fidelity", "--design", "tenalloc"])).with(2);
}
