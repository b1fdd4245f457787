//! The texts of gRPC errors.

use super::response::HeaderFields;

/// Returns the text of an error from the headers at the end of a response.
pub(super) fn text(fields: &HeaderFields) -> String {
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
    match (fields.grpc_status, fields.http_status) {
        (Some(0), _) => "grpc-status 0 (OK) without a complete message".to_owned(),
        (Some(status), _) => {
            let name = NAMES.get(status as usize).copied().unwrap_or("unknown status");
            let message = fields.grpc_message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("grpc-status {status} ({name}){message}")
        }
        (None, Some(status)) if status != 200 => format!("http status {status} without a grpc-status"),
        (None, _) => "the response ended without a grpc-status".to_owned(),
    }
}
