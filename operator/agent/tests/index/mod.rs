//! Wheels and package indexes on this machine, made by the test.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Adds a wheel to a directory that is an index (PEP 503): a module with its `VERSION`, and a command
/// `NAME-command`. A wheel is a zip archive, which Python's library writes.
pub(crate) fn wheel(directory: &Path, name: &str, version: &str) {
    const PROGRAM: &str = r#"
import os, sys, zipfile
root, name, version = sys.argv[1:]
directory = os.path.join(root, name)
os.makedirs(directory, exist_ok=True)
file = "%s-%s-py3-none-any.whl" % (name, version)
with open(directory + "/index.html", "a") as page:
    page.write("<!DOCTYPE html><a href='%s'>%s</a>" % (file, file))
info = "%s-%s.dist-info/" % (name, version)
code = "VERSION = %r\ndef main():\n    print(%r, VERSION)\n" % (version, name)
with zipfile.ZipFile(os.path.join(directory, file), "w") as wheel:
    wheel.writestr(name + ".py", code)
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\n%s-command = %s:main\n" % (name, name))
    wheel.writestr(info + "RECORD", "")
"#;
    let mut python = Command::new("python3");
    python.args(["-c", PROGRAM]).arg(directory).args([name, version]);
    assert!(python.status().unwrap().success());
}

/// What an index says to every request.
pub(crate) enum Answer {
    /// This status.
    Status(&'static str),
    /// It accepts and is silent.
    Nothing,
}

/// An index on this machine; it lives as long as the test's process.
pub(crate) struct Index {
    port: u16,
    asked: Receiver<()>,
}

impl Index {
    /// Starts it.
    pub(crate) fn that_answers(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // The test may not wait for it.
                let _ = sender.send(());
                match answer {
                    Answer::Nothing => silent.push(stream),
                    Answer::Status(status) => {
                        let _ = stream.read(&mut [0; 4096]);
                        let head = "Content-Length: 0\r\nConnection: close\r\n\r\n";
                        let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}");
                    }
                }
            }
        });
        Self { port, asked }
    }

    /// Its address, with user and password before the host.
    pub(crate) fn address(&self, userinfo: &str) -> String {
        format!("http://{userinfo}127.0.0.1:{}/simple", self.port)
    }

    /// Waits until somebody has connected.
    pub(crate) fn was_asked(&self) {
        self.asked.recv_timeout(Duration::from_mins(1)).unwrap();
    }
}
