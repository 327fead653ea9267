//! The plan as a drawing: stages as boxes that hold their operators, the result on top.

mod draw;
mod layout;

pub(super) use draw::draw;
