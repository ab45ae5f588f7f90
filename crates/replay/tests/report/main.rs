//! The views of a report, on reports made by hand: what a terminal, a program and a browser are given.

mod browser;
mod fixture;
mod page;
mod records;
mod terminal;
