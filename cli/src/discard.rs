// SPDX-License-Identifier: GPL-2.0-only
//! What becomes of discards: they free blocks of the image, or succeed and free
//! nothing. Only floop has the choice.

use std::path::Path;

use clap::ValueEnum;

use crate::cli::Discard;
use crate::device::{Device, Driver};
use crate::error::{Error, Exit, Result};
use crate::target::write_setting;

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
    let doing = "cannot change what becomes of discards";
    write_setting(device, "loop/discard", word(what), doing, || {
        unable(device.driver(), name)
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
