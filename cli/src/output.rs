// SPDX-License-Identifier: GPL-2.0-only
//! What the command prints, and how.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::{Error, Exit, Result, reason};

/// Writes to standard output; that it can't is a failure like any other.
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

/// Says something on standard error. There is nobody to tell if that fails.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "floop: {text}");
}

/// Says on standard error that something is not as it should be, but goes on.
pub fn warn(text: &str) {
    complain(&format!("warning: {text}"));
}
