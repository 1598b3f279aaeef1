// SPDX-License-Identifier: GPL-2.0-only
//! `floop-extents CONTROL-NODE`: the helper that the module starts.
//!
//! File systems list a file's extents in the memory of a process. The module
//! has none, so it borrows ours, by an ioctl that returns when it has no
//! question any more. We see nothing of the questions.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

use crate::ioctl;
use crate::output::complain;

/// The name by which the command is this.
pub const NAME: &str = "floop-extents";

/// Serves the module behind a control node.
pub fn run(words: &[OsString]) -> ExitCode {
    let [control] = words else {
        complain(&format!(
            "{NAME}: the floop module starts this, with its control node"
        ));
        return ExitCode::from(2);
    };
    let control = Path::new(control);
    let served = OpenOptions::new()
        .read(true)
        .write(true)
        .open(control)
        .and_then(|control| Ok(ioctl::help(control)?));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{NAME}: {}: {error}", control.display()));
            ExitCode::FAILURE
        }
    }
}
