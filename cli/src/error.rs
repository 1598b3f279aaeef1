// SPDX-License-Identifier: GPL-2.0-only
//! Errors and their exit codes.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;

use crate::text::shown;

/// The exit codes, which are part of the interface: see `docs/command.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A failure without a code of its own.
    Failed = 1,
    /// The command line is wrong. clap uses the same code.
    Usage = 2,
    /// No suitable driver is loaded.
    NoDriver = 3,
    /// The image or the device is in use.
    Busy = 4,
    /// Permission denied.
    Permission = 5,
    /// No such image or device, or nothing is attached to it.
    NotFound = 6,
    /// The image or the device can't be used this way.
    Unsuitable = 7,
    /// `doctor` has found nothing worse than warnings.
    Warnings = 10,
    /// `doctor` has found errors.
    Errors = 11,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error: the subject, the cause and a hint.
#[derive(Debug)]
pub struct Error {
    /// The exit code.
    pub exit: Exit,
    /// "SUBJECT: CAUSE".
    message: String,
    /// What the user can do about it.
    hint: Option<String>,
}

impl Error {
    /// An error about `subject`, a file or a device.
    pub fn new(exit: Exit, subject: &Path, cause: impl fmt::Display) -> Self {
        Self {
            exit,
            message: format!("{}: {cause}", shown(subject.as_os_str())),
            hint: None,
        }
    }

    /// An error without a subject.
    pub fn general(exit: Exit, cause: impl fmt::Display) -> Self {
        Self { exit, message: cause.to_string(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// A failed system call on `subject`; `doing` says what couldn't be done.
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

/// The exit code for a system call's error.
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

/// The text of a system call's error, without the "(os error N)" of Rust.
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

/// The result of whatever can fail here.
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
            (Exit::Warnings, 10),
            (Exit::Errors, 11),
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
