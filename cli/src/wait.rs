// SPDX-License-Identifier: GPL-2.0-only
//! Waiting with a time limit.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::interrupt;
use crate::output::warn;
use crate::process::run_quietly;

/// How long udev may take to make device nodes.
pub const NODES: Duration = Duration::from_secs(5);
/// How long a process that only probes a device may take, as udev does.
pub const PROBES: Duration = Duration::from_secs(1);

/// Polls a condition, at growing intervals, until a signal comes. Returns
/// whether it became true.
pub fn until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let mut done = false;
    despite_signals(limit, || {
        done = so();
        done || interrupt::has_come()
    });
    done
}

/// Polls a condition, at growing intervals, also when a signal has come: to put
/// things back. Returns whether it became true.
pub fn despite_signals(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
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

/// Parses an interval in seconds: "2", "0.5".
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            format!("'{text}' is not an interval: give 0.1 to 3600 seconds")
        })
}

/// Waits until udev, if it runs, has processed what has happened so far.
/// Returns whether it runs.
pub fn for_udev(limit: Duration) -> bool {
    let runs = Path::new("/run/udev/control").exists();
    if runs {
        // If it gave up, so does the caller, or tries without.
        let _ = run_quietly(
            Command::new("udevadm")
                .args(["settle", &format!("--timeout={}", limit.as_secs())]),
        );
    }
    runs
}

/// Waits until the partitions of a device have their nodes and udev, if it
/// runs, has processed them. Before that their permissions and links are not
/// final, and a partition may go away and come back while udev rescans the
/// device.
pub fn for_partitions(device: Device) {
    // The check below notices if it gave up.
    let udev = for_udev(NODES);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        for text in ["", "0", "-1", "NaN", "inf", "3601", "1s"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
