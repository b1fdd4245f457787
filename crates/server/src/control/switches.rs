//! Kill switches from three origins, and which of them applies.
//!
//! Switches come from the settings of a node, from the catalog, and from the node itself while the catalog cannot be
//! written: a switch of the node stands in for the catalog's until the catalog is reachable again. Between the settings
//! and these, the one that switches off more applies, so that the settings of a node are not silently overridden.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tidegate::{Switch, Switches};
use tidegate_catalog::{Changes, SwitchMode};
use utoipa::ToSchema;

/// The name of the switch for all rules.
pub(crate) const ALL: &str = "*";

/// Where a switch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Origin)]
pub enum SwitchOrigin {
    /// The settings of this node: `enforcement` or `switches`.
    Settings,
    /// The catalog: it applies to all nodes.
    Catalog,
    /// This node alone, until the catalog is reachable again.
    Node,
}

impl SwitchOrigin {
    /// Returns the name of the origin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Catalog => "catalog",
            Self::Node => "node",
        }
    }
}

/// A switch that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchState {
    /// The rule, or `*` for all.
    pub rule: String,
    /// The mode that applies.
    pub mode: Switch,
    /// The origin of that mode.
    pub from: SwitchOrigin,
}

/// All switches of a node.
#[derive(Default)]
pub(super) struct SwitchBoard {
    settings: Switches,
    catalog: BTreeMap<String, Switch>,
    node: BTreeMap<String, NodeSwitch>,
}

#[derive(Clone, Copy)]
struct NodeSwitch {
    mode: Switch,
    /// Whether the catalog has been unreachable since: the switch is removed when the catalog is back.
    outage: bool,
}

impl SwitchBoard {
    pub(super) fn new(settings: Switches) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Applies changes of the catalog. A switch of the catalog replaces the node's own switch for the same rule.
    pub(super) fn apply(&mut self, changes: &Changes) {
        let before = if changes.whole { std::mem::take(&mut self.catalog) } else { BTreeMap::new() };
        for switch in &changes.switches {
            let mode = engine_mode(switch.mode);
            let is_new = !changes.whole || before.get(&switch.rule) != Some(&mode);
            self.catalog.insert(switch.rule.clone(), mode);
            if is_new {
                self.node.remove(&switch.rule);
            }
        }
    }

    /// Sets a switch of this node alone, or removes it. Returns whether one was set before.
    pub(super) fn set_node(&mut self, rule: &str, mode: Option<Switch>, outage: bool) -> bool {
        match mode {
            Some(mode) => self.node.insert(rule.to_owned(), NodeSwitch { mode, outage }).is_some(),
            None => self.node.remove(rule).is_some(),
        }
    }

    /// Notes that the catalog is unreachable.
    pub(super) fn outage(&mut self) {
        self.node.values_mut().for_each(|switch| switch.outage = true);
    }

    /// Removes the node's switches that stood in for the catalog while it was unreachable. Returns their rules.
    pub(super) fn catalog_is_back(&mut self) -> Vec<String> {
        let gone = self.node.iter().filter(|(_, switch)| switch.outage).map(|(rule, _)| rule.clone());
        let gone: Vec<String> = gone.collect();
        self.node.retain(|_, switch| !switch.outage);
        gone
    }

    /// Returns every switch that is set, the one for all rules first.
    pub(super) fn states(&self) -> Vec<SwitchState> {
        let all = Some(ALL.to_owned()).filter(|all| {
            self.settings.all != Switch::Enforce
                || self.catalog.contains_key(all)
                || self.node.contains_key(all)
        });
        let single = self.settings.rules.keys().chain(self.catalog.keys()).chain(self.node.keys());
        let single: BTreeSet<&String> = single.filter(|rule| *rule != ALL).collect();
        all.iter().chain(single).map(|rule| self.state(rule)).collect()
    }

