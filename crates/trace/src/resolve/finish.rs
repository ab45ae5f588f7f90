//! After the last event: what could not be known before is settled, and the program is put together.

use super::sites::Role;
use super::stream::Resolver;
use crate::error::Error;
use crate::program::{CacheId, Note, Op, OpKind, Program, Stamp};
use crate::read::Recording;
use crate::sidecar::Sidecar;

impl Resolver {
    /// Make the program. `file` is named in errors.
    pub(crate) fn finish(mut self, read: Recording, side: Sidecar, file: &str) -> Result<Program, Error> {
        while self.next_stamp < self.stamps.len() {
            self.stamp();
        }
        self.settle_making();
        let settled = self.settle_caches();
        if self.too_many || settled.is_err() {
            let what = format!("more than {} caches", self.caches.len());
            return Err(Error::at(file, 0, what, "this is no recording of one kernel; record anew"));
        }
        self.drop_cancelled();
        self.create_initial();

        let (start, end) = self.times.unwrap_or((0, 0));
        let mut notes = self.notes(&read, &side, start, end);
        let (caches, cache_notes) = self.caches.finish();
        notes.extend(cache_notes);
        let mut counts = self.counts;
        counts.samples =
            read.events.iter().cloned().zip(self.samples.iter().copied()).filter(|s| s.1 > 0).collect();
        counts.lost = read.lost;
        counts.live_at_end = self.objects.len();
        counts.peak_live_bytes = self.objects.all.peak;
        counts.peak_accounted_bytes = self.objects.accounted.peak;
        counts.end_live_bytes = self.objects.all.now;
        counts.end_accounted_bytes = self.objects.accounted.now;

        let json = side.recording;
        let mut cpu_node = json.cpu_node.unwrap_or(read.cpu_node);
        let cpus =
            json.cpus.unwrap_or(read.cpus).max(self.highest_cpu + 1).max(cpu_node.len().min(0x8000) as u16);
        cpu_node.resize(usize::from(cpus), 0);
        let nodes = cpu_node.iter().map(|n| n.saturating_add(1)).max().unwrap_or(1).max(self.nodes.count());
        counts.older_lists = self.lists.older(nodes);
        let stamps = self.stamps.into_iter().map(|s| Stamp {
            label: s.label,
            time: s.time.saturating_sub(start),
            slab: s.slab,
        });
        Ok(Program {
            kernel: json.kernel.or(read.kernel),
            page_size: json.page_size.unwrap_or(if read.page_size == 0 { 4096 } else { read.page_size }),
            cpus,
            nodes,
            cpu_node,
            start_ns: start,
            length_ns: end - start,
            caches,
            groups: self.groups.into_list(),
            slots: self.objects.slots(),
            peak_op: self.peak_op,
            stamps: stamps.collect(),
            counts,
            truncated: read.truncated,
            notes: notes.into_iter().map(|text| Note { text }).collect(),
            ops: self.ops,
        })
    }

    /// Give a cache to every object that nobody named.
    fn settle_caches(&mut self) -> Result<(), super::caches::TooMany> {
        let living = self.objects.iter().filter_map(|o| Some((o.step?.op, o.origin?)));
        let mut open: Vec<_> = std::mem::take(&mut self.unnamed).into_iter().chain(living).collect();
        // In the order of the trace, so that the numbers of the caches do not depend on a hash.
        open.sort_unstable_by_key(|o| o.0);
        for (op, origin) in open {
            let cache = self.caches.settle(origin)?;
            if let Some(op) = self.ops.get_mut(op as usize) {
                op.cache = cache;
            }
        }
        Ok(())
    }

    fn drop_cancelled(&mut self) {
        self.cancelled.sort_unstable();
        self.peak_op -= self.cancelled.partition_point(|&c| (c as usize) < self.peak_op);
        let mut cancelled = std::mem::take(&mut self.cancelled).into_iter().peekable();
        let mut i = 0;
        if cancelled.peek().is_some() {
            self.ops.retain(|_| {
                i += 1;
                cancelled.next_if_eq(&(i - 1)).is_none()
            });
        }
    }

    /// Groups that stood before the recording come first.
    fn create_initial(&mut self) {
        let creates = self.groups.initial().iter().map(|&group| Op {
            time: 0,
            slot: 0,
            group,
            cache: CacheId(0),
            cpu: 0,
            node: 0,
            asked: Op::ANY_NODE,
            own: false,
            kind: OpKind::Create,
        });
        let creates: Vec<Op> = creates.collect();
        if self.objects.program.peak > 0 {
            self.peak_op += creates.len();
        }
        self.ops.splice(0..0, creates);
    }

