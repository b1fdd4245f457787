//! Connections to servers.

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates,
};

use super::Shared;
use super::node::unreachable;
use super::url::Host;
use crate::error::StoreError;

impl Shared {
    /// Connects to a server that holds counters.
    pub(super) async fn connect(&self, host: &Host) -> Result<MultiplexedConnection, StoreError> {
        if host.port == 0 {
            return Err(StoreError::Unreachable("no sentinel has named the primary yet".into()));
        }
        let password = match &self.url.password_file {
            None => self.url.password.clone(),
            Some(path) => {
                let unreadable =
                    |error| StoreError::Unreachable(format!("{}: {error}", path.display()).into());
                Some(std::fs::read_to_string(path).map_err(unreadable)?.trim_end().to_owned())
            }
        };
        let mut login =
            RedisConnectionInfo::default().set_db(self.url.db).set_protocol(ProtocolVersion::RESP2);
        if let Some(username) = &self.url.username {
            login = login.set_username(username);
        }
        if let Some(password) = password {
            login = login.set_password(password);
        }
        self.open(host, login).await
    }

    /// Connects to a sentinel, which has no databases and often no password.
    pub(super) async fn connect_sentinel(&self, host: &Host) -> Result<MultiplexedConnection, StoreError> {
        self.open(host, RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2)).await
    }

    /// Subscribes to channels of a sentinel.
    pub(super) async fn subscribe(&self, sentinel: &Host, channels: &[&str]) -> Result<PubSub, StoreError> {
        let login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2);
        let client = self.client(sentinel, login)?;
        let mut subscription = client.get_async_pubsub().await.map_err(unreachable)?;
        subscription.subscribe(channels).await.map_err(unreachable)?;
        Ok(subscription)
    }

    async fn open(
        &self,
        host: &Host,
        login: RedisConnectionInfo,
    ) -> Result<MultiplexedConnection, StoreError> {
        // Callers have their own deadlines.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = self.client(host, login)?;
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(unreachable)
    }

    fn client(&self, host: &Host, login: RedisConnectionInfo) -> Result<Client, StoreError> {
        let Host { name, port } = host.clone();
        let address = if self.url.tls {
            ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(name, port)
        };
        // Without this, small calls wait for the replies to earlier ones.
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let login = login.set_skip_set_lib_name();
        let info = address.into_connection_info().map_err(unreachable)?;
        let info = info.set_tcp_settings(tcp).set_redis_settings(login);
        let client = match &self.url.ca {
            Some(ca) if self.url.tls => {
                let unreadable = |error| StoreError::Unreachable(format!("{}: {error}", ca.display()).into());
                let root_cert = Some(std::fs::read(ca).map_err(unreadable)?);
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        };
        client.map_err(unreachable)
    }
}
