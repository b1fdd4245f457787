//! Rules and limits that work together, and the ways a rule can be softened.

mod all_or_nothing;
mod cost;
mod count_denied;
mod enforce_percent;
mod hierarchical;
mod quota_mode;
mod refund;
mod replaces;
mod shadow_mode;
mod tiers;
mod unlimited;
