// SPDX-License-Identifier: GPL-2.0-only
//! The counters of a device at two times, and the rates between them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::device::{self, Attachment};
use crate::mapping;

/// The counters of one kind of I/O in `/sys/block/NAME/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ios: u64,
    sectors: u64,
    milliseconds: u64,
}

/// The counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    reads: Counts,
    writes: Counts,
    /// How long any I/O was in flight.
    busy: u64,
}

impl Counters {
    /// From the content of `/sys/block/NAME/stat`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let mut counts = || {
            let ios = next()?;
            let _merged = next()?;
            Some(Counts { ios, sectors: next()?, milliseconds: next()? })
        };
        let (reads, writes) = (counts()?, counts()?);
        let _in_flight = next()?;
        Some(Self { reads, writes, busy: next()? })
    }
}

/// A device at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What is attached to it.
    pub attachment: Attachment,
    counters: Counters,
    at: Instant,
}

/// Samples of all attached devices.
pub fn take() -> Vec<Sample> {
    device::attached()
        .into_iter()
        .filter_map(|attachment| {
            let text = attachment.device.attribute("stat")?;
            Some(Sample {
                counters: Counters::parse(text.to_str()?)?,
                attachment,
                at: Instant::now(),
            })
        })
        .collect()
}

/// What a device did between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Bytes read a second.
    pub read_bytes: f64,
    /// Bytes written a second.
    pub written_bytes: f64,
    /// The mean time of a read in milliseconds; none without reads.
    pub read_ms: Option<f64>,
    /// The mean time of a write in milliseconds; none without writes.
    pub write_ms: Option<f64>,
    /// The share of the time in which I/O was in flight, in percent.
    pub busy: f64,
    /// Mapped I/Os a second; none if the driver doesn't map.
    pub mapped_ios: Option<f64>,
    /// I/Os through the file system a second.
    pub file_ios: Option<f64>,
    /// The same by cause; empty if the module doesn't tell.
    pub file_ios_causes: Option<BTreeMap<String, f64>>,
    /// Epochs broken meanwhile.
    pub epochs_broken: Option<u64>,
}

impl Rates {
    /// All I/Os a second.
    pub fn ios(&self) -> f64 {
        self.reads + self.writes
    }

    /// All bytes a second.
    pub fn bytes(&self) -> f64 {
        self.read_bytes + self.written_bytes
    }

    /// The most frequent cause of I/Os through the file system.
    pub fn cause(&self) -> Option<&str> {
        let causes = self.file_ios_causes.as_ref()?.iter();
        let most = causes.max_by(|a, b| a.1.total_cmp(b.1))?;
        (*most.1 > 0.0).then_some(most.0.as_str())
    }

    /// The mean time of an I/O in milliseconds.
    pub fn latency(&self) -> Option<f64> {
        let sum = self.read_ms.unwrap_or_default() * self.reads
            + self.write_ms.unwrap_or_default() * self.writes;
        (self.ios() > 0.0).then(|| sum / self.ios())
    }
}

/// Counts and milliseconds are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

impl Sample {
    /// The rates since an earlier sample; `None` if that is of another
    /// attachment.
    pub fn since(&self, before: &Self) -> Option<Rates> {
        let same = before.attachment.device == self.attachment.device
            && before.attachment.sequence == self.attachment.sequence;
        same.then(|| self.rates(before, self.at.duration_since(before.at)))
    }

