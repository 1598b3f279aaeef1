// SPDX-License-Identifier: GPL-2.0-only
//! What becomes of discards: they free blocks of the image, or succeed and free
//! nothing. Only floop has the choice.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use rustix::io::Errno;

use crate::cli::Discard;
use crate::device::{Device, Driver};
use crate::error::{Error, Exit, Result};
use crate::target::not_attached;

/// What becomes of a device's discards. A driver without the choice passes
/// them.
pub fn of(device: Device) -> Discard {
    let word = device.attribute("loop/discard");
    word.and_then(|word| Discard::from_str(word.to_str()?, false).ok())
        .unwrap_or(Discard::Pass)
}

/// The word for it.
pub fn word(what: Discard) -> &'static str {
    match what {
        Discard::Pass => "pass",
        Discard::Keep => "keep",
    }
}

/// Changes it. `name` is the name that the user gave.
pub fn switch(device: Device, what: Discard, name: &Path) -> Result<()> {
    if of(device) == what {
        return Ok(());
    }
    // The attribute goes away with the image, so this can't change another
    // one's.
    let attribute = device.sysfs().join("loop/discard");
    let done = OpenOptions::new()
        .write(true)
        .open(attribute)
        .and_then(|mut file| file.write_all(word(what).as_bytes()));
    done.map_err(|error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) if device.is_attached() => {
            unable(device.driver(), name)
        }
        Some(Errno::NOENT | Errno::NODEV) => not_attached(&device.node()),
        _ => {
            let doing = "cannot change what becomes of discards";
            Error::os(&device.node(), doing, error)
        }
    })
}

/// The error for a driver that frees what is discarded.
pub fn unable(driver: Driver, name: &Path) -> Error {
    let (cause, hint) = match driver {
        Driver::InTree => (
            "its discards can't be kept: the in-tree loop driver serves it, \
             and only floop keeps blocks",
            "attach the image with --driver floop",
        ),
        Driver::Floop | Driver::DropIn => (
            "its discards can't be kept: the loaded version of the floop \
             module has no such setting",
            "load a newer one",
        ),
    };
    Error::new(Exit::Unsuitable, name, cause).hint(hint)
}
