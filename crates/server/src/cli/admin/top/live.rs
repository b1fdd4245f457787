//! The terminal: keys that are pressed, and a thread that asks the node.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::Outcome;
use super::super::client::Client;
use super::super::failure::Failure;
use super::reading::{Query, Reading, View};
use super::screen::Screen;

/// How often the node is asked.
const EVERY: Duration = Duration::from_secs(2);
/// How long to wait for a key press before checking for a new reading.
const GLANCE: Duration = Duration::from_millis(100);

/// Shows the node until the user leaves.
///
/// # Errors
/// If the node cannot be asked even once, or the terminal fails. Later failures are shown, and the node is asked again.
pub(super) fn run(client: Client, query: Query) -> Outcome {
    let first = Reading::ask(&client, &query)?;
    let mut screen = Screen::new(client.address().to_string(), query.clone(), first);
    let (to_reader, wanted) = mpsc::channel();
    let (to_screen, readings) = mpsc::channel();
    thread::spawn(move || read(&client, query, &wanted, &to_screen));
    let shown = ratatui::run(|terminal| -> std::io::Result<()> {
        loop {
            terminal.draw(|frame| screen.draw(frame))?;
            if event::poll(GLANCE)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                let before = screen.query.clone();
                if press(&mut screen, key) {
                    return Ok(());
                }
                if screen.query != before {
                    // The reader lives for as long as this receiver of its readings.
                    let _ = to_reader.send(screen.query.clone());
                }
            }
            while let Ok(reading) = readings.try_recv() {
                screen.take(reading);
            }
        }
    });
    shown.map_err(|error| Failure::other(format!("the terminal cannot be used: {error}")))
}

/// Does what a key asks for. Returns whether the user leaves.
fn press(screen: &mut Screen, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let query = &mut screen.query;
    match key.code {
        KeyCode::Char('c' | 'd') if control => return true,
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('1') => query.view = View::Keys,
        KeyCode::Char('2') => query.view = View::Rules,
        KeyCode::Char('3') => query.view = View::Denials,
        KeyCode::Tab | KeyCode::Right => query.next_view(1),
        KeyCode::BackTab | KeyCode::Left => query.next_view(View::ALL.len() - 1),
        KeyCode::Char('b') => query.next_by(),
        KeyCode::Char('w') => query.next_window(),
        KeyCode::Char('n') => query.node = !query.node,
        KeyCode::Char('p' | ' ') => query.paused = !query.paused,
        KeyCode::Down | KeyCode::Char('j') => screen.select(1),
        KeyCode::Up | KeyCode::Char('k') => screen.select(-1),
        KeyCode::PageDown => screen.select(10),
        KeyCode::PageUp => screen.select(-10),
        _ => {}
    }
    false
}

/// Queries the node every two seconds, and at once if the query changes, until the receiver of the readings is
/// dropped.
fn read(
    client: &Client,
    mut query: Query,
    wanted: &Receiver<Query>,
    readings: &Sender<Result<Reading, Failure>>,
) {
    // The first reading has been taken.
    let mut next = wanted.recv_timeout(EVERY);
    loop {
        match next {
            Ok(newest) => query = newest,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Ok(newest) = wanted.try_recv() {
            query = newest;
        }
        if !query.paused && readings.send(Reading::ask(client, &query)).is_err() {
            return;
        }
        next = wanted.recv_timeout(EVERY);
    }
}
