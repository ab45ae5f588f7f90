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
    /// The machine's: possible CPUs and nodes, as `/sys/devices/system` tells them (one node if unreadable).
    pub fn detect() -> Self {
        let cpus = number(b"/sys/devices/system/cpu/possible\0").min(MAX_CPUS.into()) as u16;
        let nodes = number(b"/sys/devices/system/node/possible\0").min(MAX_NODES.into()) as u8;
        // SAFETY: sysconf has no preconditions.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let online = u16::try_from(online).unwrap_or(1).min(MAX_CPUS);
        Self { cpus: cpus.max(online), nodes, simulated: false, map: None }
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

    /// The CPU that the caller is on.
    pub(crate) fn here(&self, pretended: &AtomicU32) -> u16 {
        let cpu = if self.simulated {
            pretended.load(Relaxed)
        } else {
            // SAFETY: no preconditions; glibc answers without a system call.
            unsafe { libc::sched_getcpu() }.max(0) as u32
        };
        cpu as u16 % self.cpus
    }

    /// Tells the node of each CPU. (One that is plugged in later is taken for one of node 0.)
    pub(crate) fn for_each_cpu(&self, mut tell: impl FnMut(u16, u8)) {
        if self.simulated {
            return (0..self.cpus).for_each(|cpu| tell(cpu, self.node_of(cpu)));
        }
        for node in 0..self.nodes {
            let mut path = *b"/sys/devices/system/node/node00/cpulist\0";
            let (tens, ones) = (b'0' + node / 10, b'0' + node % 10);
            let mut text = [0u8; 1024];
            if tens > b'0' {
                (path[29], path[30]) = (tens, ones);
            } else {
                path[29] = ones;
                path.copy_within(31.., 30);
            }
            let n = read(&path, &mut text);
            for_each_of_list(&text[..n], |cpu| {
                if let Some(cpu) = u16::try_from(cpu).ok().filter(|cpu| *cpu < self.cpus) {
                    tell(cpu, node);
                }
            });
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated
    }
}

/// Reads a file of the system; nothing where that is not possible. `path` ends with a NUL.
fn read(path: &[u8], to: &mut [u8]) -> usize {
    // SAFETY: the path is NUL-terminated, the buffer is ours, the descriptor is closed again.
    unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let n = libc::read(fd, to.as_mut_ptr().cast(), to.len());
        libc::close(fd);
        n.max(0) as usize
    }
}

/// One more than the last number of a list like `0-3` or `0,2-5` in a file of the system; 1 if there is none.
fn number(path: &[u8]) -> u32 {
    let mut text = [0u8; 1024];
    let n = read(path, &mut text);
    let mut last = 0;
    for_each_of_list(&text[..n], |number| last = last.max(number));
    last + 1
}

/// Calls `each` for the numbers of a list like `0-3` or `0,2-5`.
fn for_each_of_list(text: &[u8], mut each: impl FnMut(u32)) {
    let (mut first, mut number) = (None, None);
    for &b in text.iter().chain(b"\n") {
        match b {
            b'0'..=b'9' => {
                number = Some(number.unwrap_or(0u32).saturating_mul(10).saturating_add(u32::from(b - b'0')));
            }
            b'-' => first = number.take(),
            _ => {
                if let Some(last) = number.take().filter(|last| *last < u32::from(MAX_CPUS)) {
                    (first.take().unwrap_or(last)..=last).for_each(&mut each);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_read() {
        let all = |text: &[u8]| {
            let (mut all, mut n) = ([0; 12], 0);
            for_each_of_list(text, |number| {
                all[n] = number;
                n += 1;
            });
            (all, n)
        };
        let expected = |numbers: &[u32]| {
            let mut all = [0; 12];
            all[..numbers.len()].copy_from_slice(numbers);
            (all, numbers.len())
        };
        assert_eq!(all(b"0\n"), expected(&[0]));
        assert_eq!(all(b"0-3\n"), expected(&[0, 1, 2, 3]));
        assert_eq!(all(b"0,2-4,11"), expected(&[0, 2, 3, 4, 11]));
        assert_eq!(all(b"\n"), expected(&[]));
        assert_eq!(all(b"99999999999\n"), expected(&[]));
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
