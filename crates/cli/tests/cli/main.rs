//! The command from outside: a process, its streams, its files, its exit code.

mod fidelity;
mod formats;
mod inputs;
mod interrupt;
mod outputs;
mod plan;
mod record;
mod scenario;
mod script;
mod support;
mod terminal;
