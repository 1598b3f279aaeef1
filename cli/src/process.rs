// SPDX-License-Identifier: GPL-2.0-only
//! Other programs.

use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// Runs a program without input, and drops its output.
pub fn run_quietly(command: &mut Command) -> io::Result<ExitStatus> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
}
