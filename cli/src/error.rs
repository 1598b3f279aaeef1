// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, and the exit code each of it has.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;

use crate::text::printable;

/// The exit codes of the command. They are part of its interface: see `docs/command.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The operation failed for a reason that has no code of its own.
    Failed = 1,
    /// The command line is wrong. clap uses the same number.
    Usage = 2,
    /// No driver is loaded that could do it.
    NoDriver = 3,
    /// The image or the device is in use.
    Busy = 4,
    /// The caller may not do that.
    Permission = 5,
    /// There is no such image or device, or nothing is attached to it.
    NotFound = 6,
    /// The image or device is there, but can't be used like that.
    Unsuitable = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failure: what happened to what, why, and what to do about it.
#[derive(Debug)]
pub struct Error {
    /// The code that the process ends with.
    pub exit: Exit,
    /// "NAME: the cause".
    message: String,
    /// The way out, where there is one.
    hint: Option<String>,
}

impl Error {
    /// A failure of `subject` (a file, a device) because of `cause`.
    pub fn new(exit: Exit, subject: &Path, cause: impl fmt::Display) -> Self {
        Self {
            exit,
            message: format!("{}: {cause}", printable(subject.as_os_str())),
            hint: None,
        }
    }

    /// A failure that is nobody's in particular.
    pub fn general(exit: Exit, cause: impl fmt::Display) -> Self {
        Self { exit, message: cause.to_string(), hint: None }
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What the kernel said when asked to do `doing` to `subject`.
    pub fn os(
        subject: &Path,
        doing: &str,
        error: impl Into<io::Error>,
    ) -> Self {
        let error = error.into();
        let exit = exit_of(&error);
        let new = Self::new(
            exit,
            subject,
            format_args!("{doing}: {}", reason(&error)),
        );
        if exit == Exit::Permission {
            new.hint("run it as root (sudo)")
        } else {
            new
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The exit code of a system call's error.
fn exit_of(error: &io::Error) -> Exit {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => Exit::Permission,
        Some(Errno::BUSY | Errno::TXTBSY) => Exit::Busy,
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV | Errno::NOTDIR) => {
            Exit::NotFound
        }
        _ => Exit::Failed,
    }
}

/// The text of a system call's error, without the "(os error N)" that Rust adds.
pub fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error ") {
        text.truncate(at);
    }
    if let Some(first) = text.get(..1) {
        let lower = first.to_lowercase();
        // "I/O error" stays as it is.
        if !text.starts_with("I/O") {
            text.replace_range(..1, &lower);
        }
    }
    text
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let all = [
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::NoDriver, 3),
            (Exit::Busy, 4),
            (Exit::Permission, 5),
            (Exit::NotFound, 6),
            (Exit::Unsuitable, 7),
        ];
        for (exit, code) in all {
            assert_eq!(exit as u8, code);
        }
    }

    #[test]
    fn system_errors_have_their_codes() {
        let of = |errno: Errno| exit_of(&errno.into());
        assert_eq!(of(Errno::PERM), Exit::Permission);
        assert_eq!(of(Errno::ACCESS), Exit::Permission);
        assert_eq!(of(Errno::BUSY), Exit::Busy);
        assert_eq!(of(Errno::NOENT), Exit::NotFound);
        assert_eq!(of(Errno::NXIO), Exit::NotFound);
        assert_eq!(of(Errno::NODEV), Exit::NotFound);
        assert_eq!(of(Errno::IO), Exit::Failed);
    }

    #[test]
    fn a_message_names_the_file_the_cause_and_the_way_out() {
        let error =
            Error::new(Exit::Unsuitable, Path::new("a.img"), "is empty")
                .hint("fill it");
        assert_eq!(error.to_string(), "a.img: is empty; fill it");
        let error =
            Error::os(Path::new("/dev/x"), "cannot open", Errno::ACCESS);
        assert_eq!(error.exit, Exit::Permission);
        assert_eq!(
            error.to_string(),
            "/dev/x: cannot open: permission denied; run it as root (sudo)"
        );
    }
}
