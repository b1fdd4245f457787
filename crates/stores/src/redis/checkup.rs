//! Checks whether a server is suitable for the store.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::timeout;

use super::node::Node;
use super::reply::refused;
use super::script::CODE;
use super::{RedisStore, Shared};

const PATIENCE: Duration = Duration::from_secs(2);
/// The oldest version with all commands that the script uses.
const OLDEST: (u32, u32) = (6, 2);

/// The result of checking one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The server's name.
    pub server: String,
    /// Program and version, if the server reported them.
    pub version: Option<String>,
    /// What is wrong with the server, each with what to do about it.
    pub problems: Vec<String>,
}

impl RedisStore {
    /// Checks every server: its version, its behaviour when memory runs out, and whether the user may run every
    /// command that the store needs.
    pub async fn check_up(&self) -> Vec<Finding> {
        let routes = self.shared.routes.load_full();
        let mut findings = Vec::with_capacity(routes.nodes.len());
        for node in &routes.nodes {
            let look = look_over(&self.shared, node);
            findings.push(timeout(PATIENCE, look).await.unwrap_or_else(|_| unanswered(node)));
        }
        findings
    }
}

fn unanswered(node: &Node) -> Finding {
    let problems = vec!["does not reply; rules decide by on_store_error until it does".to_owned()];
    Finding { server: node.name.clone(), version: None, problems }
}

async fn look_over(shared: &Shared, node: &Arc<Node>) -> Finding {
    let mut finding = Finding { server: node.name.clone(), version: None, problems: Vec::new() };
    let mut connection = match node.connect(shared).await {
        Ok(connection) => connection,
        Err(error) => {
            finding.problems.push(error.to_string());
            return finding;
        }
    };
    match connection.send_packed_command(&redis::cmd("INFO")).await {
        Ok(Value::BulkString(text)) => read_info(&String::from_utf8_lossy(&text), &mut finding),
        Ok(Value::ServerError(error)) => finding.problems.push(format!("INFO: {}", refused(&error))),
        Ok(_) => {}
        Err(error) => finding.problems.push(error.to_string()),
    }
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(CODE.as_str());
    for command in iter::once(load).chain(rehearsal(shared, node)) {
        match connection.send_packed_command(&command).await {
            Ok(Value::ServerError(error)) => {
                let problem = format!(
                    "{}; the user needs ~{}:* and +@all -@dangerous",
                    refused(&error),
                    shared.settings.prefix
                );
                finding.problems.push(problem);
            }
            Ok(_) => {}
            Err(error) => finding.problems.push(error.to_string()),
        }
    }
    finding
}

/// Returns a script that runs every command of the store on a key that it then deletes; `None` for a server without
/// partitions. A server that completes it is not only alive, but can do its work. The key is deleted at the start
/// only if it holds data of another program: a script that has deleted something may write although memory is full.
pub(super) fn rehearsal(shared: &Shared, node: &Arc<Node>) -> Option<redis::Cmd> {
    let partition = shared.routes.load().partition_on(node)?;
    let mut rehearsal = redis::cmd("EVAL");
    rehearsal.arg(REHEARSAL).arg(1).arg(format!("{}:{{{partition}}}:checkup", shared.settings.prefix));
    Some(rehearsal)
}

/// Returns a write to a key that expires soon. A server that can write replies with OK.
pub(super) fn small_write(shared: &Shared, node: &Arc<Node>) -> Option<redis::Cmd> {
    let partition = shared.routes.load().partition_on(node)?;
    let mut write = redis::cmd("SET");
    write.arg(format!("{}:{{{partition}}}:idle", shared.settings.prefix)).arg(1).arg("PX").arg(1_000);
    Some(write)
}

const REHEARSAL: &str = "\
local key = KEYS[1]
if redis.call('TYPE', key).ok ~= 'none' then
  redis.call('DEL', key)
end
redis.call('TIME')
redis.call('HSET', key, 'a', '1')
redis.call('HMGET', key, 'a')
redis.call('HGETALL', key)
redis.call('HRANDFIELD', key, 1, 'WITHVALUES')
redis.call('PEXPIRE', key, 1000)
redis.call('HDEL', key, 'a')
redis.call('RPUSH', key, 'a')
redis.call('LINDEX', key, 0)
redis.call('LRANGE', key, 0, 0)
redis.call('LLEN', key)
redis.call('LSET', key, 0, 'b')
redis.call('LTRIM', key, 0, -1)
redis.call('LPOP', key)
redis.call('RPUSH', key, 'a')
redis.call('RPOP', key)
redis.call('ZADD', key, 1, 'a')
redis.call('ZCARD', key)
redis.call('ZREMRANGEBYSCORE', key, '-inf', '+inf')
redis.call('DEL', key)
redis.call('SET', key, 'a', 'PX', 1000)
redis.call('GETDEL', key)
return 1";

fn read_info(info: &str, finding: &mut Finding) {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
            .unwrap_or_default()
    };
    let (program, version) = match field("valkey_version") {
        "" => ("Redis", field("redis_version")),
        version => ("Valkey", version),
    };
    finding.version = Some(format!("{program} {version}"));
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        finding.problems.push(format!("{program} {version} is too old; 6.2 is the oldest that works"));
    }
    let (policy, most) = (field("maxmemory_policy"), field("maxmemory"));
    if policy != "noeviction" && !policy.is_empty() && most != "0" {
        finding.problems.push(format!(
            "maxmemory-policy {policy} erases counters when memory runs out, which forgets what was used; set noeviction"
        ));
    }
    if field("role") == "slave" {
        finding.problems.push(
            "it is a replica and takes no writes; name the primary, or use redis+sentinel://".to_owned(),
        );
    }
}
