//! The network of a command: none, or one port of its own loopback that leads to this server, or all of it.
//!
//! The command's own network namespace has nothing but a loopback. What it sends to the server's port there goes through a
//! socket in the file system to a process that stands outside and passes it on.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

use api::algorithm::Network;
use model::Result;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket as open_socket};
use worker::confine::Order;

use super::{mounts, no_isolation, stage};

/// The outer end of the gate.
pub fn socket(order: &Order) -> PathBuf {
    order.work.join("gate")
}

/// Starts the process that passes on what comes through the gate, where that is wanted. It stands in the machine's own
/// network, and must be a process: whoever has entered a pid namespace can start no thread.
pub fn open(order: &Order, program: &Path, file: &Path) -> Result<Option<Child>> {
    if order.no_isolation || order.network != Network::Server || order.server.is_none() {
        return Ok(None);
    }
    let wrong = |error: io::Error| no_isolation(format!("gate: {error}"));
    // It is open before the process runs, which is handed it as its standard input.
    let listener = UnixListener::bind(socket(order)).map_err(wrong)?;
    let process = stage(program, "gate", file).stdin(OwnedFd::from(listener)).stdout(Stdio::null()).spawn();
    process.map(Some).map_err(wrong)
}

/// Is that process.
pub fn keep(order: &Order) -> Result<()> {
    let server = order.server.as_deref().expect("a gate is opened only to a server");
    let listener = io::stdin().as_fd().try_clone_to_owned().map(UnixListener::from);
    let listener = listener.map_err(|error| no_isolation(format!("gate: {error}")))?;
    for inside in listener.incoming().filter_map(io::Result::ok) {
        match TcpStream::connect(server) {
            Ok(outside) => join(inside, outside),
            Err(error) => eprintln!("the server does not answer: {error}"),
        }
    }
    Ok(())
}

/// Leaves the network of the machine, and opens the server's port on the own loopback where that is wanted.
pub fn leave_network(order: &Order) -> Result<Option<JoinHandle<()>>> {
    if order.network == Network::All {
        return Ok(None);
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| no_isolation(format!("network namespace: {error}")))?;
    let (Network::Server, Some(server)) = (order.network, &order.server) else { return Ok(None) };
    raise_loopback().map_err(|error| no_isolation(format!("loopback: {error}")))?;
    let listener = TcpListener::bind(server).map_err(|error| no_isolation(format!("gate on {server}: {error}")))?;
    Ok(Some(thread::spawn(move || {
        for inside in listener.incoming().filter_map(io::Result::ok) {
            match UnixStream::connect(mounts::GATE) {
                Ok(outside) => join(outside, inside),
                Err(error) => eprintln!("the gate does not answer: {error}"),
            }
        }
    })))
}

/// A message of rtnetlink(7) that sets IFF_UP on interface 1, which is the loopback of every network namespace.
fn raise_loopback() -> io::Result<()> {
    const LENGTH: u32 = 32;
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_ACK: u16 = 1 | 4;
    const IFF_UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    // Sequence number and sender; then family and type of the interface, both unspecified.
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let socket = open_socket(AddressFamily::Netlink, kind.0, kind.1, SockProtocol::NetlinkRoute)?;
    let mut socket = File::from(socket);
    socket.write_all(&message)?;
    let mut answer = [0; 128];
    let read = socket.read(&mut answer)?;
    // An acknowledgement is an error message with the number zero after its header of 16 bytes.
    let number = answer[..read].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::Error::other("no acknowledgement")),
    }
}

/// Copies both ways until both are at their end.
fn join(a: UnixStream, b: TcpStream) {
    let (Ok(mut a_reader), Ok(mut b_reader)) = (a.try_clone(), b.try_clone()) else { return };
    let (mut a, mut b) = (a, b);
    // A connection that breaks is the command's own business: it sees it on its side.
    thread::spawn(move || {
        drop(io::copy(&mut a_reader, &mut b));
        drop(b.shutdown(Shutdown::Write));
    });
    thread::spawn(move || {
        drop(io::copy(&mut b_reader, &mut a));
        drop(a.shutdown(Shutdown::Write));
    });
}