    fn state(&self, rule: &str) -> SwitchState {
        let settings = if rule == ALL { Some(&self.settings.all) } else { self.settings.rules.get(rule) };
        let set = self.node.get(rule).map(|switch| (switch.mode, SwitchOrigin::Node));
        let set = set.or_else(|| Some((*self.catalog.get(rule)?, SwitchOrigin::Catalog)));
        let (mode, from) = match (settings.copied(), set) {
            (Some(settings), Some((mode, from))) if mode >= settings => (mode, from),
            (None, Some(set)) => set,
            (settings, _) => (settings.unwrap_or_default(), SwitchOrigin::Settings),
        };
        SwitchState { rule: rule.to_owned(), mode, from }
    }

    /// Returns the switches for the limiter.
    pub(super) fn switches(&self) -> Switches {
        let mut switches = Switches::default();
        for SwitchState { rule, mode, .. } in self.states() {
            if rule == ALL {
                switches.all = mode;
            } else {
                switches.rules.insert(rule, mode);
            }
        }
        switches
    }
}

fn engine_mode(mode: SwitchMode) -> Switch {
    match mode {
        SwitchMode::Enforce => Switch::Enforce,
        SwitchMode::Shadow => Switch::Shadow,
        SwitchMode::Off => Switch::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(whole: bool, switches: &[(&str, SwitchMode)]) -> Changes {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let switches = switches.iter().map(|(rule, mode)| tidegate_catalog::Switch {
            rule: (*rule).to_owned(),
            mode: *mode,
            updated_at: at,
            revision: 1,
        });
        Changes {
            since: 0,
            version: 1,
            whole,
            tenants: Vec::new(),
            rules: Vec::new(),
            switches: switches.collect(),
            tokens: Vec::new(),
        }
    }

    fn of(board: &SwitchBoard, rule: &str) -> Option<(Switch, &'static str)> {
        let states = board.states();
        states.iter().find(|state| state.rule == rule).map(|state| (state.mode, state.from.name()))
    }

    #[test]
    fn nothing_enforces_what_the_settings_switch_off() {
        let rules = [("a".to_owned(), Switch::Off), ("b".to_owned(), Switch::Shadow)].into();
        let mut board = SwitchBoard::new(Switches { all: Switch::Shadow, rules });
        let enforce = [("*", SwitchMode::Enforce), ("a", SwitchMode::Enforce), ("b", SwitchMode::Off)];
        board.apply(&changes(false, &enforce));
        board.set_node("a", Some(Switch::Shadow), true);
        assert_eq!(of(&board, "*"), Some((Switch::Shadow, "settings")));
        assert_eq!(of(&board, "a"), Some((Switch::Off, "settings")));
        assert_eq!(of(&board, "b"), Some((Switch::Off, "catalog")));
        assert_eq!(board.switches().all, Switch::Shadow);
    }

    #[test]
    fn a_switch_of_the_node_stands_in_until_the_catalog_is_back() {
        let mut board = SwitchBoard::default();
        board.apply(&changes(true, &[("a", SwitchMode::Shadow)]));
        board.set_node("a", Some(Switch::Off), false);
        board.set_node("b", Some(Switch::Off), false);
        assert_eq!(of(&board, "a"), Some((Switch::Off, "node")));
        // The catalog was reachable all the time, and nothing changed.
        assert!(board.catalog_is_back().is_empty());
        board.apply(&changes(true, &[("a", SwitchMode::Shadow)]));
        assert_eq!(of(&board, "a"), Some((Switch::Off, "node")));
        // The catalog changes one of them.
        board.apply(&changes(false, &[("a", SwitchMode::Enforce)]));
        assert_eq!(of(&board, "a"), Some((Switch::Enforce, "catalog")));
        // The catalog was unreachable, and is back.
        board.outage();
        assert_eq!(board.catalog_is_back(), ["b"]);
        assert_eq!(of(&board, "b"), None);
        board.set_node("c", Some(Switch::Off), false);
        assert!(board.set_node("c", None, false) && !board.set_node("c", None, false));
    }
}
