//! The table for people: a line a workload, with the best of the peers beside ours. All figures are in the JSON.

use super::{C_LIBRARY, CALLED, FLOOR, OURS, Row};
use crate::peers::Policy;
use crate::plan::Plan;

pub(super) fn head(plan: &Plan) {
    println!(
        "allocate + free, ns of processor time of the thread; median of {} rounds in turn, ± half of their distance",
        plan.rounds
    );
    println!(
        "÷: ours inlined over the best of the peers without accounting, with one counter, with owner and 3 levels"
    );
    println!(
        "{:42}{:>8}{:>6}{:>8}{:>7}{:>7}  {:24}{:>6}  {:>7}{:>6}  {:26}{:>6}",
        "",
        "tenalloc",
        "±",
        "called",
        "from C",
        "floor",
        "fastest raw",
        "÷ raw",
        "counter",
        "÷",
        "owner, 3 levels by hand",
        "÷ hand"
    );
}

pub(super) fn part(title: &str) {
    println!("{title}");
}

/// The fastest of those who did what `which` says.
pub(crate) fn best(rows: &[Row], which: impl Fn(Policy) -> bool) -> Option<&Row> {
    rows.iter().filter(|r| r.policy.is_some_and(&which)).min_by(|a, b| a.ns.median.total_cmp(&b.ns.median))
}

/// One workload, whose rows these are.
pub(super) fn line(rows: &[Row]) {
    let find = |peer| rows.iter().find(|r| r.peer == peer);
    let (Some(ours), Some(called)) = (find(OURS), find(CALLED)) else { return };
    let label = format!("{:>5} B, {}", ours.bytes, ours.workload);
    print!("{label:42}{:>8.1}{:>5.0}%{:>8.1}", ours.ns.median, ours.ns.spread(), called.ns.median);
    match find(C_LIBRARY) {
        Some(library) => print!("{:>7.1}", library.ns.median),
        None => print!("{:>7}", ""),
    }
    match find(FLOOR) {
        Some(floor) => print!("{:>7.1}", floor.ns.median),
        None => print!("{:>7}", ""),
    }
    if let Some(raw) = best(rows, |p| p == Policy::Raw) {
        let text = format!("{:5.1} ±{:.0}% {}", raw.ns.median, raw.ns.spread(), raw.peer);
        print!("  {text:24}{:>6.2}", ours.ns.median / raw.ns.median);
    }
    if let Some(counter) = best(rows, |p| p == Policy::Counter) {
        print!("  {:>7.1}{:>6.2}", counter.ns.median, ours.ns.median / counter.ns.median);
    }
    if let Some(hand) = best(rows, Policy::by_hand) {
        let how = if hand.policy == Some(Policy::Batch) { ", batch" } else { "" };
        let text = format!("{:5.1} {}{how}", hand.ns.median, hand.peer);
        print!("  {text:26}{:>6.2}", ours.ns.median / hand.ns.median);
    }
    if let (Some(wall), Some(cpu)) = (ours.scaling, ours.scaling_cpu) {
        print!("  ×{:.2} wall, ×{:.2} CPU", wall.median, cpu.median);
        if let Some(raw) = best(rows, |p| p == Policy::Raw) {
            let by = |f: Option<crate::figure::Figure>| f.map_or(f64::NAN, |f| f.median);
            print!(" (raw ×{:.2}, ×{:.2})", by(raw.scaling), by(raw.scaling_cpu));
        }
    }
    println!();
}
