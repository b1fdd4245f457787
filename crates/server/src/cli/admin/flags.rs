//! Flags for the address of the node, the token and the certificates.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate::Problems;

use super::Outcome;
use super::client::{Client, NodeAddress};
use super::context::store::{Context, Contexts};
use super::failure::Failure;
use super::tls;
use crate::cli::flags::ConfigFlag;
use crate::cli::out;
use crate::config::Settings;

/// The flags of every command over the admin API.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(in crate::cli) struct AdminFlags {
    /// The admin address of the node: `host:port`, a URL, or `unix:/path`.
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        help = "Admin address of the node: `host:port`, a URL, or `unix:/path` [env: TIDEGATE_ADMIN] [default: http://127.0.0.1:6070]",
        value_parser = NodeAddress::parse
    )]
    admin: Option<NodeAddress>,
    /// The context to use for this command.
    #[arg(
        long,
        value_name = "NAME",
        help = "Context to use for this command; see `tidegate context` [env: TIDEGATE_CONTEXT]",
        conflicts_with = "admin"
    )]
    context: Option<String>,
    /// The token; other users of this machine can see it.
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// The file with the token.
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the token [env: TIDEGATE_TOKEN_FILE, or TIDEGATE_TOKEN]"
    )]
    token_file: Option<PathBuf>,
    /// The file with the certificate authorities to trust, PEM [default: those of the system]
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the certificate authorities to trust, PEM [default: those of the system] [env: TIDEGATE_CA]"
    )]
    ca: Option<PathBuf>,
    /// The file with the client certificate, PEM; needs --key.
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the client certificate, PEM; needs --key [env: TIDEGATE_CERT]",
        requires = "key"
    )]
    cert: Option<PathBuf>,
    /// The file with the private key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the private key of that certificate, PEM [env: TIDEGATE_KEY]",
        requires = "cert"
    )]
    key: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
}

/// The node of a command, before the flags for tokens and certificates are considered.
struct Target {
    base: NodeAddress,
    context: Context,
    /// Whether the context was named by its flag: it takes precedence over the environment then.
    by_flag: bool,
}

impl Target {
    fn find(admin: Option<NodeAddress>, context: Option<&str>) -> Outcome<Self> {
        let alone = |base| Ok(Self { base, context: Context::default(), by_flag: false });
        if let Some(base) = admin {
            return alone(base);
        }
        if let Some(name) = context {
            return Self::of(Contexts::load()?.find(name)?.clone(), name, true);
        }
        if let Some(text) = variable("TIDEGATE_ADMIN") {
            let base = NodeAddress::parse(&text);
            return alone(
                base.map_err(|wrong| Failure::usage(format!("TIDEGATE_ADMIN: {wrong}, got {text:?}")))?,
            );
        }
        let contexts = Contexts::load()?;
        match variable("TIDEGATE_CONTEXT").or_else(|| contexts.current.clone()) {
            Some(name) => Self::of(contexts.find(&name)?.clone(), &name, false),
            None => alone(NodeAddress::default_node()),
        }
    }

    fn of(context: Context, name: &str, by_flag: bool) -> Outcome<Self> {
        let base = NodeAddress::parse(&context.admin).map_err(|wrong| {
            Failure::other(format!("context {name}: admin {wrong}, got {:?}", context.admin))
        })?;
        Ok(Self { base, context, by_flag })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

impl AdminFlags {
    /// Returns a client for the node.
    pub(in crate::cli) fn client(self) -> Outcome<Client> {
        let Target { base, context, by_flag } = Target::find(self.admin, self.context.as_deref())?;
        let ca = self.ca.or_else(|| file_variable("TIDEGATE_CA", by_flag, context.ca));
        let (cert, key) = match (self.cert, self.key) {
            (Some(cert), Some(key)) => (Some(cert), Some(key)),
            _ => (
                file_variable("TIDEGATE_CERT", by_flag, context.cert),
                file_variable("TIDEGATE_KEY", by_flag, context.key),
            ),
        };
        if cert.is_some() != key.is_some() {
            return Err(Failure::usage(
                "a certificate needs its key: set both TIDEGATE_CERT and TIDEGATE_KEY",
            ));
        }
        let identity = cert.as_deref().zip(key.as_deref());
        let tls = if base.is_tls() { Some(tls::trust(ca.as_deref(), identity)?) } else { None };
        let (first, last) = if by_flag { (context.token_file, None) } else { (None, context.token_file) };
        let given = token(self.token, self.token_file, first, last)?;
        let token = match given {
            Some(token) => {
                if !base.is_tls() && !base.is_local() {
                    out::note(format_args!(
                        "warning: the token is sent to {base} unencrypted; use an https:// address"
                    ));
                }
                Some(token)
            }
            // The token of a node on this machine is not sent elsewhere.
            None if base.is_local() => own_token(self.config)?,
            None => None,
        };
        Client::new(base, token, tls)
    }

    /// Returns the settings of this machine.
    pub(in crate::cli) fn settings(self) -> Result<Settings, Problems> {
        self.config.settings()
    }
}

/// Returns the file that the environment or the context names. A context that was named by its flag takes precedence.
fn file_variable(name: &str, context_first: bool, of_context: Option<PathBuf>) -> Option<PathBuf> {
    let of_environment = variable(name).map(PathBuf::from);
    if context_first { of_context.or(of_environment) } else { of_environment.or(of_context) }
}

/// Returns the token of the flags, else of the first context, else of the environment, else of the last context. One of
/// the contexts is `None`.
fn token(
    flag: Option<String>,
    file: Option<PathBuf>,
    first: Option<PathBuf>,
    last: Option<PathBuf>,
) -> Outcome<Option<String>> {
    if let Some(token) = flag {
        return checked(&token, "--token").map(Some);
    }
    if let Some(file) = file.or(first) {
        return read(&file).map(Some);
    }
    if let Some(token) = variable("TIDEGATE_TOKEN") {
        return checked(&token, "TIDEGATE_TOKEN").map(Some);
    }
    variable("TIDEGATE_TOKEN_FILE").map(PathBuf::from).or(last).map(|file| read(&file)).transpose()
}

fn read(file: &Path) -> Outcome<String> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::other(format!(
            "cannot read the token in {}: {error}; give a file that you may read",
            file.display()
        ))
    })?;
    checked(&text, &file.display().to_string())
}

/// Checks that a token fits into a header. The error does not show it.
fn checked(text: &str, from: &str) -> Outcome<String> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::other(format!("{from} has no token in it: it must be one word, tg_…")));
    }
    Ok(token.to_owned())
}

/// Returns the token that a node on this machine generated for itself, if there is one.
fn own_token(config: ConfigFlag) -> Outcome<Option<String>> {
    let settings = config.settings().map_err(|problems| Failure::other(problems.to_string()))?;
    let file = settings.data.join("admin-token");
    match fs::metadata(&file) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        _ => read(&file).map(Some),
    }
}
