// SPDX-License-Identifier: GPL-2.0-only
//! Values as text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use crate::size;

/// A name as text, with control characters and invalid UTF-8 as `\xNN`.
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

/// The name of a file, safe to print and to paste into a shell: as it is, or
/// `$'...'` of bash if it has control characters or isn't UTF-8.
pub fn shown(name: &OsStr) -> String {
    let text = printable(name);
    if name.to_str() == Some(&text) && !text.contains("$'") {
        return text;
    }
    let escaped: Vec<u8> = name
        .as_bytes()
        .iter()
        .flat_map(|byte| match byte {
            b'\\' | b'\'' => vec![b'\\', *byte],
            byte => vec![*byte],
        })
        .collect();
    format!("$'{}'", printable(OsStr::from_bytes(&escaped)))
}

/// What the kernel shows with octal escapes, as the paths in mountinfo, without
/// them.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
        match byte {
            Some(byte) if *first == b'\\' => {
                found.push(byte);
                rest = &more[3..];
            }
            _ => {
                found.push(*first);
                rest = more;
            }
        }
    }
    found
}

/// A number with a noun: "1 byte", "2 bytes".
pub fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A size in bytes and, if it has one, in a larger unit: "4096 (4 KiB)".
pub fn bytes(size: u64) -> String {
    match size::human(size) {
        Some(human) => format!("{size} ({human})"),
        None => size.to_string(),
    }
}

/// A flag: "yes" or "no".
pub fn yes_no(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// The name of a file for a shell.
pub fn quoted(name: &OsStr) -> String {
    quoted_shown(&shown(name))
}

/// The same, of a name as `shown()` returns it.
pub fn quoted_shown(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if name.starts_with("$'") || !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_to_print() {
        assert_eq!(printable(OsStr::new("/tmp/é 1.img")), "/tmp/é 1.img");
        assert_eq!(printable(OsStr::new("a\nb\x1b[0m")), "a\\x0ab\\x1b[0m");
        assert_eq!(printable(OsStr::from_bytes(b"a\xffb")), "a\\xffb");
        // A terminal takes this for "\x1b[".
        assert_eq!(printable(OsStr::new("a\u{9b}31m")), "a\\xc2\\x9b31m");
    }

    #[test]
    fn escapes_of_the_kernel() {
        assert_eq!(unescape(b"/a\\040b\\134"), b"/a b\\");
        assert_eq!(unescape(b"/a"), b"/a");
    }

    #[test]
    fn counts() {
        assert_eq!(count(1, "byte"), "1 byte");
        assert_eq!(count(17, "byte"), "17 bytes");
    }

    #[test]
    fn names_of_files() {
        let of = |name: &[u8]| shown(OsStr::from_bytes(name));
        assert_eq!(of("/tmp/é 1's\\.img".as_bytes()), "/tmp/é 1's\\.img");
        assert_eq!(of(b"a\xffb"), "$'a\\xffb'");
        assert_eq!(of(b"a\xff'\\"), "$'a\\xff\\'\\\\'");
        assert_eq!(of(b"a\nb"), "$'a\\x0ab'");
        // It is no such name.
        assert_eq!(of(b"$'a\\xff'"), "$'$\\'a\\\\xff\\''");
    }

    #[test]
    fn names_for_a_shell() {
        let of = |name: &[u8]| quoted(OsStr::from_bytes(name));
        assert_eq!(of(b"/a/b.img"), "/a/b.img");
        assert_eq!(of(b"/a b"), "'/a b'");
        assert_eq!(of(b"it's"), "'it'\\''s'");
        assert_eq!(of(b""), "''");
        assert_eq!(of(b"a \xff"), "$'a \\xff'");
    }
}
