// SPDX-License-Identifier: GPL-2.0-only
//! Writes the man pages and the shells' completions into a folder, as they lie
//! in /usr/share: `cargo run --example pages FOLDER`. `make pages` does.
//!
//! The command line makes the pages of the command, `docs/flooptab.md` those of
//! flooptab(5) and mount.floop(8).

use std::fs;
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The section of the command's pages: those of commands for administrators.
const SECTION: &str = "8";
const MANUAL: &str = "floop";
const FLOOPTAB: &str = include_str!("../../docs/flooptab.md");

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("which folder?"))?;
    let mut command = floop::command_line();
    command.build();
    let source = concat!("floop ", env!("CARGO_PKG_VERSION"));
    for (name, page) in command_pages(&command, source)? {
        write(&folder.join("man/man8").join(name), &page)?;
    }
    let sections: Vec<&str> = FLOOPTAB.split("\n## ").collect();
    let [_, flooptab, mount] = sections[..] else {
        return Err(io::Error::other("docs/flooptab.md has other sections"));
    };
    write(
        &folder.join("man/man5/flooptab.5"),
        &document(
            &["FLOOPTAB", "5", "", source, MANUAL],
            "flooptab - devices to attach at boot",
            flooptab,
            &["crypttab(5)", "floop(8)", "fstab(5)", "mount.floop(8)"],
        )?,
    )?;
    write(
        &folder.join("man/man8/mount.floop.8"),
        &document(
            &["MOUNT.FLOOP", "8", "", source, MANUAL],
            "mount.floop - attach an image and mount it",
            mount,
            &["floop-attach(8)", "flooptab(5)", "mount(8)"],
        )?,
    )?;
    completions(&folder)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// The command line without what `--help` doesn't list either.
fn visible() -> Command {
    let whole = floop::command_line();
    let subcommands: Vec<Command> = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
        .collect();
    Command::new("floop")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(subcommands)
}

fn completions(folder: &Path) -> io::Result<()> {
    for (shell, path) in [
        (Shell::Bash, "bash-completion/completions/floop"),
        (Shell::Zsh, "zsh/site-functions/_floop"),
        (Shell::Fish, "fish/vendor_completions.d/floop.fish"),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut visible(), "floop", &mut script);
        write(&folder.join(path), &script)?;
    }
    Ok(())
}

/// A page for the command, and one for each of its subcommands.
fn command_pages(
    command: &Command,
    source: &str,
) -> io::Result<Vec<(String, Vec<u8>)>> {
    let subcommands: Vec<&Command> = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .collect();
    let mut also: Vec<String> = subcommands
        .iter()
        .map(|one| format!("floop-{}({SECTION})", one.get_name()))
        .collect();
    also.extend(
        ["flooptab(5)", "losetup(8)", "mount.floop(8)"].map(str::to_owned),
    );
    let mut pages =
        vec![("floop.8".to_owned(), command_page(command, source, &also)?)];
    let also = ["floop(8)".to_owned()];
    for one in subcommands {
        let name = format!("floop-{}.{SECTION}", one.get_name());
        pages.push((name, command_page(one, source, &also)?));
    }
    Ok(pages)
}

fn command_page(
    command: &Command,
    source: &str,
    also: &[String],
) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .section(SECTION)
        .source(source)
        .manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    after_help(command, &mut roff);
    see_also(&mut roff, also);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// How `--help` shows the usage.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = command.get_bin_name().unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(usage.trim_start_matches(name))]);
    roff
}

