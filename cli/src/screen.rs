// SPDX-License-Identifier: GPL-2.0-only
//! The rows of `top`, and how they are drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row as TableRow, Table, TableState};
use serde::Serialize;

use crate::cli::SortKey;
use crate::device::Device;
use crate::mapping::Break;
use crate::sample::{Rates, Sample};
use crate::size::short;
use crate::text::{count, shown};
use crate::users::Users;

/// A device in `top`.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The device.
    pub device: String,
    /// Its driver.
    pub driver: &'static str,
    /// Its image.
    pub backing_file: String,
    /// Whether that was deleted.
    pub deleted: bool,
    /// The share that is mapped, in percent; none if that is not known.
    pub mapped_percent: Option<u64>,
    /// What it did; none if it was attached meanwhile.
    #[serde(flatten)]
    pub rates: Option<Rates>,
    /// How the last epoch that was broken ended.
    pub last_break: Option<Break>,
    /// Its users.
    pub users: Vec<String>,
    /// The first of them, in few words.
    #[serde(skip)]
    first_user: String,
    /// The image, safe to print.
    #[serde(skip)]
    image: String,
    /// For the order.
    #[serde(skip)]
    number: Device,
}

/// The headings, and what each one sorts by.
const COLUMNS: [(&str, Option<SortKey>); 15] = [
    ("NAME", Some(SortKey::Name)),
    ("READ/s", None),
    ("WRITE/s", None),
    ("IO/s", Some(SortKey::Ios)),
    ("READB/s", None),
    ("B/s", Some(SortKey::Bytes)),
    ("ms", Some(SortKey::Latency)),
    ("BUSY", Some(SortKey::Busy)),
    ("MAPPED", Some(SortKey::Mapped)),
    ("FILE/s", Some(SortKey::File)),
    ("WHY", None),
    ("BROKEN", Some(SortKey::Broken)),
    ("BY", None),
    ("USER", None),
    ("IMAGE", None),
];

/// Which columns are numbers.
pub const NUMBERS: [bool; COLUMNS.len()] = [
    false, true, true, true, true, true, true, true, true, true, false, true,
    false, false, false,
];

/// The device, whose column always stays.
const NAME: usize = 0;
/// The image, whose column is the last one.
const IMAGE: usize = COLUMNS.len() - 1;
/// How little of an image's name is of use.
const LEAST_OF_IMAGE: usize = 8;
/// The widest column of text: long names leave room for the image.
const MOST_OF_TEXT: usize = 24;

/// Which columns go, the first one first, where there is no room for all: BY,
/// WHY, READB/s, USER, BROKEN, WRITE/s, READ/s, FILE/s, IMAGE, ms, MAPPED,
/// BUSY, B/s, IO/s. Before them go those without a value, and after them what
/// it is sorted by.
const GOING: [usize; COLUMNS.len() - 1] =
    [12, 10, 4, 13, 11, 2, 1, 9, IMAGE, 6, 8, 7, 5, 3];

