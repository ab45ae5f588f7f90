//! Every generation against one plain model, and the exact bytes of each.

mod bytes;
mod model;
