// SPDX-License-Identifier: GPL-2.0-only
//! Ending a command that runs until it is told to end.

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// A descriptor that can be read from once SIGINT, SIGTERM or SIGHUP has come.
/// The signals have no other effect from here on.
pub fn end() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Whether one has come.
pub fn has_come(reader: &UnixStream) -> bool {
    reader.set_nonblocking(true).is_ok()
        && io::Read::read(&mut &*reader, &mut [0]).is_ok()
}
