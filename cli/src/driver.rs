// SPDX-License-Identifier: GPL-2.0-only
//! Choosing the driver to attach with.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::geteuid;

use crate::cli::DriverChoice;
use crate::device::{self, Family};
use crate::error::{Error, Exit, Result};
use crate::process::run_quietly;

/// A loaded driver, by its control node.
#[derive(Debug)]
pub struct Control {
    /// The devices that it makes.
    pub family: Family,
    /// The control node's path.
    pub path: PathBuf,
    /// The control node, open.
    pub file: File,
}

impl Control {
    /// Whether it is floop, under its own name or the loop driver's.
    pub fn is_floop(&self) -> bool {
        self.family == Family::Floop || device::is_drop_in()
    }
}

fn control_path(family: Family) -> PathBuf {
    Path::new("/dev").join(format!("{}-control", family.name()))
}

/// Opens a driver's control node; `None` if the driver is not loaded.
///
/// If the node was made ahead of the module, opening it loads the module.
fn open(family: Family) -> Result<Option<Control>> {
    let path = control_path(family);
    match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => Ok(Some(Control { family, path, file })),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::os(&path, "cannot open", error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO)
    )
}

/// Loads a driver's module with modprobe, respecting the blacklist.
fn modprobe(family: Family) {
    if !geteuid().is_root() {
        return;
    }
    // Opening the control node shows whether it worked.
    let _ = run_quietly(Command::new("modprobe").args([
        "--quiet",
        "--use-blacklist",
        family.name(),
    ]));
}

fn open_or_load(family: Family) -> Result<Option<Control>> {
    if let Some(control) = open(family)? {
        return Ok(Some(control));
    }
    modprobe(family);
    open(family)
}

/// Opens the control node of the chosen driver and loads the driver if needed.
pub fn choose(choice: DriverChoice) -> Result<Control> {
    let found = match choice {
        DriverChoice::Floop => open_or_load(Family::Floop)?,
        DriverChoice::Loop => open_or_load(Family::Loop)?,
        DriverChoice::Auto => match open(Family::Floop)? {
            Some(control) => Some(control),
            // The drop-in is floop: nothing is left to load.
            None if device::is_drop_in() => open(Family::Loop)?,
            // Where the drop-in is installed, this loads it.
            None => match open_or_load(Family::Floop)? {
                Some(control) => Some(control),
                None => open_or_load(Family::Loop)?,
            },
        },
    };
    found.ok_or_else(|| absent(choice))
}

fn absent(choice: DriverChoice) -> Error {
    let node = |family| control_path(family).display().to_string();
    match choice {
        DriverChoice::Auto => Error::general(
            Exit::NoDriver,
            format_args!(
                "no driver: neither {} nor {} is there",
                node(Family::Floop),
                node(Family::Loop)
            ),
        )
        .hint("load one as root: modprobe floop, or modprobe loop"),
        DriverChoice::Floop => Error::general(
            Exit::NoDriver,
            format_args!(
                "no floop driver: {} is not there",
                node(Family::Floop)
            ),
        )
        .hint(
            "load it as root (modprobe floop), or use the loop driver \
             (--driver loop)",
        ),
        DriverChoice::Loop => Error::general(
            Exit::NoDriver,
            format_args!("no loop driver: {} is not there", node(Family::Loop)),
        )
        .hint("load it as root: modprobe loop"),
    }
}
