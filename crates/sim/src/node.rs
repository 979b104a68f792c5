//! Nodes: while the pods of one together want more processor than it has, each gets a share by its weight.

use crate::pod::{NODE_CORES, NODES};
use crate::world::World;

/// What the pods of one node want, in cores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Node {
    wanted: f64,
    full: bool,
}

pub fn all() -> Vec<Node> {
    vec![Node::default(); usize::from(NODES)]
}

impl World {
    /// A pod wants more or less than before. Nothing else happens while the node has room.
    pub(crate) fn weigh(&mut self, slot: u16) {
        let pod = &mut self.pods[slot as usize];
        let (wanted, node) = (pod.cpu.wanted(), pod.node);
        let (before, from) = std::mem::replace(&mut pod.counted, (wanted, node));
        if before == wanted && from == node {
            return;
        }
        self.nodes[usize::from(from)].wanted -= before;
        let here = &mut self.nodes[usize::from(node)];
        here.wanted += wanted;
        if here.full || here.wanted > NODE_CORES {
            self.share(node);
        }
    }

    /// Divides a node's cores by weight; what one does not want is the others'.
    fn share(&mut self, node: u16) {
        let now = self.events.now();
        let full = self.nodes[usize::from(node)].wanted > NODE_CORES;
        self.nodes[usize::from(node)].full = full;
        let mut left = NODE_CORES;
        let mut weights = 0.0;
        let mut open: Vec<u16> = Vec::new();
        for pod in self.pods.iter().filter(|pod| pod.node == node && pod.inside) {
            open.push(pod.slot);
            weights += pod.profile.cpu_request;
        }
        if full {
            // Those that want less than their share come first; what they leave raises the share of the others.
            let hunger = |slot: &u16| {
                let pod = &self.pods[usize::from(*slot)];
                pod.counted.0 / pod.profile.cpu_request
            };
            open.sort_by(|a, b| hunger(a).total_cmp(&hunger(b)).then(a.cmp(b)));
        }
        for slot in open {
            let pod = &mut self.pods[usize::from(slot)];
            let fair = if weights > 0.0 { left * pod.profile.cpu_request / weights } else { left };
            let granted = if full { pod.counted.0.min(fair) } else { NODE_CORES };
            weights -= pod.profile.cpu_request;
            left -= if full { granted } else { 0.0 };
            // Who wants nothing now may run at once when that changes: the share is made again then.
            let cores = if granted > 0.0 { granted } else { NODE_CORES };
            if pod.cpu.grant(now, cores.min(pod.profile.parallel)) {
                self.plan_processor(slot);
            }
        }
    }
}
