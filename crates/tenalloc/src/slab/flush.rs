//! What a cache keeps out of its slabs, ready and in sheaves, back into them: apart from `path`, which puts one object away.

use super::cache::Record;
use super::sheaf::Sheaf;
use crate::controller::Inner;

impl Inner {
    /// Returns a sheaf's objects to their slabs until `keep` are left. All are of the CPU's node.
    pub(super) fn flush(&self, record: &Record, node: u8, sheaf: Sheaf, keep: usize) {
        let rest = core::iter::from_fn(|| if sheaf.len() > keep { sheaf.pop() } else { None });
        record.put_all_back(self, node, false, rest);
    }

    /// Returns what a cache has ready and in sheaves to its slabs, those of every CPU and in barns.
    pub(crate) fn flush_cache(&self, record: &Record) {
        self.flush_all(record, |_| {});
    }

    fn flush_all(&self, record: &Record, each: impl Fn(u16)) {
        let mut all = self.areas.lock_all();
        let back = |owner, bytes| self.return_to_tree(owner, bytes);
        self.take_ready(&mut all, record, back, |node, object| {
            record.put_all_back(self, node, false, core::iter::once(object));
        });
        for (cpu, node) in all.cpus() {
            // SAFETY: the area is locked.
            if let Some(sheaf) = unsafe { record.sheaf(cpu) } {
                self.flush(record, node, sheaf, 0);
            }
            each(cpu);
        }
        self.empty_barns(record);
        drop(all);
        self.settle();
    }

    /// With all areas locked, so that nothing comes to a barn meanwhile.
    fn empty_barns(&self, record: &Record) {
        for node in 0..self.topology.nodes() {
            while let Some(sheaf) = record.take_from_barn(node) {
                self.flush(record, node, sheaf, 0);
                // SAFETY: empty, and out of the barn.
                unsafe { sheaf.destroy(&self.meta) };
            }
        }
    }

    /// Takes every sheaf of a cache away.
    pub(crate) fn drop_sheaves(&self, record: &Record) {
        // SAFETY: the area is locked when this is called, and the sheaf was emptied.
        self.flush_all(record, |cpu| unsafe {
            if let Some(sheaf) = record.sheaf(cpu) {
                record.set_sheaf(cpu, None);
                sheaf.destroy(&self.meta);
            }
        });
    }
}