    fn rates(&self, before: &Self, time: Duration) -> Rates {
        let seconds = time.as_secs_f64().max(0.001);
        // The counters of an image begin anew with LOOP_CHANGE_FD.
        let more = |now: u64, then: u64| now.saturating_sub(then);
        let rate = |now: u64, then: u64| float(more(now, then)) / seconds;
        let (now, then) = (&self.counters, &before.counters);
        let mean = |now: &Counts, then: &Counts| {
            let ios = more(now.ios, then.ios);
            let time = more(now.milliseconds, then.milliseconds);
            (ios > 0).then(|| float(time) / float(ios))
        };
        let mappings = (
            self.attachment.mapping.as_ref(),
            before.attachment.mapping.as_ref(),
        );
        let (new, old) = match mappings {
            (Some(new), Some(old)) => (Some(new), Some(old)),
            _ => (None, None),
        };
        let both = new.zip(old);
        Rates {
            reads: rate(now.reads.ios, then.reads.ios),
            writes: rate(now.writes.ios, then.writes.ios),
            read_bytes: 512.0 * rate(now.reads.sectors, then.reads.sectors),
            written_bytes: 512.0
                * rate(now.writes.sectors, then.writes.sectors),
            read_ms: mean(&now.reads, &then.reads),
            write_ms: mean(&now.writes, &then.writes),
            busy: (rate(now.busy, then.busy) / 10.0).min(100.0),
            mapped_ios: both
                .map(|(new, old)| rate(new.ios_mapped, old.ios_mapped)),
            file_ios: both.map(|(new, old)| rate(new.ios_file, old.ios_file)),
            file_ios_causes: both.map(|(new, old)| {
                let rate = |(name, now): (&String, &u64)| {
                    let then = old.causes.get(name).copied();
                    (name.clone(), rate(*now, then.unwrap_or_default()))
                };
                new.causes.iter().map(rate).collect()
            }),
            epochs_broken: both
                .map(|(new, old)| more(new.epochs_broken, old.epochs_broken)),
        }
    }

    /// The share of the device that is mapped, in percent.
    pub fn mapped(&self) -> Option<u64> {
        let mapping = self.attachment.mapping.as_ref()?;
        if mapping.is_on() {
            mapping::percent(&self.attachment)
        } else {
            Some(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Driver, Family};

    /// A device with sectors of 4 KiB that has read so many sectors of 512.
    fn sample(sequence: u64, sectors: u64, at: Instant) -> Sample {
        let reads = Counts { ios: sectors / 8, sectors, milliseconds: 0 };
        let attachment = Attachment {
            device: Device { family: Family::Floop, number: 1 },
            sequence: Some(sequence),
            driver: Driver::Floop,
            backing_file: "/a".into(),
            offset: 0,
            size_limit: 0,
            size: 1 << 20,
            sector_size: 4096,
            read_only: false,
            autoclear: false,
            partscan: false,
            direct: false,
            mapping: None,
        };
        let counters = Counters { reads, ..Counters::default() };
        Sample { attachment, counters, at }
    }

    #[test]
    fn rates_of_one_attachment() {
        let start = Instant::now();
        let end = start + Duration::from_secs(2);
        let before = sample(7, 800, start);
        let rates = sample(7, 2400, end).since(&before).unwrap_or_default();
        // In bytes, whatever the device's own sectors are.
        let whole = |rate: f64| format!("{rate:.0}");
        assert_eq!(whole(rates.read_bytes), (800 * 512).to_string());
        assert_eq!(whole(rates.reads), "100");
        // Another image is attached by then.
        assert_eq!(sample(9, 2400, end).since(&before), None);
    }

    #[test]
    fn counters_of_a_disk() {
        let line = "  10 1 80 20  5 2 16 10  0 30 30 0 0 0 0 0 0\n";
        let read = Counts { ios: 10, sectors: 80, milliseconds: 20 };
        let written = Counts { ios: 5, sectors: 16, milliseconds: 10 };
        assert_eq!(
            Counters::parse(line),
            Some(Counters { reads: read, writes: written, busy: 30 })
        );
        assert_eq!(Counters::parse("1 2 3"), None);
    }

    #[test]
    fn the_cause_of_most() {
        let rates = |causes: [(&str, f64); 2]| Rates {
            file_ios_causes: Some(
                causes.map(|(name, rate)| (name.to_owned(), rate)).into(),
            ),
            ..Rates::default()
        };
        let some = rates([("blocks", 2.0), ("epoch", 1.0)]);
        assert_eq!(some.cause(), Some("blocks"));
        assert_eq!(rates([("blocks", 0.0), ("epoch", 0.0)]).cause(), None);
        assert_eq!(Rates::default().cause(), None);
    }

    #[test]
    fn means_of_both_kinds() {
        let rates = Rates {
            reads: 30.0,
            writes: 10.0,
            read_ms: Some(1.0),
            write_ms: Some(5.0),
            ..Rates::default()
        };
        assert_eq!(rates.latency(), Some(2.0));
        assert_eq!(Rates::default().latency(), None);
    }
}
