//! Records stored beside the counters: each has a name, and is kept until it is taken or its lifetime ends.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tidegate_core::Micros;
use tokio::sync::Mutex;
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

use super::RedisStore;
use super::fan_out::nowhere;
use super::node::{Node, broken, fenced, replaced};
use super::reply::Reply;
use super::routes::partition_of;
use crate::error::StoreError;

/// Maximum number of redirections of a call.
const MAX_REDIRECTS: u32 = 3;

/// Timeout of making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Connections for records, by server.
pub(super) type Connections = Mutex<HashMap<String, MultiplexedConnection>>;

impl RedisStore {
    /// Returns the approximate time of the servers.
    pub fn about(&self) -> Micros {
        let clock = self.shared.settings.clock.as_ref();
        clock.map_or_else(|| self.shared.about(), |clock| clock.now())
    }

    /// Stores a record for `lifetime`, under a unique name.
    ///
    /// # Errors
    /// Returns an error if the server did not confirm it. The record may be stored nevertheless, unless [nothing was
    /// sent](StoreError::nothing_sent).
    pub async fn keep(&self, name: &str, record: &[u8], lifetime: Duration) -> Result<(), StoreError> {
        // The clock of a test is independent of the server's, so nothing may expire by the server's clock.
        let spare =
            if self.shared.settings.clock.is_some() { Duration::from_hours(1) } else { Duration::ZERO };
        let lifetime_ms = u64::try_from((lifetime + spare).as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = redis::cmd("SET");
        command.arg(self.record_key(name)).arg(record).arg("PX").arg(lifetime_ms);
        self.in_time(self.on_record(name, &command)).await.map(drop)
    }

    /// Removes a record. Returns it and the server's time; `None` if it was taken before or never existed. After an
    /// error, call it again with the same `claim`, a unique number, to get the record.
    ///
    /// # Errors
    /// Returns an error if the server did not reply. The record may be taken nevertheless, unless [nothing was
    /// sent](StoreError::nothing_sent).
    pub async fn take_kept(&self, name: &str, claim: u64) -> Result<(Option<Vec<u8>>, Micros), StoreError> {
        // Returned together with the time, which tells whether a record has expired.
        let mut command = redis::cmd("EVAL");
        command.arg(TAKE).arg(2).arg(self.record_key(name)).arg(self.claim_key(name));
        command.arg(format!("{claim:016x}")).arg(CLAIM_MS);
        let value = self.in_time(self.on_record(name, &command)).await?;
        let Value::Array(found) = value else { return Err(StoreError::Garbled) };
        let (record, now) = match <[Value; 2]>::try_from(found) {
            Ok([Value::BulkString(record), Value::Int(now)]) => (Some(record), now),
            Ok([Value::Nil, Value::Int(now)]) => (None, now),
            _ => return Err(StoreError::Garbled),
        };
        let by_server = Micros(now.unsigned_abs());
        let clock = self.shared.settings.clock.as_ref();
        Ok((record, clock.map_or(by_server, |clock| clock.now())))
    }

    /// Returns a record without removing it.
    ///
    /// # Errors
    /// Returns an error if the server did not reply.
    pub async fn read_kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.record_key(name));
        match self.in_time(self.on_record(name, &command)).await? {
            Value::BulkString(record) => Ok(Some(record)),
            Value::Nil => Ok(None),
            _ => Err(StoreError::Garbled),
        }
    }

    /// Claims a name for a lifetime. Returns whether this call got it: of all nodes that claim the same name in that
    /// time, one does.
    ///
    /// # Errors
    /// Returns an error if the server did not reply. The name may be claimed nevertheless, unless [nothing was
    /// sent](StoreError::nothing_sent).
    pub async fn claim(&self, name: &str, lifetime: Duration) -> Result<bool, StoreError> {
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = redis::cmd("SET");
        command.arg(self.record_key(name)).arg("").arg("NX").arg("PX").arg(lifetime_ms);
        match self.in_time(self.on_record(name, &command)).await? {
            Value::Okay => Ok(true),
            Value::Nil => Ok(false),
            _ => Err(StoreError::Garbled),
        }
    }

    /// Adds a member to the list with this name, and returns all of its members. Members that `is_over` accepts are
    /// removed. The list is kept for `lifetime` after the last call.
    ///
    /// # Errors
    /// Returns an error if the server did not reply.
    pub async fn register(
        &self,
        list: &str,
        (member, record): (&str, &[u8]),
        lifetime: Duration,
        is_over: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = redis::cmd("EVAL");
        command.arg(REGISTER).arg(1).arg(self.record_key(list)).arg(member).arg(record).arg(lifetime_ms);
        let Value::Array(pairs) = self.in_time(self.on_record(list, &command)).await? else {
            return Err(StoreError::Garbled);
        };
        let mut members = Vec::new();
        for pair in pairs.chunks_exact(2) {
            let [Value::BulkString(name), Value::BulkString(record)] = pair else {
                return Err(StoreError::Garbled);
            };
            if is_over(record) {
                let mut command = redis::cmd("HDEL");
                command.arg(self.record_key(list)).arg(name.as_slice());
                self.in_time(self.on_record(list, &command)).await?;
            } else {
                members.push(record.clone());
            }
        }
        Ok(members)
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if let Ok(answer) = timeout(self.shared.settings.deadline, call).await {
            return answer;
        }
        // In case the connection has failed, the next call makes a new one.
        if let Ok(mut connections) = self.shared.records.try_lock() {
            connections.clear();
        }
        Err(StoreError::Late)
    }

    fn record_partition(&self, name: &str) -> u32 {
        partition_of(xxh3_64(name.as_bytes()), self.shared.settings.partitions)
    }

    fn record_key(&self, name: &str) -> String {
        format!("{}:{{{}}}:r:{name}", self.shared.settings.prefix, self.record_partition(name))
    }

    /// Returns the key under which a taken record stays available to the holder of the claim.
    fn claim_key(&self, name: &str) -> String {
        format!("{}:{{{}}}:t:{name}", self.shared.settings.prefix, self.record_partition(name))
    }

    /// Sends a command to the server that holds a record, and follows redirections.
    async fn on_record(&self, name: &str, command: &Cmd) -> Result<Value, StoreError> {
        let route =
            self.shared.routes.load().of(self.record_partition(name)).map(|route| Arc::clone(route.node));
        let node = route.ok_or_else(nowhere)?;
        if !node.breaker.admits() {
            return Err(StoreError::Open);
        }
        let term = node.open_term().ok_or_else(fenced)?;
        let mut host = node.host.load_full().to_string();
        let mut asking = false;
        for _ in 0..MAX_REDIRECTS {
            let mut connection = self.record_connection(&node, &host).await?;
            let sent = send(&mut connection, command, asking).await;
            let value = match sent {
                Ok(_) if node.term() != term => return Err(replaced()),
                Ok(value) => value,
                Err(error) => {
                    self.shared.records.lock().await.remove(&host);
                    self.shared.refresh_topology();
                    return Err(error);
                }
            };
            if !matches!(value, Value::ServerError(_)) {
                return Ok(value);
            }
            match Reply::of(value) {
                Reply::Redirected { address, asking: ask } => {
                    self.shared.refresh_topology();
                    (host, asking) = (node.resolve(&address).to_string(), ask);
                }
                Reply::Moving => {}
                Reply::Failed(error) => {
                    // A primary that became a replica accepts no writes.
                    self.shared.refresh_topology();
                    return Err(error);
                }
                _ => return Err(StoreError::Garbled),
            }
        }
        Err(StoreError::Unreachable("its keys are on the move".into()))
    }
}

