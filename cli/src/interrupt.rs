// SPDX-License-Identifier: GPL-2.0-only
//! Signals that would leave something half-done.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::error::{Error, Exit, Result};

/// The signal that has come, or 0.
static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on the signals only set what `check()` looks at.
pub fn defer() -> io::Result<()> {
    let come = SIGNAL.get_or_init(Arc::default);
    for (signal, number) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
        flag::register_usize(signal, Arc::clone(come), number)?;
    }
    Ok(())
}

fn come() -> Option<i32> {
    let number = SIGNAL.get()?.load(Ordering::Relaxed);
    i32::try_from(number).ok().filter(|number| *number != 0)
}

/// Whether a signal has come: there is no use in waiting then.
pub fn has_come() -> bool {
    come().is_some()
}

/// An error once a signal has come.
pub fn check(name: &Path) -> Result<()> {
    match come() {
        None => Ok(()),
        Some(_) => Err(Error::new(Exit::Failed, name, "interrupted")
            .hint("everything is as it was")),
    }
}

/// Ends the command by the signal that has come, as its caller expects.
pub fn end() {
    if let Some(signal) = come() {
        // It has no effect only for signals that are ignored by default.
        let _ = low_level::emulate_default_handler(signal);
    }
}