/// The headings.
pub fn headings() -> Vec<String> {
    COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The first user, in few words, and how many more there are.
fn first_user(users: &Users) -> String {
    let elsewhere = users.mounts_elsewhere.first().map(|mount| {
        format!("{} (process {})", mount.mount_point, mount.process.pid)
    });
    let first = users
        .mounts
        .first()
        .cloned()
        .or(elsewhere)
        .or_else(|| users.holders.first().cloned())
        .or_else(|| users.swaps.first().map(|_| "swap".to_owned()))
        .or_else(|| Some(users.file_systems.first()?.kind.clone()))
        .or_else(|| {
            let process = users.processes.first()?;
            Some(format!("{} ({})", process.command, process.pid))
        });
    match (first, users.list().len()) {
        (None, _) => "-".to_owned(),
        (Some(first), 0 | 1) => first,
        (Some(first), all) => format!("{first} +{}", all - 1),
    }
}

impl Row {
    /// From a sample, the one before it, and the users.
    pub fn new(now: &Sample, before: Option<&Sample>, users: &Users) -> Self {
        let attachment = &now.attachment;
        let (image, deleted) = attachment.image();
        let remark = if deleted { " (deleted)" } else { "" };
        Self {
            device: attachment.device.node().display().to_string(),
            driver: attachment.driver.id(),
            backing_file: image.to_string_lossy().into_owned(),
            deleted,
            mapped_percent: now.mapped(),
            rates: before.and_then(|before| now.since(before)),
            last_break: attachment
                .mapping
                .as_ref()
                .and_then(|mapping| mapping.last_break.clone()),
            users: users.list(),
            first_user: first_user(users),
            image: format!("{}{remark}", shown(image.as_os_str())),
            number: attachment.device,
        }
    }

    /// Its cells.
    pub fn cells(&self) -> Vec<String> {
        let rates = self.rates.as_ref();
        let dash = || "-".to_owned();
        let of = |value: fn(&Rates) -> f64| {
            rates.map_or_else(dash, |rates| number(value(rates)))
        };
        let bytes = |value: fn(&Rates) -> f64| {
            rates.map_or_else(dash, |rates| short(whole(value(rates))))
        };
        let latency = rates.and_then(Rates::latency);
        let file = rates.and_then(|rates| rates.file_ios);
        let cause = rates.and_then(Rates::cause);
        let broken = rates.and_then(|rates| rates.epochs_broken);
        let by = self.last_break.as_ref().and_then(Break::by);
        vec![
            self.device.clone(),
            of(|rates| rates.reads),
            of(|rates| rates.writes),
            of(Rates::ios),
            bytes(|rates| rates.read_bytes),
            bytes(Rates::bytes),
            latency.map_or_else(dash, |ms| format!("{ms:.2}")),
            rates.map_or_else(dash, |rates| format!("{:.0}%", rates.busy)),
            self.mapped_percent
                .map_or_else(dash, |percent| format!("{percent}%")),
            file.map_or_else(dash, number),
            cause.map_or_else(dash, str::to_owned),
            broken.map_or_else(dash, |broken| broken.to_string()),
            by.unwrap_or_else(dash),
            self.first_user.clone(),
            self.image.clone(),
        ]
    }

    /// Whether the text is in its name, its image or its users.
    pub fn matches(&self, text: &str) -> bool {
        text.is_empty()
            || self.device.contains(text)
            || self.backing_file.contains(text)
            || self.users.iter().any(|user| user.contains(text))
    }

    /// What it is sorted by; devices without the value are last.
    fn key(&self, key: SortKey) -> f64 {
        let of = |value: fn(&Rates) -> Option<f64>| {
            self.rates.as_ref().and_then(value).unwrap_or(-1.0)
        };
        // Counts here are small.
        #[allow(clippy::cast_precision_loss)]
        let float = |number: u64| number as f64;
        match key {
            SortKey::Name => 0.0,
            SortKey::Ios => of(|rates| Some(rates.ios())),
            SortKey::Bytes => of(|rates| Some(rates.bytes())),
            SortKey::Latency => of(Rates::latency),
            SortKey::Busy => of(|rates| Some(rates.busy)),
            SortKey::Mapped => self.mapped_percent.map_or(-1.0, float),
            SortKey::File => of(|rates| rates.file_ios),
            SortKey::Broken => self
                .rates
                .as_ref()
                .and_then(|rates| rates.epochs_broken)
                .map_or(-1.0, float),
        }
    }
}

/// A rate, without the decimals of a large one.
fn number(rate: f64) -> String {
    if rate < 10.0 && rate > 0.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

/// A rate of bytes, which is neither negative nor that large.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

/// Sorts: by name from the first, by numbers from the largest.
pub fn sort(rows: &mut [Row], key: SortKey, reverse: bool) {
    rows.sort_by(|a, b| {
        b.key(key).total_cmp(&a.key(key)).then(a.number.cmp(&b.number))
    });
    if reverse {
        rows.reverse();
    }
}

/// The next key in the order of the columns, or the one before it.
pub fn next_key(key: SortKey, back: bool) -> SortKey {
    let keys: Vec<SortKey> =
        COLUMNS.iter().filter_map(|(_, key)| *key).collect();
    let at = keys.iter().position(|one| *one == key).unwrap_or_default();
    let step = if back { keys.len() - 1 } else { 1 };
    keys[(at + step) % keys.len()]
}

/// What the user has chosen.
pub struct View {
    /// What to sort by.
    pub key: SortKey,
    /// Whether the other way round.
    pub reverse: bool,
    /// Only rows that match.
    pub filter: String,
    /// Whether the filter is being typed.
    pub typing: bool,
    /// Whether to stand still.
    pub paused: bool,
    /// The row that is selected, for scrolling.
    pub state: TableState,
}

/// The columns that there is room for, and their widths. Figures have all the
/// width that they need; the image has what is left.
fn fit(
    cells: &[Vec<String>],
    key: SortKey,
    room: usize,
) -> Vec<(usize, usize)> {
    let width = |at: usize| {
        let widest = cells.iter().map(|row| row[at].chars().count()).max();
        let width = widest.unwrap_or_default().max(COLUMNS[at].0.len());
        match at {
            NAME => width,
            IMAGE => LEAST_OF_IMAGE,
            // They are not to come and go as figures grow.
            at if NUMBERS[at] => width.max(5),
            _ => width.min(MOST_OF_TEXT),
        }
    };
    let is_empty =
        |at: usize| !cells.is_empty() && cells.iter().all(|row| row[at] == "-");
    let is_key = |at: usize| COLUMNS[at].1 == Some(key);
    let mut kept: Vec<(usize, usize)> =
        (0..COLUMNS.len()).map(|at| (at, width(at))).collect();
    let taken = |kept: &[(usize, usize)]| {
        kept.iter().map(|(_, width)| width + 1).sum::<usize>() - 1
    };
    let mut going = GOING.to_vec();
    going.sort_by_key(|at| (is_key(*at), !is_empty(*at)));
    for at in going {
        if taken(&kept) <= room {
            break;
        }
        kept.retain(|(one, _)| *one != at);
    }
    let rest = room.saturating_sub(taken(&kept));
    if let Some((IMAGE, width)) = kept.last_mut() {
        *width += rest;
    }
    kept
}

/// Text that fits, and shows that something was cut: of a path the beginning.
fn cut(text: &str, width: usize, is_path: bool) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let rest = width.saturating_sub(1);
    if is_path {
        let end: String = text.chars().skip(len - rest).collect();
        format!("…{end}")
    } else {
        let start: String = text.chars().take(rest).collect();
        format!("{start}…")
    }
}

/// Draws the rows.
pub fn draw(frame: &mut Frame, rows: &[Row], view: &mut View) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let paused = if view.paused { ", paused" } else { "" };
    let filter = if view.filter.is_empty() || view.typing {
        String::new()
    } else {
        format!(", with \"{}\"", view.filter)
    };
    let title = format!(
        "floop top: {}{filter}{paused}",
        count(rows.len() as u64, "device")
    );
    frame.render_widget(Line::from(title), top);
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    let columns = fit(&cells, view.key, middle.width.into());
    let cell = |(at, width): (usize, usize), text: &str| {
        let text = Text::from(cut(text, width, at == IMAGE));
        Cell::from(if NUMBERS[at] { text.right_aligned() } else { text })
    };
    let header = columns.iter().map(|column| {
        let (name, key) = COLUMNS[column.0];
        let cell = cell(*column, name);
        if key == Some(view.key) {
            cell.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            cell
        }
    });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines = cells.iter().map(|row| {
        TableRow::new(
            columns.iter().map(|column| cell(*column, &row[column.0])),
        )
    });
    let widths = columns.iter().map(|(_, width)| {
        Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX))
    });
    let table = Table::new(lines, widths)
        .header(TableRow::new(header).style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::UNDERLINED));
    frame.render_stateful_widget(table, middle, &mut view.state);
    let keys = if view.typing {
        format!("filter: {}_", view.filter)
    } else {
        "q quit  < > sort by  r reverse  / filter  space pause".to_owned()
    };
    frame.render_widget(Line::from(keys), bottom);
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::device::Family;

    #[test]
    fn the_first_user_and_how_many_more() {
        let mut users = Users::default();
        assert_eq!(first_user(&users), "-");
        users.mounts.push("/a".to_owned());
        assert_eq!(first_user(&users), "/a");
        users.swaps.push("/dev/loop1p1".to_owned());
        users.swaps.push("/dev/loop1p2".to_owned());
        assert_eq!(first_user(&users), "/a +2");
    }

    #[test]
    fn what_a_filter_finds() {
        let row = Row {
            device: "/dev/floop1".to_owned(),
            driver: "floop",
            backing_file: "/srv/a.img".to_owned(),
            deleted: false,
            mapped_percent: None,
            rates: None,
            last_break: None,
            users: vec!["mounted on /b".to_owned(), "open in fio".to_owned()],
            first_user: "/b".to_owned(),
            image: "/srv/a.img".to_owned(),
            number: Device { family: Family::Floop, number: 1 },
        };
        for text in ["", "floop1", "a.img", "on /b", "fio"] {
            assert!(row.matches(text), "{text}");
        }
        assert!(!row.matches("floop2"));
    }

    fn headings_in(cells: &[Vec<String>], key: SortKey, room: usize) -> String {
        let names: Vec<&str> = fit(cells, key, room)
            .into_iter()
            .map(|(at, _)| COLUMNS[at].0)
            .collect();
        names.join(" ")
    }

    #[test]
    fn the_least_important_columns_go_first() {
        let row = "/dev/floop0 1234 1234 2468 12.3M 24.6M 0.25 100% 100% 12 \
                   blocks 3 cp(17) /srv/mount /srv/images/a.img";
        let row: Vec<String> = row.split(' ').map(str::to_owned).collect();
        let of = |room| headings_in(from_ref(&row), SortKey::Name, room);
        let all: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        assert_eq!(of(200), all.join(" "));
        assert_eq!(
            of(80),
            "NAME READ/s WRITE/s IO/s B/s ms BUSY MAPPED FILE/s BROKEN IMAGE"
        );
        assert_eq!(of(60), "NAME IO/s B/s ms BUSY MAPPED FILE/s IMAGE");
        assert_eq!(of(20), "NAME IO/s");
        assert_eq!(of(3), "NAME");
        // What it is sorted by stays.
        let sorted = headings_in(from_ref(&row), SortKey::Broken, 20);
        assert_eq!(sorted, "NAME BROKEN");
        // What has no value goes first.
        let mut plain = row.clone();
        for at in [8, 9, 10, 11, 12] {
            "-".clone_into(&mut plain[at]);
        }
        assert_eq!(
            headings_in(&[plain], SortKey::Name, 80),
            "NAME READ/s WRITE/s IO/s READB/s B/s ms BUSY USER IMAGE"
        );
        let image = fit(&[row], SortKey::Name, 200).pop();
        assert!(image.is_some_and(|(at, width)| at == IMAGE && width > 50));
    }

    #[test]
    fn the_order_of_going_is_the_one_that_is_told() {
        let names: Vec<&str> = GOING.iter().map(|at| COLUMNS[*at].0).collect();
        assert_eq!(
            names.join(" "),
            "BY WHY READB/s USER BROKEN WRITE/s READ/s FILE/s IMAGE ms MAPPED \
             BUSY B/s IO/s"
        );
    }

    #[test]
    fn what_is_cut_is_marked() {
        assert_eq!(cut("/srv/a.img", 10, true), "/srv/a.img");
        assert_eq!(cut("/srv/a.img", 6, true), "…a.img");
        assert_eq!(cut("fio (1234)", 6, false), "fio (…");
        assert_eq!(cut("fio", 1, false), "…");
    }

    #[test]
    fn keys_go_round() {
        let mut key = SortKey::Name;
        for _ in 0..8 {
            assert_eq!(next_key(next_key(key, false), true), key);
            key = next_key(key, false);
        }
        assert_eq!(key, SortKey::Name);
    }

    #[test]
    fn rates_as_text() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.25), "0.2");
        assert_eq!(number(1234.5), "1234");
    }
}
