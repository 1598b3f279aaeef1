// SPDX-License-Identifier: GPL-2.0-only
//! Standard output and standard error.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Error, Exit, Result, reason};

/// Writes to standard output.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let reason = reason(&error);
        Error::general(
            Exit::Failed,
            format_args!("cannot write to standard output: {reason}"),
        )
    })
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| {
        Error::general(Exit::Failed, format_args!("JSON: {error}"))
    })?;
    text.push('\n');
    print(&text)
}

/// Writes a message to standard error. Errors are ignored.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "floop: {text}");
}

/// Writes a warning to standard error.
pub fn warn(text: &str) {
    complain(&format!("warning: {text}"));
}
