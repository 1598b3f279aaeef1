// SPDX-License-Identifier: GPL-2.0-only
//! Waiting for things that happen soon, or never.

use std::path::Path;
use std::process::{Command, Stdio};
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

/// Waits until the partitions of a device have their nodes, and udev, if there is one, has dealt
/// with them: before that their permissions and links are not what they will be, and a partition
/// may go away once more while udev has the kernel look again.
pub fn for_partitions(device: Device) {
    let udev = Path::new("/run/udev/control").exists();
    if udev {
        // That it gave up shows below.
        let _ = Command::new("udevadm")
            .args(["settle", &format!("--timeout={}", NODES.as_secs())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
    let ready = until(NODES, || {
        device.partitions().iter().all(|partition| {
            let known = format!("/run/udev/data/b{}", partition.id);
            partition.node.exists() && (!udev || Path::new(&known).exists())
        })
    });
    if !ready {
        let node = device.node();
        warn(&format!(
            "{}: not all of its partitions have their nodes yet",
            node.display()
        ));
    }
}