/// What stands below the options in `--help`: paragraphs with a title each.
fn after_help(command: &Command, roff: &mut Roff) {
    let text = command.get_after_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    let mut codes = Vec::new();
    for paragraph in text.split("\n\n") {
        let (title, body) = paragraph.split_once('\n').unwrap_or_default();
        if title == "Examples:" {
            roff.control("SH", ["EXAMPLES"]);
            examples(roff, body);
        } else if title.starts_with("Exit codes") {
            let pairs = body.lines().map(str::trim);
            codes.extend(pairs.filter_map(|line| line.split_once("  ")));
        } else if let Some((title, text)) = paragraph.split_once(": ") {
            roff.control("SH", [title.to_uppercase().as_str()]);
            roff.text([roman(text.replace('\n', " "))]);
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    codes.sort_by_key(|(code, _)| code.parse::<u8>().ok());
    for (code, meaning) in codes {
        roff.control("TP", ["4"]);
        roff.text([bold(code)]);
        roff.text([roman(meaning)]);
    }
}

/// Command lines, each with what it does, behind two blanks at least.
fn examples(roff: &mut Roff, text: &str) {
    let mut explained = false;
    for line in text.lines() {
        let line = line.strip_prefix("  ").unwrap_or(line);
        let (command, meaning) = line.split_once("  ").unwrap_or((line, ""));
        if !command.is_empty() {
            if explained {
                roff.control("RE", []);
            }
            explained = false;
            roff.control("PP", []);
            roff.text([bold(command)]);
        }
        if !meaning.is_empty() {
            if !explained {
                roff.control("RS", ["4"]);
            }
            explained = true;
            roff.text([roman(meaning.trim())]);
        }
    }
    if explained {
        roff.control("RE", []);
    }
}

fn code(roff: &mut Roff, text: &str) {
    roff.control("PP", []);
    roff.control("RS", ["2"]);
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
}

fn see_also<Name: AsRef<str>>(roff: &mut Roff, pages: &[Name]) {
    roff.control("SH", ["SEE ALSO"]);
    let names: Vec<&str> = pages.iter().map(AsRef::as_ref).collect();
    roff.text([roman(names.join(", "))]);
}

/// A page from Markdown: paragraphs, code, lists and tables of options.
fn document(
    title: &[&str],
    name: &str,
    markdown: &str,
    also: &[&str],
) -> io::Result<Vec<u8>> {
    let mut roff = Roff::new();
    roff.control("TH", title.iter().copied());
    roff.control("SH", ["NAME"]);
    roff.text([roman(name)]);
    roff.control("SH", ["DESCRIPTION"]);
    // The first line is the section's title.
    let text = markdown.split_once('\n').unwrap_or_default().1;
    let mut line: Vec<Inline> = Vec::new();
    let mut in_code = None;
    let mut in_head = false;
    let mut strong = false;
    let mut listed = false;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                in_code = Some(String::new());
            }
            Event::End(TagEnd::CodeBlock) => {
                code(&mut roff, &in_code.take().unwrap_or_default());
            }
            Event::Start(Tag::Paragraph) if !listed => {
                roff.control("PP", []);
            }
            Event::Start(Tag::Item) => {
                listed = true;
                roff.control("IP", ["\\(bu", "2"]);
            }
            Event::End(TagEnd::Item) => {
                listed = false;
                roff.text(mem::take(&mut line));
            }
            Event::Start(Tag::TableRow) => {
                roff.control("TP", []);
            }
            // It says only that these are options.
            Event::Start(Tag::TableHead) => in_head = true,
            Event::End(TagEnd::TableHead) => in_head = false,
            Event::End(TagEnd::TableCell) if in_head => line.clear(),
            Event::End(TagEnd::TableCell | TagEnd::Paragraph) => {
                roff.text(mem::take(&mut line));
            }
            Event::Start(Tag::Strong) => strong = true,
            Event::End(TagEnd::Strong) => strong = false,
            Event::Code(text) => line.push(bold(text.into_string())),
            Event::Text(text) => match &mut in_code {
                Some(code) => code.push_str(&text),
                None if strong => line.push(italic(text.into_string())),
                None => line.push(roman(text.into_string())),
            },
            Event::SoftBreak => line.push(roman(" ")),
            Event::Start(
                Tag::Table(_)
                | Tag::TableCell
                | Tag::List(_)
                | Tag::Paragraph
                | Tag::Link { .. },
            )
            | Event::End(_) => {}
            other => {
                return Err(io::Error::other(format!(
                    "docs/flooptab.md: no page has {other:?}"
                )));
            }
        }
    }
    see_also(&mut roff, also);
    let mut page = Vec::new();
    roff.to_writer(&mut page)?;
    page.flush()?;
    Ok(page)
}
