//! Waiting for things that happen soon, or never.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::output::warn;

/// How long device nodes may take to appear: udev can be busy.
pub const NODES: Duration = Duration::from_secs(5);

/// Waits until something is so, looking ever less often; whether it came to be so in time.
pub fn until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if so() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        sleep(pause.min(limit.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Waits until the nodes of a device and its partitions are there, and udev, if there is one, has
/// dealt with the partitions.
pub fn for_nodes(device: Device) {
    let partitions = device.partitions();
    let udev = Path::new("/run/udev/control").exists();
    let ready = until(NODES, || {
        device.node().exists()
            && partitions.iter().all(|partition| {
                let known = format!("/run/udev/data/b{}", partition.id);
                partition.node.exists() && (!udev || Path::new(&known).exists())
            })
    });
    if !ready {
        let node = device.node();
        warn(&format!("{}: udev has not made all of its partitions' nodes yet", node.display()));
    }
}
