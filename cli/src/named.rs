// SPDX-License-Identifier: GPL-2.0-only
//! The names that devices have from `/etc/flooptab`.
//!
//! A file in /run, named by the disk sequence number, has the name of the
//! device that was attached under that number. The udev rules make
//! /dev/floop/NAME from it. Each attach and detach changes the number, so a
//! name never stays with a device that has another image.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::device::{self, Attachment, Device};
use crate::wait;

/// The files' folder; the udev rules have it, too.
const FOLDER: &str = "/run/flooptab";
/// How long udev may take to make a link while the machine boots.
const LINKS: Duration = Duration::from_secs(30);

/// The stable path of a name.
pub fn link(name: &str) -> String {
    format!("/dev/floop/{name}")
}

fn record(sequence: u64) -> PathBuf {
    Path::new(FOLDER).join(sequence.to_string())
}

fn content(name: &str) -> String {
    format!("FLOOP_NAME={name}\n")
}

/// The device that has a name.
pub fn find(name: &str) -> Option<Attachment> {
    let wanted = content(name);
    device::attached().into_iter().find(|attachment| {
        attachment.sequence.is_some_and(|sequence| {
            fs::read_to_string(record(sequence)).is_ok_and(|is| is == wanted)
        })
    })
}

/// Names a device.
pub fn set(device: Device, name: &str) -> io::Result<()> {
    let sequence = device.sequence().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(FOLDER)?;
    let new = Path::new(FOLDER).join(format!(".{name}"));
    fs::write(&new, content(name))?;
    fs::rename(&new, record(sequence))
}

/// Removes the records of a name.
pub fn remove(name: &str) {
    let wanted = content(name);
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        if fs::read_to_string(entry.path()).is_ok_and(|is| is == wanted) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Has udev make the links of a device, and waits for the first one. Returns
/// whether it is there, or nobody makes any.
pub fn announce(device: Device, name: &str) -> bool {
    let parts = device.partitions().into_iter().map(|part| part.sysfs);
    for folder in [device.sysfs()].into_iter().chain(parts) {
        let _ = fs::write(folder.join("uevent"), "change");
    }
    if !Path::new("/run/udev/control").exists() {
        return true;
    }
    wait::until(LINKS, || {
        fs::canonicalize(link(name)).is_ok_and(|path| path == device.node())
    })
}
