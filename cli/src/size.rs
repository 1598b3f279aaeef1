// SPDX-License-Identifier: GPL-2.0-only
//! Sizes and offsets with units.

use std::path::Path;

use crate::error::{Error, Exit};

/// The smallest sector.
const SECTOR: u64 = 512;

/// The factor of a suffix; `None` if there is no such suffix.
fn unit(suffix: &str) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    let (letter, rest) = match lower.chars().next() {
        None => return Some(1),
        Some('b') if lower.len() == 1 => return Some(1),
        Some(letter) => (letter, lower.get(1..)?),
    };
    let power = match letter {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        'p' => 5,
        'e' => 6,
        _ => return None,
    };
    match rest {
        "" | "ib" => Some(1024_u64.pow(power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Parses "4096", "0x1000", "4K", "4KiB" (both 4 * 1024) or "4KB" (4 * 1000),
/// as losetup does.
///
/// The largest size is that of a file, 2^63 - 1 bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is not a size: give bytes, or a number with K, M, G, T, \
             KiB, MiB, KB, ..."
        )
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (number, suffix) = if let Some(hex) = hex {
        (u64::from_str_radix(hex, 16).map_err(|_| wrong())?, "")
    } else {
        let end =
            text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        if digits.is_empty() {
            return Err(wrong());
        }
        (digits.parse().map_err(|_| format!("'{text}' is too large"))?, suffix)
    };
    let unit = unit(suffix).ok_or_else(wrong)?;
    number
        .checked_mul(unit)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| format!("'{text}' is too large"))
}

/// Parses a sector size: a power of two from 512 bytes to 64 KiB.
pub fn parse_sector(text: &str) -> Result<u32, String> {
    let size = parse(text)?;
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && (512..=65536).contains(&size) => {
            Ok(size)
        }
        _ => Err(format!(
            "'{text}' is not a sector size: give a power of two from 512 to 64K"
        )),
    }
}

/// Checks the size of an image: whole sectors, at least one.
pub fn check_image(size: u64, name: &Path) -> Result<(), Error> {
    if size == 0 || size % SECTOR != 0 {
        let down = (size - size % SECTOR).max(SECTOR);
        let cause = format!("{size} bytes are not whole sectors of {SECTOR}");
        return Err(Error::new(Exit::Usage, name, cause)
            .hint(format_args!("{down} would be")));
    }
    Ok(())
}

/// A size in the largest binary unit that it is a multiple of: "16 MiB".
pub fn human(bytes: u64) -> Option<String> {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut best = None;
    let mut value = bytes;
    for unit in units {
        if value == 0 || value % 1024 != 0 {
            break;
        }
        value /= 1024;
        best = Some(format!("{value} {unit}"));
    }
    best
}

/// A size in few characters, rounded to a tenth, as lsblk has it: "1.5G".
pub fn short(bytes: u64) -> String {
    let mut unit = 1;
    let mut rest = ["K", "M", "G", "T", "P", "E"].into_iter();
    let mut letter = "";
    let tenths = |unit: u64| {
        (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(unit)
    };
    // What would round to 1024 is 1 of the next unit.
    while tenths(unit) >= 10240 {
        let Some(next) = rest.next() else { break };
        unit *= 1024;
        letter = next;
    }
    let tenths = tenths(unit);
    match tenths % 10 {
        0 => format!("{}{letter}", tenths / 10),
        tenth => format!("{}.{tenth}{letter}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_and_suffixes() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("512"), Ok(512));
        assert_eq!(parse("0x200"), Ok(512));
        assert_eq!(parse("4K"), Ok(4096));
        assert_eq!(parse("4k"), Ok(4096));
        assert_eq!(parse("4KiB"), Ok(4096));
        assert_eq!(parse("4KB"), Ok(4000));
        assert_eq!(parse("3M"), Ok(3 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("2GB"), Ok(2_000_000_000));
        assert_eq!(parse("1T"), Ok(1 << 40));
        assert_eq!(parse("512B"), Ok(512));
    }

    #[test]
    fn what_is_not_a_size() {
        for text in
            ["", "K", "-1", "4X", "4KiBs", "0x", "1.5G", "4 K", "é", "4é"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["8E", "16E", "9223372036854775808", "99999999999999999999"]
        {
            assert!(
                parse(text).is_err_and(|e| e.contains("too large")),
                "{text}"
            );
        }
        assert_eq!(parse("9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn sector_sizes() {
        assert_eq!(parse_sector("512"), Ok(512));
        assert_eq!(parse_sector("4K"), Ok(4096));
        for text in ["256", "513", "3000", "128K", "0"] {
            assert!(parse_sector(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(human(0), None);
        assert_eq!(human(513), None);
        assert_eq!(human(1024).as_deref(), Some("1 KiB"));
        assert_eq!(human(1536 * 1024).as_deref(), Some("1536 KiB"));
        assert_eq!(human(16 << 20).as_deref(), Some("16 MiB"));
    }

    #[test]
    fn short_sizes() {
        for (bytes, text) in [
            (0, "0"),
            (512, "512"),
            (1023, "1023"),
            (1024, "1K"),
            (1536, "1.5K"),
            (1_044_480, "1020K"),
            ((1 << 20) - 1, "1M"),
            (16 << 20, "16M"),
            ((10 << 30) + 1, "10G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(short(bytes), text, "{bytes}");
        }
    }
}
