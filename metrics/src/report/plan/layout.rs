//! Where everything stands in the drawing of a plan.
//!
//! A plan is a tree, and every node gets a strip of its own, as wide as all that is below it. A
//! stage's box starts below the end of the box that reads it, so that boxes never meet; what a
//! boundary reads stands straight below the boundary.

use std::collections::BTreeMap;

use crate::{QueryProfile, StageProfile};

pub(super) const NODE_WIDTH: i32 = 196;
pub(super) const NODE_HEIGHT: i32 = 60;
/// Between a node and those that it reads: room for the number of rows.
const NODE_GAP: i32 = 36;
/// Between nodes side by side; more than twice the padding, so that their boxes do not touch.
const STRIP_GAP: i32 = 40;
const PADDING: i32 = 12;
/// The band at the top of a box that names the stage.
pub(super) const HEADER: i32 = 28;
/// A row of flags under the name.
pub(super) const FLAG_ROW: i32 = 22;
/// Between a box and the one that reads it: room for rows and bytes.
const STAGE_GAP: i32 = 50;
/// Around everything, for outlines.
const MARGIN: i32 = 4;

/// The centre of a node's upper edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) x: i32,
    pub(super) y: i32,
}

impl Place {
    pub(super) fn bottom(self) -> i32 {
        self.y + NODE_HEIGHT
    }
}

/// The box of a stage.
#[derive(Debug)]
pub(super) struct StageBox {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) stages: BTreeMap<usize, StageBox>,
    pub(super) nodes: BTreeMap<(usize, usize), Place>,
}

impl Layout {
    /// `flag_rows` says how many rows of flags a stage has.
    pub(super) fn of(profile: &QueryProfile, flag_rows: impl Fn(usize) -> i32) -> Self {
        let mut tree = Tree {
            profile,
            children: BTreeMap::new(),
            owner: BTreeMap::new(),
            widths: BTreeMap::new(),
            flag_rows,
            layout: Self::default(),
        };
        tree.connect();
        let mut left = MARGIN + PADDING;
        for stage in &profile.stages {
            // All but the top are placed by what reads them; a stage that nobody reads stands beside.
            if !tree.owner.contains_key(&stage.id) {
                tree.place_stage(stage, left, MARGIN);
                left += tree.widths[&(stage.id, 0)] + STRIP_GAP;
            }
        }
        let mut layout = tree.layout;
        let boxes = layout.stages.values();
        layout.width = boxes.clone().map(|at| at.x + at.width).max().unwrap_or(0) + MARGIN;
        layout.height = boxes.map(|at| at.y + at.height).max().unwrap_or(0) + MARGIN;
        layout
    }
}

type Key = (usize, usize);

struct Tree<'a, F> {
    profile: &'a QueryProfile,
    children: BTreeMap<Key, Vec<Key>>,
    /// Of each stage that is read, the first boundary that reads it: below that one it stands.
    owner: BTreeMap<usize, Key>,
    widths: BTreeMap<Key, i32>,
    flag_rows: F,
    layout: Layout,
}

