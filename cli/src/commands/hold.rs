// SPDX-License-Identifier: GPL-2.0-only
//! `floop hold`: the process that `attach --autoclear` leaves behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::setsid;

use crate::device::{DevId, Device};
use crate::error::{Error, Exit, Result};
use crate::users::{self, Process};

/// How long to wait for the first user.
const LIMIT: Duration = Duration::from_secs(60);
/// How often to look for one.
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps the device open until it has a user.
pub fn run() -> Result<()> {
    // The name that fuser and ps show.
    let _ = fs::write("/proc/self/comm", "floop-hold");
    // Don't end with the terminal. It fails for the leader of a process group
    // only, as systemd starts it, and that has no terminal.
    let _ = setsid();
    let wrong = || {
        let cause = "hold: standard input is not an attached device";
        Error::general(Exit::Usage, cause)
            .hint("only attach --autoclear starts it")
    };
    let metadata = fs::metadata("/proc/self/fd/0").map_err(|_| wrong())?;
    let id = DevId::from_stat(metadata.rdev());
    let name = id
        .sysfs()
        .and_then(|folder| Some(folder.file_name()?.to_str()?.to_owned()));
    let device: Device =
        name.and_then(|name| name.parse().ok()).ok_or_else(wrong)?;
    let sequence = device.sequence();
    let start = Instant::now();
    let mut before: Vec<Process> = Vec::new();
    while start.elapsed() < LIMIT
        && device.is_attached()
        && device.sequence() == sequence
    {
        sleep(PAUSE);
        let users = users::of(device);
        if users.are_lasting()
            || users.processes.iter().any(|user| before.contains(user))
        {
            break;
        }
        // udev, which probes every new device, is no user.
        before = users.processes;
        before.retain(|process| !is_udev(&process.command));
    }
    Ok(())
}

fn is_udev(command: &str) -> bool {
    command.contains("udev") || command == "blkid"
}
