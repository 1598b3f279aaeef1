// SPDX-License-Identifier: GPL-2.0-only
//! What a write to a hole of the image allocates: its own blocks, or more, as
//! zeroes. Only floop has the choice.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::device::{Device, Driver};
use crate::error::{Error, Exit, Result};
use crate::size;
use crate::target::write_setting;

/// The smallest and the largest unit that the driver takes, in bytes.
const LEAST: u64 = 16 << 10;
const MOST: u64 = 4 << 20;

/// What a write to a hole allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Its own blocks
    Off,
    /// As much as seems worth it
    Auto,
    /// The hole in so many bytes around it, from a multiple on
    Unit(u64),
}

impl FromStr for Allocate {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => match size::parse(word) {
                Ok(unit)
                    if unit.is_power_of_two()
                        && (LEAST..=MOST).contains(&unit) =>
                {
                    Ok(Self::Unit(unit))
                }
                _ => Err(format!(
                    "'{word}' is no unit: give auto, off, or a power of two \
                     from 16K to 4M"
                )),
            },
        }
    }
}

impl fmt::Display for Allocate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Unit(unit) => write!(f, "{unit}"),
        }
    }
}

/// What a device's writes allocate. A driver without the choice does nothing
/// ahead.
pub fn of(device: Device) -> Allocate {
    let word = device.attribute("loop/allocate");
    word.and_then(|word| word.to_str()?.parse().ok()).unwrap_or(Allocate::Off)
}

/// Changes it. `name` is the name that the user gave.
pub fn switch(device: Device, what: Allocate, name: &Path) -> Result<()> {
    if of(device) == what {
        return Ok(());
    }
    let doing = "cannot change what is allocated ahead";
    write_setting(device, "loop/allocate", &what.to_string(), doing, || {
        unable(device.driver(), name)
    })
}

/// The error for a driver that allocates nothing ahead.
pub fn unable(driver: Driver, name: &Path) -> Error {
    let (cause, hint) = match driver {
        Driver::InTree => (
            "nothing is allocated ahead: the in-tree loop driver serves it, \
             and only floop does that",
            "attach the image with --driver floop",
        ),
        Driver::Floop | Driver::DropIn => (
            "nothing is allocated ahead: the loaded version of the floop \
             module has no such setting",
            "load a newer one",
        ),
    };
    Error::new(Exit::Unsuitable, name, cause).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_sizes() {
        assert_eq!("off".parse(), Ok(Allocate::Off));
        assert_eq!("auto".parse(), Ok(Allocate::Auto));
        assert_eq!("64K".parse(), Ok(Allocate::Unit(65536)));
        assert_eq!("4M".parse(), Ok(Allocate::Unit(4 << 20)));
        for wrong in ["", "on", "0", "8K", "8M", "48K", "64000"] {
            assert!(wrong.parse::<Allocate>().is_err(), "{wrong}");
        }
    }
}
