// SPDX-License-Identifier: GPL-2.0-only
//! `floop top`.

use std::io::{self, IsTerminal};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use ratatui::widgets::TableState;
use serde::Serialize;

use crate::device::Device;
use crate::error::{Error, Exit, Result, reason};
use crate::sample::{self, Sample};
use crate::screen::{self, Row, View};
use crate::users::{self, Users};
use crate::{cli, column, output, signals};

/// How often to look for users, which takes a walk through /proc.
const USERS: Duration = Duration::from_secs(5);
/// How long a signal may have to wait.
const PATIENCE: Duration = Duration::from_millis(200);

/// `top --once --json`.
#[derive(Serialize)]
struct Report {
    interval: f64,
    devices: Vec<Row>,
}

/// Shows the devices' I/O, once or until the user quits.
pub fn run(args: &cli::Top) -> Result<()> {
    if args.once {
        return once(args);
    }
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        let cause = "top: standard input and output are not a terminal";
        return Err(Error::general(Exit::Usage, cause)
            .hint("--once prints one table, --once --json JSON"));
    }
    let failed = |error: io::Error| {
        let why = reason(&error);
        Error::general(Exit::Failed, format_args!("the terminal: {why}"))
    };
    let end = signals::end().map_err(failed)?;
    // From here on a panic restores the terminal, too.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let result = live(&mut terminal, args, &end);
    let restored = ratatui::try_restore();
    // With a terminal that is gone, as after SIGHUP, there is nobody to tell.
    if signals::has_come(&end) {
        return Ok(());
    }
    result.and(restored).map_err(failed)
}

/// The devices, as they were at the last two looks.
struct Devices {
    before: Vec<Sample>,
    now: Vec<Sample>,
    users: Vec<(Device, Option<u64>, Users)>,
    looked: Option<Instant>,
}

impl Devices {
    fn new() -> Self {
        let now = sample::take();
        Self { before: Vec::new(), now, users: Vec::new(), looked: None }
    }

    fn look(&mut self) {
        self.before = std::mem::replace(&mut self.now, sample::take());
    }

    /// Looks for the users, unless it has just done so for the same images.
    fn look_for_users(&mut self) {
        let is_known = |sample: &Sample| {
            let attachment = &sample.attachment;
            self.users.iter().any(|(device, sequence, _)| {
                (*device, *sequence) == (attachment.device, attachment.sequence)
            })
        };
        let recent = self.looked.is_some_and(|at| at.elapsed() < USERS);
        if recent && self.now.iter().all(is_known) {
            return;
        }
        let all: Vec<Device> =
            self.now.iter().map(|s| s.attachment.device).collect();
        self.users = self
            .now
            .iter()
            .zip(users::of_all(&all))
            .map(|(sample, users)| {
                let attachment = &sample.attachment;
                (attachment.device, attachment.sequence, users)
            })
            .collect();
        self.looked = Some(Instant::now());
    }

    fn rows(&mut self) -> Vec<Row> {
        self.look_for_users();
        let nobody = Users::default();
        self.now
            .iter()
            .map(|now| {
                let device = now.attachment.device;
                let before = self
                    .before
                    .iter()
                    .find(|before| before.attachment.device == device);
                let users = self
                    .users
                    .iter()
                    .find(|(other, _, _)| *other == device)
                    .map_or(&nobody, |(_, _, users)| users);
                Row::new(now, before, users)
            })
            .collect()
    }
}

/// Two samples, an interval apart.
fn once(args: &cli::Top) -> Result<()> {
    let mut devices = Devices::new();
    sleep(args.interval);
    devices.look();
    let mut rows = devices.rows();
    rows.retain(|row| row.matches(&args.filter));
    screen::sort(&mut rows, args.sort, false);
    if args.json {
        let interval = args.interval.as_secs_f64();
        return output::print_json(&Report { interval, devices: rows });
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = vec![screen::headings()];
    table.extend(rows.iter().map(Row::cells));
    output::print(&column::table(&screen::NUMBERS, &table))
}

fn live(
    terminal: &mut DefaultTerminal,
    args: &cli::Top,
    end: &UnixStream,
) -> io::Result<()> {
    let mut view = View {
        key: args.sort,
        reverse: false,
        filter: args.filter.clone(),
        typing: false,
        paused: false,
        state: TableState::default(),
    };
    let mut devices = Devices::new();
    let mut rows = devices.rows();
    let mut next = Instant::now() + args.interval;
    loop {
        let mut shown = rows.clone();
        shown.retain(|row| row.matches(&view.filter));
        screen::sort(&mut shown, view.key, view.reverse);
        terminal.draw(|frame| screen::draw(frame, &shown, &mut view))?;
        loop {
            if signals::has_come(end) {
                return Ok(());
            }
            let rest = next.saturating_duration_since(Instant::now());
            if event::poll(rest.min(PATIENCE))? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if press(key, &mut view) {
                            return Ok(());
                        }
                    }
                    Event::Resize(_, _) => {}
                    _ => continue,
                }
                break;
            }
            if rest.is_zero() {
                next = Instant::now() + args.interval;
                if !view.paused {
                    devices.look();
                    rows = devices.rows();
                    break;
                }
            }
        }
    }
}

/// Does what a key says. Returns whether to quit.
fn press(key: KeyEvent, view: &mut View) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return true,
        _ if control => {}
        KeyCode::Esc => {
            view.filter.clear();
            view.typing = false;
        }
        KeyCode::Enter => view.typing = false,
        KeyCode::Backspace if view.typing => {
            view.filter.pop();
        }
        KeyCode::Char(c) if view.typing => view.filter.push(c),
        KeyCode::Char('q') => return true,
        KeyCode::Char('/') => view.typing = true,
        KeyCode::Char('<') => view.key = screen::next_key(view.key, true),
        KeyCode::Char('>') => view.key = screen::next_key(view.key, false),
        KeyCode::Char('r') => view.reverse = !view.reverse,
        KeyCode::Char(' ') => view.paused = !view.paused,
        KeyCode::Down => view.state.select_next(),
        KeyCode::Up => view.state.select_previous(),
        KeyCode::PageDown => view.state.scroll_down_by(10),
        KeyCode::PageUp => view.state.scroll_up_by(10),
        _ => {}
    }
    false
}
