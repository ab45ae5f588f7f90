//! Controllers: made, shared, trimmed, and asked what machine they see.

use crate::error::{Failure, call, figure};
use crate::handle::Transparent;
use crate::handle::{self, Out, controller, given, open, ten_cache, ten_controller, ten_group};
use core::ffi::{c_int, c_void};
use tenalloc::{Config, Controller, Group, OutOfMemory, Topology, Verdict};

/// Decides when a limit was hit and reclaim did not help. C's, in place as long as the controller.
#[derive(Debug)]
#[repr(C)]
pub struct ten_oom {
    /// True: memory was given up, try again.
    pub decide: Option<extern "C" fn(&ten_oom, &ten_group, u64) -> bool>,
    /// The program's own.
    pub arg: *mut c_void,
}

// SAFETY: C promises that its callback may be called from any thread.
unsafe impl Sync for ten_oom {}

impl OutOfMemory for ten_oom {
    fn out_of_memory(&self, group: &Group, wanted: u64) -> Verdict {
        match self.decide {
            Some(decide) if decide(self, ten_group::lend(group), wanted) => Verdict::Retry,
            _ => Verdict::Fail,
        }
    }
}

/// What a controller is made from.
#[derive(Debug)]
#[repr(C)]
pub struct ten_config {
    /// Bytes of this struct as C knows it.
    pub struct_size: usize,
    /// Owner vectors from the first object on; below 0: as the library was built.
    pub hardened: c_int,
    /// Red zones and poison in every cache.
    pub debug: c_int,
    /// Charges go to the tree one by one.
    pub exact_charges: c_int,
    /// A charge above `high` does not make its thread wait.
    pub no_sleep: c_int,
    /// A made-up machine of so many NUMA nodes, 0: the machine's.
    pub nodes: u32,
    /// CPUs of that machine.
    pub cpus: u32,
    /// Who decides when nothing helps; may be NULL.
    pub oom: *const ten_oom,
}

/// # Safety
/// As in the header: the struct and its policy are C's, valid as long as is said there.
unsafe fn config(c: *const ten_config) -> Result<Config, Failure> {
    let mut config = Config::new();
    // SAFETY: the caller's promise.
    let Some(c) = (unsafe { c.as_ref() }) else { return Ok(config) };
    if c.struct_size < size_of::<ten_config>() {
        return Err(Failure::Value("struct_size"));
    }
    if c.hardened >= 0 {
        config = config.hardened(c.hardened != 0);
    }
    config = config.debug(c.debug != 0).exact_charges(c.exact_charges != 0).sleep(c.no_sleep == 0);
    if c.nodes > 0 {
        let nodes = u8::try_from(c.nodes).map_err(|_| Failure::Value("nodes"))?;
        let cpus = u16::try_from(c.cpus).map_err(|_| Failure::Value("cpus"))?;
        config = config.topology(Topology::simulated(nodes, cpus));
    }
    // SAFETY: the header asks that a policy stays as long as the controller.
    if let Some(oom) = unsafe { c.oom.as_ref() } {
        config = config.out_of_memory(oom);
    }
    Ok(config)
}

/// A new controller; NULL: the usual configuration.
///
/// # Safety
/// `c` is NULL or points to a configuration whose policy stays as long as the controller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_controller_new(c: *const ten_config, out: Out<'_, ten_controller>) -> c_int {
    // SAFETY: the caller's promise.
    call(|| open(out, || Ok(Controller::new(unsafe { config(c) }?)?)))
}

/// A handle to the process's own controller.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_global(out: Out<'_, ten_controller>) -> c_int {
    call(|| open(out, || Ok(Controller::global()?.clone())))
}

/// One more handle.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_dup(ctl: Option<&ten_controller>, out: Out<'_, ten_controller>) -> c_int {
    call(|| open(out, || Ok(controller(ctl)?.clone())))
}

/// Ends a handle.
///
/// # Safety
/// It is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ten_controller_close(ctl: *mut ten_controller) {
    // SAFETY: the caller's promise.
    unsafe { handle::close(ctl) }
}

/// Gives back what is free.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_trim(ctl: Option<&ten_controller>) -> u64 {
    figure(0, || Ok(controller(ctl)?.trim()))
}

/// CPUs that may exist.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_cpus(ctl: Option<&ten_controller>) -> u32 {
    figure(0, || Ok(controller(ctl)?.topology().cpus().into()))
}

/// NUMA nodes that may exist.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_nodes(ctl: Option<&ten_controller>) -> u32 {
    figure(0, || Ok(controller(ctl)?.topology().nodes().into()))
}

/// On a made-up machine: every thread runs on that CPU from now on.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_set_cpu(ctl: Option<&ten_controller>, cpu: u32) -> c_int {
    call(|| {
        controller(ctl)?.set_cpu(u16::try_from(cpu).map_err(|_| Failure::Value("cpu"))?);
        Ok(())
    })
}

/// How far `current` may run ahead of `exact` for each CPU, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn ten_slack_per_cpu() -> u64 {
    Controller::SLACK_PER_CPU
}

/// Shows every cache, newest first, until `each` says false.
#[unsafe(no_mangle)]
pub extern "C" fn ten_controller_caches(
    ctl: Option<&ten_controller>,
    each: Option<extern "C" fn(&ten_cache, *mut c_void) -> bool>,
    arg: *mut c_void,
) -> c_int {
    call(|| {
        let each = *given(each.as_ref(), "each")?;
        controller(ctl)?.caches().all(|cache| each(ten_cache::lend(&cache), arg));
        Ok(())
    })
}
