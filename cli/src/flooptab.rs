// SPDX-License-Identifier: GPL-2.0-only
//! `/etc/flooptab`: the devices that are attached at boot.
//!
//! `docs/flooptab.md` describes it. The generator makes the dependencies of a
//! device from it, and the device's service the arguments of `floop attach`.

use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str;

use clap::ValueEnum;

use crate::allocate::Allocate;
use crate::cli::{Direct, Discard, DriverChoice, Mapping};
use crate::size;

/// The longest name of a device; udev's links have it.
const MAX_NAME: usize = 64;

/// When and how a device is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The arguments of `floop attach`.
    pub attach: Vec<String>,
    /// The boot goes on without it.
    pub nofail: bool,
    /// It is attached on demand only.
    pub noauto: bool,
    /// The image needs the network.
    pub network: bool,
    /// It has partitions.
    pub partscan: bool,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the line.
    pub line: usize,
    /// The name of the device.
    pub name: String,
    /// The image, an absolute path.
    pub image: String,
    /// Its options.
    pub options: Options,
    /// What is wrong with the options.
    pub problem: Option<String>,
}

/// A line that names no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The number of the line.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Where the table is.
pub fn path() -> PathBuf {
    env::var_os("FLOOPTAB").map_or_else(|| "/etc/flooptab".into(), Into::into)
}

/// Reads the table. A table that is not there is empty.
pub fn read(path: &Path) -> io::Result<Vec<Result<Entry, BadLine>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Parses the table.
fn parse(bytes: &[u8]) -> Vec<Result<Entry, BadLine>> {
    let mut found: Vec<Result<Entry, BadLine>> = Vec::new();
    for (index, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = index + 1;
        let bad = |problem: String| Err(BadLine { line, problem });
        let Ok(text) = str::from_utf8(bytes) else {
            found.push(bad("is not in UTF-8".to_owned()));
            continue;
        };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        if fields.first().is_none_or(|first| first.starts_with('#')) {
            continue;
        }
        let result = entry(line, &fields).or_else(bad);
        if let Ok(new) = &result {
            let first = found.iter().flatten().find(|old| old.name == new.name);
            if let Some(first) = first {
                let problem = format!(
                    "line {} has the name {} too",
                    first.line, new.name
                );
                found.push(bad(problem));
                continue;
            }
        }
        found.push(result);
    }
    found
}

/// The entry of a line.
fn entry(line: usize, fields: &[&str]) -> Result<Entry, String> {
    let (name, image, options) = match *fields {
        [name, image] => (name, image, "defaults"),
        [name, image, options] => (name, image, options),
        [name] => return Err(format!("{name} has no image")),
        _ => {
            return Err("has more than a name, an image and options; a blank \
                        in a name is written \\040"
                .to_owned());
        }
    };
    check_name(name)?;
    let image = unescape(image)?;
    check_image(&image)?;
    let (options, problem) = parse_options(options);
    Ok(Entry { line, name: name.to_owned(), image, options, problem })
}

/// Checks a name: units, links and messages have it unquoted.
pub fn check_name(name: &str) -> Result<(), String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= MAX_NAME && name.chars().all(valid) {
        return Ok(());
    }
    Err(format!(
        "'{name}' is not a name: give at most {MAX_NAME} letters, digits, '_', \
         '-' and '.', a letter or a digit first"
    ))
}

/// Checks an image's path: unit files have to be able to quote it.
fn check_image(image: &str) -> Result<(), String> {
    if !image.starts_with('/') {
        return Err(format!("'{image}' is not an absolute path"));
    }
    let quotes = image.contains('"') && image.contains('\'');
    if quotes || image.chars().any(char::is_control) {
        let image = image.escape_debug();
        return Err(format!("systemd can't quote the path '{image}'"));
    }
    Ok(())
}

/// Replaces the escapes of fstab(5), as in `a\040b`.
pub fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digits = more.get(..3).and_then(|d| str::from_utf8(d).ok());
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let byte = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
        let Some(byte) = byte.filter(|byte| *byte != 0) else {
            return Err(format!(
                "'{text}': three octal digits follow a backslash; a backslash \
                 itself is \\134"
            ));
        };
        bytes.push(byte);
        rest = &more[3..];
    }
    String::from_utf8(bytes).map_err(|_| format!("'{text}' is not in UTF-8"))
}

/// Parses options. After the first one that is wrong it goes on, so that
/// nofail and noauto count wherever they stand.
fn parse_options(text: &str) -> (Options, Option<String>) {
    let mut options = Options::default();
    let mut problem = None;
    for word in text.split(',').filter(|word| !word.is_empty()) {
        if let Err(error) = option(&mut options, word) {
            problem.get_or_insert(error);
        }
    }
    (options, problem)
}

/// Adds an option.
fn option(options: &mut Options, word: &str) -> Result<(), String> {
    match word {
        "defaults" | "auto" | "rw" => return Ok(()),
        "noauto" => options.noauto = true,
        "nofail" => options.nofail = true,
        "_netdev" => options.network = true,
        "ro" | "read-only" => options.attach.push("--read-only".to_owned()),
        "partscan" => {
            options.partscan = true;
            options.attach.push("--partscan".to_owned());
        }
        _ => {
            let unknown = || format!("unknown option '{word}'");
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let argument =
                table_setting(key, value).ok_or_else(unknown)?.map_err(
                    |error| format!("wrong value of the option {key}: {error}"),
                )?;
            options.attach.push(argument);
        }
    }
    Ok(())
}

