//! An engine with memory of its own uses groups for counting and limits only: nothing is allocated here.
//!
//! ```text
//! cargo run -p tenalloc --example charge_only
//! ```
//!
//! Each query charges what its buffers take to its tenant, before it makes them. The tenant's limit, and that of all
//! tenants together, stop it in time; the error says which of the two it was, and who holds most.

use tenalloc::{Config, Controller, Error, Group, Owner};

/// Buffers of a query: their bytes are charged as long as it lives, whoever drops it.
struct Buffers {
    owner: Owner,
    memory: Vec<u8>,
}

impl Buffers {
    fn new(tenant: &Group, bytes: usize) -> Result<Self, Error> {
        let owner = tenant.owner();
        owner.try_charge(bytes as u64)?;
        Ok(Self { owner, memory: vec![0; bytes] })
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.owner.uncharge(self.memory.len() as u64);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctl = Controller::new(Config::new())?;
    let tenants = ctl.root().create("tenants")?;
    tenants.set_max(10 << 20);
    let (a, b) = (tenants.create("a")?, tenants.create("b")?);
    a.set_max(4 << 20);

    let mut running = Vec::new();
    let error = loop {
        match Buffers::new(&a, 1 << 20) {
            Ok(buffers) => running.push(buffers),
            Err(error) => break error,
        }
    };
    println!("a ran {} queries, then: {error}", running.len());
    let error = loop {
        match Buffers::new(&b, 1 << 20) {
            Ok(buffers) => running.push(buffers),
            Err(error) => break error,
        }
    };
    println!("all together ran {}, then: {error}", running.len());

    // A tenant goes while its queries run: their bytes are the parent's until they end.
    a.remove()?;
    println!("a is gone; the tenants hold {} MiB", tenants.exact() >> 20);
    drop(running);
    println!("and now {} MiB", tenants.exact() >> 20);
    Ok(())
}
