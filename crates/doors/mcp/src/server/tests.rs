use super::*;
use crate::wire::VERSION;
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixListener;

/// A client that writes what it likes and reads line by line.
struct Client {
    write: WriteHalf<DuplexStream>,
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    /// Goes into every request's `_meta`: the newest revision has no handshake.
    meta: Option<Value>,
    next: u64,
}

impl Client {
    fn start(folder: &Path, pending: Option<PendingSource>) -> Self {
        let settings = Settings {
            identity: Identity { name: "sudo-proxy", client: "sudo-proxy-mcp", version: VERSION },
            places: Places::for_tests(folder),
            registry: Registry::at(folder.join("cfg/hosts.json")),
            daemon: vec!["false".into()],
            pending,
        };
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            if let Ok(running) = Server::new(settings).serve(theirs).await {
                let _ = running.waiting().await;
            }
        });
        let (read, write) = tokio::io::split(ours);
        Self { write, lines: BufReader::new(read).lines(), meta: None, next: 0 }
    }

    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.next += 1;
        let id = self.next;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let line = self.lines.next_line().await.unwrap().expect("an answer");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn initialize(&mut self, version: &str) -> Value {
        let me = json!({"name": "tester", "version": "0"});
        let answer =
            self.ask("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": me})).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// The text of a tool's result, and whether it is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = &answer["result"];
        let texts: Vec<&str> =
            result["content"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect();
        (texts.join("\n"), result["isError"].as_bool().unwrap())
    }
}

fn names(answer: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

const TOOLS: [&str; 5] = ["execute", "start_server", "status", "stop_server", "update_host"];

#[tokio::test]
async fn every_revision_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let folder = tempfile::tempdir().unwrap();
        let mut client = Client::start(folder.path(), None);
        let result = client.initialize(version).await;
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "sudo-proxy");
        assert!(result["capabilities"]["tools"].is_object() && result["capabilities"]["resources"].is_object());
        assert_eq!(names(&client.ask("tools/list", json!({})).await), TOOLS);
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(folder.path(), None);
    client.meta = Some(json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }));
    let found = client.ask("server/discover", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&"2026-07-28".into()) && versions.contains(&"2025-11-25".into()), "{found}");
    assert_eq!(names(&client.ask("tools/list", json!({})).await), TOOLS);
    let (text, error) = client.call("status", json!({})).await;
    assert_eq!((text.as_str(), error), ("localhost: not running (no socket)", false));
}

#[tokio::test]
async fn a_call_that_cannot_be_sent_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(folder.path(), None);
    client.initialize("2025-11-25").await;
    let socket = folder.path().join("sudo-proxy.sock");
    let not_running =
        format!("sudo-proxy is not running (socket not found at {}). Call start_server first.", socket.display());
    assert_eq!(client.call("execute", json!({"argv": ["id"]})).await, (not_running, true));
    for host in [json!(null), json!("localhost"), json!("127.0.0.1"), json!("box")] {
        let (text, error) = client.call("execute", json!({"argv": ["id"], "privileged": false, "host": host})).await;
        assert!(error && text.starts_with("Refusing to run an unprivileged command on the local machine."), "{text}");
    }
    let (text, _) = client.call("execute", json!({"argv": ["id"], "host": "-x"})).await;
    assert_eq!(text, "invalid host: host must not start with '-'");
    std::fs::write(&socket, "").unwrap();
    let (text, _) = client.call("execute", json!({"pipeline": [], "argv": []})).await;
    assert_eq!(text, "Either `argv` or `pipeline` must be provided.");
    let (text, _) = client.call("execute", json!({"argv": ["id"], "forward_agent": true})).await;
    assert_eq!(text, "forward_agent is only allowed with privileged: false");
    let (text, _) = client.call("status", json!({})).await;
    assert_eq!(text, "localhost: socket present but not answering (stale?)");
}

#[tokio::test]
async fn hosts_are_noted_listed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(folder.path(), None);
    client.initialize("2025-11-25").await;
    assert_eq!(client.call("update_host", json!({"host": "zoo", "os": "BSD"})).await.0, "Updated host zoo");
    client.call("update_host", json!({"host": "zoo", "description": "animals"})).await;
    let (text, _) = client.call("status", json!({})).await;
    assert_eq!(text, "localhost: not running (no socket)\nzoo: not running (no socket) — animals (BSD)");
    let listed = client.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], "sudo-proxy://hosts");
    let read = client.ask("resources/read", json!({"uri": "sudo-proxy://hosts"})).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "application/json");
    let hosts: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(hosts["hosts"]["zoo"]["os"], "BSD");
    assert_eq!(hosts["policy"]["unattended_eligible"], false);
    let none = client.ask("resources/read", json!({"uri": "sudo-proxy://other"})).await;
    assert!(none["error"]["message"].as_str().unwrap().contains("Unknown resource: sudo-proxy://other"), "{none}");
    let (text, _) = client.call("stop_server", json!({"host": "zoo"})).await;
    assert!(text.starts_with("sudo-proxy is not running on zoo (no socket at "), "{text}");
}

#[tokio::test]
async fn a_cancelled_call_hangs_up_so_that_the_question_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = UnixListener::bind(folder.path().join("sudo-proxy.sock")).unwrap();
    let mut client = Client::start(folder.path(), None);
    client.initialize("2025-11-25").await;
    let call = json!({"name": "execute", "arguments": {"argv": ["id"]}});
    client.send(json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": call})).await;
    let (stream, _) = daemon.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert!(line.contains(r#""session":"sudo-proxy-mcp""#), "{line}");
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})).await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the connection ends");
}

#[tokio::test]
async fn what_is_pending_can_be_listed_where_it_is_offered_and_nothing_can_decide() {
    let folder = tempfile::tempdir().unwrap();
    let source: PendingSource = Arc::new(|| Ok("a1 waits".to_owned()));
    let mut client = Client::start(folder.path(), Some(source));
    client.initialize("2025-11-25").await;
    let listed = client.ask("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["execute", "pending", "start_server", "status", "stop_server", "update_host"]);
    assert_eq!(client.call("pending", json!({})).await, ("a1 waits".to_owned(), false));
    for tool in ["approve", "decide", "deny", "approval.decide"] {
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
        assert!(answer["error"].is_object(), "{answer}");
    }
}