    fn notes(&self, read: &Recording, side: &Sidecar, start: u64, end: u64) -> Vec<String> {
        let mut notes: Vec<String> = read.notes.iter().chain(&side.notes).cloned().collect();
        let mut note = |yes: bool, text: String| {
            if yes {
                notes.push(text);
            }
        };
        let c = &self.counts;
        let recorded = |name: &str| read.events.iter().any(|e| e == name);
        note(
            read.lost > 0,
            format!(
                "perf lost {} events: objects may have leaked into the picture and charges be off; record with larger rings (-m)",
                read.lost
            ),
        );
        note(
            c.out_of_order > 0,
            format!("{} events were out of time order even after merging", c.out_of_order),
        );
        let missing: Vec<&str> =
            ["kmem:kmalloc", "kmem:kfree", "kmem:kmem_cache_alloc", "kmem:kmem_cache_free"]
                .into_iter()
                .filter(|e| !recorded(e))
                .collect();
        note(
            !missing.is_empty(),
            format!("not recorded: {}; those objects are not in the picture", missing.join(", ")),
        );
        let missing: Vec<&str> = [
            "cgroup:cgroup_attach_task",
            "cgroup:cgroup_mkdir",
            "cgroup:cgroup_rmdir",
            "sched:sched_process_fork",
            "sched:sched_process_exit",
        ]
        .into_iter()
        .filter(|e| !recorded(e))
        .collect();
        note(
            !missing.is_empty(),
            format!(
                "not recorded: {}; tasks whose cgroup is not known for that show as (unknown)",
                missing.join(", ")
            ),
        );
        note(
            self.ours == 0 && self.other_hierarchy > 0,
            format!(
                "{} cgroup events are of other hierarchies than the memory controller's; recording.json tells which that is",
                self.other_hierarchy
            ),
        );
        note(
            side.tasks.is_none(),
            "no pids.tsv: the cgroups of tasks older than the recording are not known".into(),
        );
        note(
            self.unknown_owner > 0,
            format!(
                "{} accounted allocations are of tasks whose cgroup is not known: row (unknown)",
                self.unknown_owner
            ),
        );
        note(
            !self.nodes.known(),
            "neither srat.txt nor recording.json tells the memory of the nodes: all objects lie on node 0"
                .into(),
        );
        note(
            self.outside_nodes > 0,
            format!(
                "{} objects lie outside the memory of every node: they are on node 0 here",
                self.outside_nodes
            ),
        );
        note(
            side.sites.is_none() && side.functions.is_none() && read.symbols.is_empty(),
            "neither callsites.tsv nor kallsyms.tsv: the kernel's own owner vectors cannot be told from other objects, \
             nor who pays for a new cgroup's structures"
                .into(),
        );
        // Every function is in the table, but for what the compiler put into its callers.
        for (role, name, effect) in [
            (
                Role::NewGroup,
                "mem_cgroup_css_alloc",
                "a new cgroup's structures are charged to the task that made it",
            ),
            (
                Role::OwnerVector,
                "alloc_slab_obj_exts",
                "the kernel's own owner vectors are replayed as objects",
            ),
        ] {
            note(
                side.functions.is_some() && c.accounted > 0 && !self.sites.knows(role),
                format!("kallsyms.tsv has no {name}: {effect}"),
            );
        }
        note(
            !read.tells_interrupts,
            "the text does not tell interrupts: their objects are charged to the task they hit".into(),
        );
        note(!read.tells_accounted, "this kernel does not tell which kmem_cache objects are accounted; only those with __GFP_ACCOUNT are".into());
        note(self.bad_paths > 0, format!("{} cgroup paths were no paths: left out", self.bad_paths));
        note(
            self.replaced_groups > 0,
            format!(
                "{} cgroups were made again although their removal was not recorded",
                self.replaced_groups
            ),
        );
        note(
            self.odd_sizes > 0,
            format!("{} objects have a size that no slab object has: left out", self.odd_sizes),
        );
        let outside = self.stamps.iter().filter(|s| s.time < start || s.time > end).count();
        note(outside > 0, format!("{outside} time stamps of steady.txt lie outside the recording"));
        notes
    }
}
