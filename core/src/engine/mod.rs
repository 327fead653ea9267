//! What runs distributed plans: the workers, and the ways to them.

pub mod resolver;
