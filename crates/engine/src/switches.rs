//! Kill switches, which put rules into shadow mode or turn them off whatever the rule files say.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_stores::Force;

use crate::limit_terms::LimitTerms;
use crate::limiter::Limiter;
use crate::rules::tree::RuleSet;

/// The position of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// The rule is enforced as it is written.
    #[default]
    Enforce,
    /// The rule is evaluated and counted, but denies nothing.
    Shadow,
    /// The rule is not evaluated.
    Off,
}

/// The switch for all rules, and the switches of single rules. For each rule, the one that switches off more counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// The switch for all rules.
    pub all: Switch,
    /// The switches of single rules, by the rule's name or path.
    pub rules: BTreeMap<String, Switch>,
}

/// Reasons why a switch cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The mode does not exist.
    #[error("must be enforce, shadow or off, got {0:?}")]
    Mode(String),
    /// The text is not a list of rules and modes.
    #[error("must be a list such as `api_key=shadow, ip=off`, got {0:?}")]
    List(String),
    /// There is no rule with this ID.
    #[error("no rule is called {0:?}; /rlconfig and /admin/v1/rules list them")]
    NoRule(String),
}

impl FromStr for Switch {
    type Err = SwitchError;

    fn from_str(text: &str) -> Result<Self, SwitchError> {
        match text.trim() {
            "enforce" => Ok(Self::Enforce),
            "shadow" => Ok(Self::Shadow),
            "off" => Ok(Self::Off),
            other => Err(SwitchError::Mode(other.to_owned())),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        })
    }
}

/// Writes switches in the format of the settings: `*=enforce, api_key=shadow`.
impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*={}", self.all)?;
        self.rules.iter().try_for_each(|(rule, switch)| write!(f, ", {rule}={switch}"))
    }
}

impl Switches {
    /// Parses the switches of single rules: `api_key=shadow, ip=off`. The path of a rule may contain `=`, so the last
    /// one separates the mode.
    ///
    /// # Errors
    /// Returns an error if the text is not such a list.
    pub fn read_rules(text: &str) -> Result<BTreeMap<String, Switch>, SwitchError> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let read = |pair: &str| {
            let (rule, mode) = pair.rsplit_once('=').ok_or_else(|| SwitchError::List(pair.to_owned()))?;
            Ok((rule.trim().to_owned(), mode.parse()?))
        };
        pairs.map(read).collect()
    }

    fn of(&self, rule: &str) -> Switch {
        self.rules.get(rule).copied().unwrap_or_default().max(self.all)
    }
}

impl Limiter {
    /// Sets the switch of one rule, or of all with `None`. It acts from now on, whatever the rules say. Where a rule and
    /// all rules are switched, the one that switches off more counts.
    ///
    /// # Errors
    /// Returns an error if there is no rule with this ID.
    pub fn switch(&self, rule: Option<&str>, switch: Switch) -> Result<(), SwitchError> {
        if let Some(rule) = rule
            // A switch may be left of a rule that does not exist any more.
            && !self.inner.rules.load().has_rule(rule)
            && !self.switches().rules.contains_key(rule)
        {
            return Err(SwitchError::NoRule(rule.to_owned()));
        }
        self.inner.switch(|switches| match (rule, switch) {
            (None, _) => switches.all = switch,
            (Some(rule), Switch::Enforce) => drop(switches.rules.remove(rule)),
            (Some(rule), _) => drop(switches.rules.insert(rule.to_owned(), switch)),
        });
        Ok(())
    }

    /// Sets all switches at once: those that are not named are unset. Switches of rules that do not exist wait for them.
    pub fn set_switches(&self, switches: Switches) {
        self.inner.switch(|known| *known = switches);
    }

    /// Returns the switches in force.
    pub fn switches(&self) -> Switches {
        self.inner.origins.state().switches.clone()
    }
}

impl RuleSet {
    /// Applies switches to compiled rules, so that decisions need not check them.
    pub(crate) fn switch(&mut self, switches: &Switches) {
        for rule in self.domains_mut().iter_mut().flat_map(|domain| &mut domain.rules) {
            match switches.of(&rule.id) {
                Switch::Enforce => {}
                Switch::Shadow => rule.terms = LimitTerms::of_rule(Force::Shadow),
                Switch::Off => {
                    rule.limits = Box::default();
                    rule.tiers.clear();
                    rule.personal = false;
                    rule.concurrency = None;
                }
            }
        }
    }

    /// Returns whether there is a rule with this ID.
    pub(crate) fn has_rule(&self, id: &str) -> bool {
        self.domains.iter().flat_map(|domain| &domain.rules).any(|rule| &*rule.id == id)
    }
}
