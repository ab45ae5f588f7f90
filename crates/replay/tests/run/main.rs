//! Every recorded trace through every design: the report's counts are those of the traces' README, and every design
//! charges what the kernel did, for as many cgroups as that README says.

mod expected;
mod traces;