/// The argument of `floop attach` for an option of the table that has a value;
/// `None` for an unknown one.
fn table_setting(key: &str, value: &str) -> Option<Result<String, String>> {
    match key {
        // For mount(8) this is an option of btrfs.
        "discard" => Some(
            one_of::<Discard>(value).map(|()| format!("--discard={value}")),
        ),
        _ => setting(key, value),
    }
}

/// The argument of `floop attach` for an option that has a value; `None` for an
/// unknown one. `mount -t floop` has the same options.
pub fn setting(key: &str, value: &str) -> Option<Result<String, String>> {
    let (name, check) = match key {
        "offset" => ("offset", size::parse(value).map(drop)),
        "sizelimit" | "size-limit" => {
            ("size-limit", size::parse(value).map(drop))
        }
        "sector-size" => ("sector-size", size::parse_sector(value).map(drop)),
        "direct" => ("direct", one_of::<Direct>(value)),
        "mapping" => ("mapping", one_of::<Mapping>(value)),
        "allocate" => ("allocate", value.parse::<Allocate>().map(drop)),
        "driver" => ("driver", one_of::<DriverChoice>(value)),
        _ => return None,
    };
    Some(check.map(|()| format!("--{name}={value}")))
}

/// Checks that a value is one of a few words.
fn one_of<T: ValueEnum>(value: &str) -> Result<(), String> {
    T::from_str(value, false).map(drop).map_err(|_| {
        let words: Vec<String> = T::value_variants()
            .iter()
            .filter_map(T::to_possible_value)
            .map(|word| word.get_name().to_owned())
            .collect();
        format!("'{value}' is none of {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Entry, String> {
        parse(line.as_bytes()).remove(0).map_err(|bad| bad.problem)
    }

    #[test]
    fn lines_comments_and_fields() {
        let table = "# name image options\n\n  \t\n  # more\n\
                     a /a.img\nb\t /b.img \t ro,nofail\n";
        let found = parse(table.as_bytes());
        let entries: Vec<&Entry> = found.iter().flatten().collect();
        assert_eq!(found.len(), 2);
        assert_eq!((entries[0].line, entries[0].name.as_str()), (5, "a"));
        assert_eq!(entries[0].options, Options::default());
        assert_eq!((entries[1].line, entries[1].image.as_str()), (6, "/b.img"));
        assert_eq!(entries[1].options.attach, ["--read-only"]);
        assert!(entries[1].options.nofail);
    }

    #[test]
    fn escapes_are_fstabs() {
        let image = |text: &str| one(&format!("a {text}")).map(|e| e.image);
        assert_eq!(
            image("/a\\040b\\134\\011"),
            Err("systemd can't quote the path '/a b\\\\\\t'".to_owned())
        );
        assert_eq!(image("/a\\040b\\134"), Ok("/a b\\".to_owned()));
        assert_eq!(image("/a\\303\\251#1"), Ok("/aé#1".to_owned()));
        for text in ["/a\\", "/a\\04", "/a\\x20", "/a\\000", "/a\\999"] {
            assert!(image(text).is_err_and(|e| e.contains("octal")), "{text}");
        }
        assert!(image("/a\\377").is_err_and(|e| e.contains("UTF-8")));
    }

    #[test]
    fn bad_lines_have_their_numbers() {
        let table = b"a /a\n\nb\nc d\n-e /e\n\xff\na /b\nf /f ro x\ng /g";
        let bad: Vec<(usize, String)> = parse(table)
            .into_iter()
            .filter_map(|line| line.err().map(|bad| (bad.line, bad.problem)))
            .collect();
        for ((line, problem), (number, words)) in bad.iter().zip([
            (3, "b has no image"),
            (4, "'d' is not an absolute path"),
            (5, "'-e' is not a name"),
            (6, "is not in UTF-8"),
            (7, "line 1 has the name a too"),
            (8, "has more than a name"),
        ]) {
            assert_eq!(*line, number);
            assert!(problem.starts_with(words), "{problem}");
        }
        assert_eq!(bad.len(), 6);
    }

    #[test]
    fn names() {
        for name in ["a", "0", "my-image.1_2"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", ".", "..", "a/b", "a b", "é", "a@b", "a%i", &long] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn options_are_those_of_attach() {
        let entry =
            one("a /a defaults,offset=1M,sizelimit=512K,sector-size=4096,\
             direct=on,mapping=off,driver=loop,partscan,noauto,_netdev")
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(entry.problem, None);
        assert_eq!(
            entry.options.attach,
            [
                "--offset=1M",
                "--size-limit=512K",
                "--sector-size=4096",
                "--direct=on",
                "--mapping=off",
                "--driver=loop",
                "--partscan"
            ]
        );
        let options = &entry.options;
        assert!(options.noauto && options.network && options.partscan);
        assert!(!options.nofail);
    }

    #[test]
    fn wrong_options_are_named() {
        for (text, problem) in [
            ("luks", "unknown option 'luks'"),
            ("ro=1", "unknown option 'ro=1'"),
            ("autoclear", "unknown option 'autoclear'"),
            ("x-systemd.after=a", "unknown option 'x-systemd.after=a'"),
            (
                "direct=yes",
                "wrong value of the option direct: 'yes' is none of auto, on, \
                 off",
            ),
            (
                "sector-size=7",
                "wrong value of the option sector-size: '7' is not a sector \
                 size: give a power of two from 512 to 64K",
            ),
        ] {
            let entry = one(&format!("a /a {text},nofail"));
            let entry = entry.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(entry.problem.as_deref(), Some(problem));
            // What counts for the boot is known all the same.
            assert!(entry.options.nofail);
        }
    }
}
