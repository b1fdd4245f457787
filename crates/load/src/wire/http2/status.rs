//! What a gRPC call failed with.

use super::answer::Said;

/// The text of an error, from the headers that ended an answer.
pub(super) fn text(said: &Said) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    match (said.grpc_status, said.http_status) {
        (Some(0), _) => "grpc-status 0 (OK) without a whole message".to_owned(),
        (Some(status), _) => {
            let name = NAMES.get(status as usize).copied().unwrap_or("no known status");
            let message = said.grpc_message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("grpc-status {status} ({name}){message}")
        }
        (None, Some(status)) if status != 200 => format!("http status {status} without a grpc-status"),
        (None, _) => "the answer ended without a grpc-status".to_owned(),
    }
}