impl<F: Fn(usize) -> i32> Tree<'_, F> {
    /// Finds the children of all nodes, across stages, and the width of their strips.
    fn connect(&mut self) {
        for stage in &self.profile.stages {
            for (index, node) in stage.nodes.iter().enumerate() {
                let key = (stage.id, index);
                if let Some(parent) = node.parent {
                    let siblings = self.children.entry((stage.id, parent)).or_default();
                    siblings.push(key);
                }
                if let Some(read) = node.reads {
                    self.owner.entry(read).or_insert(key);
                }
            }
        }
        for (stage, owner) in &self.owner {
            self.children.entry(*owner).or_default().push((*stage, 0));
        }
        // Stages read stages of lower ids, and nodes nodes of higher indices, except for the
        // coordinator, which reads all: it goes last.
        let (top, remote) = self.profile.stages.split_at(1);
        for stage in remote.iter().chain(top) {
            for index in (0..stage.nodes.len()).rev() {
                let below = self.children.get(&(stage.id, index)).into_iter().flatten();
                let widths = below.map(|key| self.widths[key] + STRIP_GAP).sum::<i32>();
                let width = (widths - STRIP_GAP).max(NODE_WIDTH);
                self.widths.insert((stage.id, index), width);
            }
        }
    }

    /// Places a stage and all that it reads, from `left` on, with its box starting at `top`.
    fn place_stage(&mut self, stage: &StageProfile, left: i32, top: i32) {
        let first = top + HEADER + FLAG_ROW * (self.flag_rows)(stage.id);
        let mut lefts = BTreeMap::from([(0, left)]);
        let mut read = Vec::new();
        for index in 0..stage.nodes.len() {
            let mut left = lefts.get(&index).copied().unwrap_or(left);
            for child in self.children.get(&(stage.id, index)).into_iter().flatten() {
                if child.0 == stage.id {
                    lefts.insert(child.1, left);
                } else {
                    read.push((child.0, left));
                }
                left += self.widths[child] + STRIP_GAP;
            }
        }
        let deepest = stage.nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        let height = |depth: usize| (NODE_HEIGHT + NODE_GAP) * depth as i32;
        let bottom = first + height(deepest) + NODE_HEIGHT + PADDING;
        for (id, left) in read {
            if let Some(below) = self.profile.stage(id) {
                self.place_stage(below, left, bottom + STAGE_GAP);
            }
        }
        for index in (0..stage.nodes.len()).rev() {
            let below = self.children.get(&(stage.id, index)).into_iter().flatten();
            let centres = below.map(|child| self.layout.nodes[child].x);
            let (least, most) = (centres.clone().min(), centres.max());
            let left = lefts.get(&index).copied().unwrap_or(left);
            let x = match least.zip(most) {
                Some((least, most)) => i32::midpoint(least, most),
                None => left + NODE_WIDTH / 2,
            };
            let y = first + height(stage.nodes[index].depth);
            self.layout.nodes.insert((stage.id, index), Place { x, y });
        }
        let nodes = (0..stage.nodes.len()).map(|index| self.layout.nodes[&(stage.id, index)].x);
        let (least, most) = (nodes.clone().min(), nodes.max());
        let x = least.unwrap_or(left) - NODE_WIDTH / 2 - PADDING;
        let right = most.unwrap_or(left) + NODE_WIDTH / 2 + PADDING;
        let at = StageBox {
            x,
            y: top,
            width: right - x,
            height: bottom - top,
        };
        self.layout.stages.insert(stage.id, at);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    /// A stage of joins all down to `depth`, whose leaves read the stages that are left of `next`.
    fn stage(depth: usize, next: &mut usize, all: &mut Vec<Value>) -> usize {
        let mut nodes = Vec::new();
        grow(0, depth, None, &mut nodes);
        let leaves: Vec<usize> = (0..nodes.len())
            .filter(|&at| nodes[at]["depth"] == depth)
            .collect();
        for leaf in leaves {
            if depth > 1 {
                nodes[leaf]["reads"] = json!(stage(depth - 1, next, all));
            }
        }
        *next += 1;
        all.push(json!({ "id": *next, "tasks": 1, "nodes": nodes,
            "boundary": { "kind": "shuffle", "name": "NetworkShuffleExec" } }));
        *next
    }

    fn grow(depth: usize, to: usize, parent: Option<usize>, nodes: &mut Vec<Value>) {
        let index = nodes.len();
        nodes.push(json!({ "depth": depth, "parent": parent, "name": "Node", "text": "Node" }));
        // Lopsided: every second join has but one side.
        for _ in 0..if depth == to { 0 } else { 1 + index % 2 } {
            grow(depth + 1, to, Some(index), nodes);
        }
    }

    fn profile(depth: usize) -> QueryProfile {
        let mut stages = Vec::new();
        let last = stage(depth, &mut 0, &mut stages);
        stages.insert(
            0,
            json!({ "id": 0, "tasks": 0, "nodes": [
            { "depth": 0, "name": "Node", "text": "Node", "reads": last } ] }),
        );
        let profile = json!({ "format": "flightpath-profile", "version": 1, "status": "planned",
            "duration_ns": 0, "output_rows": 0, "workers": [], "tasks": [], "coordinator": [[]],
            "stages": stages });
        QueryProfile::from_json(&profile.to_string()).unwrap()
    }

    fn meet(one: &StageBox, other: &StageBox) -> bool {
        one.x < other.x + other.width
            && other.x < one.x + one.width
            && one.y < other.y + other.height
            && other.y < one.y + one.height
    }

    #[test]
    fn boxes_never_meet_and_hold_their_nodes() {
        for depth in 1..=4 {
            let profile = profile(depth);
            let layout = Layout::of(&profile, |stage| (stage % 3) as i32);
            let boxes: Vec<&StageBox> = layout.stages.values().collect();
            assert_eq!(boxes.len(), profile.stages.len());
            for (index, one) in boxes.iter().enumerate() {
                assert!(one.x >= 0 && one.x + one.width <= layout.width);
                assert!(one.y >= 0 && one.y + one.height <= layout.height);
                let met = boxes[index + 1..].iter().find(|other| meet(one, other));
                assert!(met.is_none(), "{one:?} meets {met:?}");
            }
            for ((stage, node), place) in &layout.nodes {
                let at = &layout.stages[stage];
                let (left, right) = (place.x - NODE_WIDTH / 2, place.x + NODE_WIDTH / 2);
                assert!(
                    at.x < left && right < at.x + at.width,
                    "{stage}.{node} sticks out"
                );
                assert!(at.y < place.y && place.bottom() < at.y + at.height);
            }
        }
    }

    #[test]
    fn nodes_of_a_stage_do_not_overlap_and_stand_below_their_readers() {
        let profile = profile(4);
        let layout = Layout::of(&profile, |_| 0);
        for stage in &profile.stages {
            let at = |index: usize| layout.nodes[&(stage.id, index)];
            for (index, node) in stage.nodes.iter().enumerate() {
                if let Some(parent) = node.parent {
                    assert!(at(parent).bottom() < at(index).y);
                }
                if let Some(read) = node.reads {
                    assert_eq!(layout.nodes[&(read, 0)].x, at(index).x);
                    assert!(at(index).bottom() < layout.stages[&read].y);
                }
                for other in 0..index {
                    let apart = (at(other).x - at(index).x).abs() >= NODE_WIDTH;
                    assert!(
                        apart || at(other).y != at(index).y,
                        "{other} overlaps {index}"
                    );
                }
            }
        }
    }
}
