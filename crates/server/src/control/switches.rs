//! Kill switches from three places, and which of them counts.
//!
//! The settings of a node, the catalog, and the node itself while the catalog cannot be written: a switch of
//! the node stands in for the catalog's until the catalog has its say again. Between the settings and these,
//! what switches off more counts, so that nothing that a node was started with is overridden unseen.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::{Switch, Switches};
use tidegate_catalog::{Changes, SwitchMode};

/// What the switch of all rules is called.
pub(crate) const ALL: &str = "*";

/// Where a switch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchOrigin {
    /// `enforcement` or `switches` of this node.
    Settings,
    /// The catalog: on all nodes.
    Catalog,
    /// This node alone.
    Node,
}

impl SwitchOrigin {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Catalog => "catalog",
            Self::Node => "node",
        }
    }
}

/// A switch that is set somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchState {
    /// The rule, or `*` for all.
    pub rule: String,
    /// What counts.
    pub mode: Switch,
    /// Whose word that is.
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
    /// The catalog has been away since: when it is back, its word counts.
    outage: bool,
}

impl SwitchBoard {
    pub(super) fn new(settings: Switches) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes in what the catalog says now. What it says of a rule replaces what this node said of it.
    pub(super) fn take_in(&mut self, changes: &Changes) {
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

    /// Sets a switch of this node alone, or removes it; whether that was there.
    pub(super) fn set_node(&mut self, rule: &str, mode: Option<Switch>, outage: bool) -> bool {
        match mode {
            Some(mode) => self.node.insert(rule.to_owned(), NodeSwitch { mode, outage }).is_some(),
            None => self.node.remove(rule).is_some(),
        }
    }

    /// Notes that the catalog is away.
    pub(super) fn outage(&mut self) {
        self.node.values_mut().for_each(|switch| switch.outage = true);
    }

    /// Lets the catalog's word count again, if it was away; gives the rules whose switches of this node are
    /// gone for it.
    pub(super) fn catalog_is_back(&mut self) -> Vec<String> {
        let gone = self.node.iter().filter(|(_, switch)| switch.outage).map(|(rule, _)| rule.clone());
        let gone: Vec<String> = gone.collect();
        self.node.retain(|_, switch| !switch.outage);
        gone
    }

    /// Every switch that is set somewhere, that of all rules first.
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
        let said = self.node.get(rule).map(|switch| (switch.mode, SwitchOrigin::Node));
        let said = said.or_else(|| Some((*self.catalog.get(rule)?, SwitchOrigin::Catalog)));
        let (mode, from) = match (settings.copied(), said) {
            (Some(settings), Some((mode, from))) if mode >= settings => (mode, from),
            (None, Some(said)) => said,
            (settings, _) => (settings.unwrap_or_default(), SwitchOrigin::Settings),
        };
        SwitchState { rule: rule.to_owned(), mode, from }
    }

    /// As the limiter takes them.
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
    fn nobody_enforces_what_the_settings_switch_off() {
        let rules = [("a".to_owned(), Switch::Off), ("b".to_owned(), Switch::Shadow)].into();
        let mut board = SwitchBoard::new(Switches { all: Switch::Shadow, rules });
        let enforce = [("*", SwitchMode::Enforce), ("a", SwitchMode::Enforce), ("b", SwitchMode::Off)];
        board.take_in(&changes(false, &enforce));
        board.set_node("a", Some(Switch::Shadow), true);
        assert_eq!(of(&board, "*"), Some((Switch::Shadow, "settings")));
        assert_eq!(of(&board, "a"), Some((Switch::Off, "settings")));
        assert_eq!(of(&board, "b"), Some((Switch::Off, "catalog")));
        assert_eq!(board.switches().all, Switch::Shadow);
    }

    #[test]
    fn a_switch_of_the_node_stands_in_until_the_catalog_has_its_say() {
        let mut board = SwitchBoard::default();
        board.take_in(&changes(true, &[("a", SwitchMode::Shadow)]));
        board.set_node("a", Some(Switch::Off), false);
        board.set_node("b", Some(Switch::Off), false);
        assert_eq!(of(&board, "a"), Some((Switch::Off, "node")));
        // It was there all the time, and says nothing new.
        assert!(board.catalog_is_back().is_empty());
        board.take_in(&changes(true, &[("a", SwitchMode::Shadow)]));
        assert_eq!(of(&board, "a"), Some((Switch::Off, "node")));
        // It says something new of one of them.
        board.take_in(&changes(false, &[("a", SwitchMode::Enforce)]));
        assert_eq!(of(&board, "a"), Some((Switch::Enforce, "catalog")));
        // It was away, and is back.
        board.outage();
        assert_eq!(board.catalog_is_back(), ["b"]);
        assert_eq!(of(&board, "b"), None);
        board.set_node("c", Some(Switch::Off), false);
        assert!(board.set_node("c", None, false) && !board.set_node("c", None, false));
    }
}
