//! What the command prints, and how.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::error::{Error, Exit, Result, reason};

/// Writes to standard output; that it can't is a failure like any other.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let reason = reason(&error);
        Error::general(Exit::Failed, format_args!("cannot write to standard output: {reason}"))
    })
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::general(Exit::Failed, format_args!("JSON: {error}")))?;
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

/// A name as text, with what a terminal would act upon written as `\xNN`.
pub fn printable(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// "1 byte", "2 bytes".
pub fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_to_print() {
        assert_eq!(printable(OsStr::new("/tmp/é 1.img")), "/tmp/é 1.img");
        assert_eq!(printable(OsStr::new("a\nb\x1b[0m")), "a\\x0ab\\x1b[0m");
        assert_eq!(printable(OsStr::from_bytes(b"a\xffb")), "a\\xffb");
        // To a terminal this is the same as "\x1b[".
        assert_eq!(printable(OsStr::new("a\u{9b}31m")), "a\\xc2\\x9b31m");
    }

    #[test]
    fn counts() {
        assert_eq!(count(1, "byte"), "1 byte");
        assert_eq!(count(17, "byte"), "17 bytes");
    }
}
