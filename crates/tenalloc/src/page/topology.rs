//! Which nodes and CPUs there are.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// CPUs and NUMA nodes, the machine's or made up.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    cpus: u16,
    nodes: u8,
    simulated: bool,
    /// The node of each CPU of a simulated machine, where it is not dealt out in blocks.
    map: Option<&'static [u8]>,
}

/// Largest number of nodes.
pub(crate) const MAX_NODES: u8 = 64;
/// Largest number of CPUs.
pub(crate) const MAX_CPUS: u16 = 4096;

impl Topology {
    /// The machine's: configured CPUs, and the nodes of `/sys/devices/system/node/possible` (one if unreadable).
    pub fn detect() -> Self {
        // SAFETY: sysconf has no preconditions.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let cpus = u16::try_from(cpus).unwrap_or(1).clamp(1, MAX_CPUS);
        Self { cpus, nodes: possible_nodes().clamp(1, MAX_NODES), simulated: false, map: None }
    }

    /// A made-up machine: CPUs are dealt out to nodes in equal blocks, node 0 first, and the current CPU is
    /// what [`Controller::set_cpu`](crate::Controller::set_cpu) says (0 before). Clamped to 1..=4096 CPUs
    /// and 1..=64 nodes.
    pub fn simulated(nodes: u8, cpus: u16) -> Self {
        Self { cpus: cpus.clamp(1, MAX_CPUS), nodes: nodes.clamp(1, MAX_NODES), simulated: true, map: None }
    }

    /// As [`simulated`](Self::simulated), with one CPU for each entry of `cpu_node`, on that node.
    pub fn simulated_with(nodes: u8, cpu_node: &'static [u8]) -> Self {
        let cpus = u16::try_from(cpu_node.len()).unwrap_or(u16::MAX);
        Self { map: Some(cpu_node), ..Self::simulated(nodes, cpus) }
    }

    /// CPUs that may exist.
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Nodes that may exist.
    pub fn nodes(&self) -> u8 {
        self.nodes
    }

    /// The node of `cpu` on a simulated machine.
    pub fn node_of(&self, cpu: u16) -> u8 {
        match self.map.and_then(|map| map.get(usize::from(cpu))) {
            Some(node) => *node % self.nodes,
            None => (u32::from(cpu) * u32::from(self.nodes) / u32::from(self.cpus)) as u8,
        }
    }

    /// The CPU and node that the caller is on.
    pub(crate) fn here(&self, pretended: &AtomicU32) -> (u16, u8) {
        if self.simulated {
            let cpu = pretended.load(Relaxed) as u16 % self.cpus;
            return (cpu, self.node_of(cpu));
        }
        let (mut cpu, mut node) = (0u32, 0u32);
        if self.nodes == 1 {
            // SAFETY: no preconditions; glibc answers from the restartable-sequence area without a system call.
            cpu = unsafe { libc::sched_getcpu() }.max(0) as u32;
        } else {
            // SAFETY: both pointers are to live u32s; the third argument is unused since Linux 2.6.24.
            unsafe { libc::syscall(libc::SYS_getcpu, &mut cpu, &mut node, 0usize) };
        }
        ((cpu % u32::from(self.cpus)) as u16, (node % u32::from(self.nodes)) as u8)
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated
    }
}

/// The last number of a list like `0-3` or `0,2-5`, plus one.
fn possible_nodes() -> u8 {
    let mut buf = [0u8; 128];
    // SAFETY: the path is NUL-terminated, the buffer is ours, the descriptor is closed again.
    let n = unsafe {
        let fd = libc::open(c"/sys/devices/system/node/possible".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 1;
        }
        let n = libc::read(fd, buf.as_mut_ptr().cast(), buf.len());
        libc::close(fd);
        n
    };
    last_of_list(&buf[..n.max(0) as usize])
}

fn last_of_list(text: &[u8]) -> u8 {
    let mut last = 0u32;
    let mut number = 0u32;
    for &b in text {
        number = match b {
            b'0'..=b'9' => number.saturating_mul(10).saturating_add(u32::from(b - b'0')),
            _ => 0,
        };
        last = last.max(number);
    }
    u8::try_from(last + 1).unwrap_or(MAX_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(last_of_list(b"0\n"), 1);
        assert_eq!(last_of_list(b"0-3\n"), 4);
        assert_eq!(last_of_list(b"0,2-11\n"), 12);
        assert_eq!(last_of_list(b""), 1);
    }

    #[test]
    fn cpus_are_dealt_out_in_blocks() {
        let t = Topology::simulated(4, 8);
        assert!((0..8).map(|c| t.node_of(c)).eq([0, 0, 1, 1, 2, 2, 3, 3]));
        assert_eq!(Topology::simulated(0, 0).cpus(), 1);
        let t = Topology::simulated_with(2, &[1, 0, 1]);
        assert!((0..3).map(|c| t.node_of(c)).eq([1, 0, 1]));
    }
}
