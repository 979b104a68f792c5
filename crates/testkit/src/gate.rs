//! A network between a program and a server on loopback that can be cut at a chosen message.
//!
//! Nothing is lost, as in a network that is mended: what was under way arrives once the gate is opened, also when whoever
//! sent it has hung up meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::process::until;

const SOON: Duration = Duration::from_secs(20);

/// What happens to the message that the gate waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It does not arrive, and nothing else does.
    Before,
    /// It arrives; its answer does not, and nothing else does.
    After,
    /// It does not arrive, and its connection stands still; all others go on.
    Late,
}

#[derive(Debug, Default)]
struct State {
    awaited: Option<(Vec<u8>, Cut)>,
    is_shut: bool,
    /// Connections that stand still by themselves while `is_late`.
    late: Vec<usize>,
    is_late: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    opened: Condvar,
    is_over: AtomicBool,
}

/// Passes everything on until it is told otherwise; ends when it is dropped.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// A gate before `HOST:PORT`.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (shared, server) = (Arc::new(Shared::default()), server.to_owned());
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                if own.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else { continue };
                let (Ok(back), Ok(forth)) = (client.try_clone(), server.try_clone()) else { continue };
                let (asks, answers) = (Arc::clone(&own), Arc::clone(&own));
                std::thread::spawn(move || asks.pass(number, client, forth, true));
                std::thread::spawn(move || answers.pass(number, server, back, false));
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// `HOST:PORT` of its own.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Cuts at the next message of a client in which these bytes stand.
    ///
    /// # Panics
    /// When they are empty.
    pub fn cut(&self, bytes: &[u8], cut: Cut) {
        assert!(!bytes.is_empty(), "a message is known by something");
        self.shared.state.lock().expect("no holder of this lock panics").awaited = Some((bytes.to_vec(), cut));
    }

    /// Waits until the message came.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn until_cut(&self) {
        let has_come = || self.shared.state.lock().expect("no holder of this lock panics").awaited.is_none();
        until("the awaited message comes", SOON, || has_come().then_some(()));
    }

    /// Lets everything on that was held.
    pub fn open(&self) {
        let mut state = self.shared.state.lock().expect("no holder of this lock panics");
        (state.awaited, state.is_shut, state.is_late) = (None, false, false);
        drop(state);
        self.shared.opened.notify_all();
    }
}

impl Shared {
    /// Passes bytes on until their sender ends.
    fn pass(&self, connection: usize, mut from: TcpStream, mut to: TcpStream, is_client: bool) {
        let mut buffer = vec![0; 64 * 1024];
        let mut seen = Vec::new();
        loop {
            let read = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(read) => read,
                // A connection that breaks ends.
                Err(_) => 0,
            };
            if is_client {
                seen.extend_from_slice(&buffer[..read]);
            }
            let is_let_through = self.find(connection, &mut seen);
            if !is_let_through {
                self.wait(connection);
            }
            if read == 0 {
                if !self.is_late(connection) {
                    // The other side may have ended before.
                    let _ = to.shutdown(Shutdown::Write);
                }
                return;
            }
            if to.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    }

    /// Looks for the awaited message. True when it came and is to pass.
    fn find(&self, connection: usize, seen: &mut Vec<u8>) -> bool {
        let mut state = self.state.lock().expect("no holder of this lock panics");
        let Some((bytes, cut)) = state.awaited.clone() else {
            seen.clear();
            return false;
        };
        if !seen.windows(bytes.len()).any(|part| part == bytes) {
            // It may come in two pieces.
            seen.drain(..seen.len().saturating_sub(bytes.len()));
            return false;
        }
        seen.clear();
        state.awaited = None;
        match cut {
            Cut::Late => {
                state.late.push(connection);
                state.is_late = true;
            }
            Cut::Before | Cut::After => state.is_shut = true,
        }
        cut == Cut::After
    }

    /// Whether a message of this connection came late. That its sender hung up comes later still: whoever gets the message
    /// has time to do what it says.
    fn is_late(&self, connection: usize) -> bool {
        self.state.lock().expect("no holder of this lock panics").late.contains(&connection)
    }

    /// Waits while this connection stands still.
    fn wait(&self, connection: usize) {
        let state = self.state.lock().expect("no holder of this lock panics");
        let stands = |state: &mut State| {
            (state.is_shut || (state.is_late && state.late.contains(&connection)))
                && !self.is_over.load(Ordering::SeqCst)
        };
        drop(self.opened.wait_while(state, stands).expect("no holder of this lock panics"));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.open();
        // A last connection wakes the thread.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            thread.join().ok();
        }
    }
}