/// Sets a member of a hash and returns all of them.
const REGISTER: &str = "\
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return redis.call('HGETALL', KEYS[1])";

/// How long a taken record stays available to a caller with the same claim that got no reply.
const CLAIM_MS: u64 = 60_000;

/// Removes a key. Returns its value and the server's time. The value is kept for a while under the claim, 16 digits,
/// so that a caller that got no reply can repeat the call.
const TAKE: &str = "\
local found = redis.call('GETDEL', KEYS[1])
if found then
  redis.call('SET', KEYS[2], ARGV[1] .. found, 'PX', ARGV[2])
else
  local claimed = redis.call('GET', KEYS[2])
  if claimed and string.sub(claimed, 1, 16) == ARGV[1] then
    found = string.sub(claimed, 17)
  end
end
local time = redis.call('TIME')
return { found, time[1] * 1000000 + time[2] }";

async fn send(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    asking: bool,
) -> Result<Value, StoreError> {
    if !asking {
        return connection.send_packed_command(command).await.map_err(broken);
    }
    let mut pipeline = redis::Pipeline::with_capacity(2);
    pipeline.add_command(redis::cmd("ASKING")).add_command(command.clone());
    let values = connection.send_packed_commands(&pipeline, 0, 2).await.map_err(broken)?;
    values.into_iter().next_back().ok_or(StoreError::Garbled)
}

impl RedisStore {
    /// Returns a connection to a server. A new connection is completed even if the caller stops waiting, for use by
    /// the next caller.
    async fn record_connection(&self, node: &Node, host: &str) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = self.shared.records.lock().await.get(host) {
            return Ok(connection.clone());
        }
        let (shared, to, name) = (Arc::clone(&self.shared), node.resolve(host), host.to_owned());
        let connect = async move {
            let connection = timeout(CONNECT_TIMEOUT, shared.connect(&to)).await;
            let connection = connection.unwrap_or(Err(StoreError::Late))?;
            shared.records.lock().await.insert(name, connection.clone());
            Ok(connection)
        };
        let made = tokio::spawn(connect).await;
        made.unwrap_or_else(|_| Err(StoreError::Unreachable("its runtime has ended".into())))
    }
}
