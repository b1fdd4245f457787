//! Kill switches: rules that only look, or do nothing, whatever their files say.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_stores::Force;

use crate::limiter::{Inner, Limiter};
use crate::rules::source::Source;
use crate::rules::tree::RuleSet;
use crate::standing::Standing;

/// What becomes of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// It does what its file says.
    #[default]
    Enforce,
    /// It is evaluated and counted, and denies nobody.
    Shadow,
    /// Nobody looks at it.
    Off,
}

/// A switch for all rules, and those of single ones. What switches off more counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// For all rules.
    pub all: Switch,
    /// By the rule's name or path.
    pub rules: BTreeMap<String, Switch>,
}

/// Why a text is no switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// No such mode.
    #[error("must be enforce, shadow or off, got {0:?}")]
    Mode(String),
    /// Not a list of rules and modes.
    #[error("must be a list such as `api_key=shadow, ip=off`, got {0:?}")]
    List(String),
    /// No rule is called so.
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

/// `*=enforce, api_key=shadow`, as settings spell them.
impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*={}", self.all)?;
        self.rules.iter().try_for_each(|(rule, switch)| write!(f, ", {rule}={switch}"))
    }
}

impl Switches {
    /// Reads the switches of single rules: `api_key=shadow, ip=off`. A rule's path may have a `=` in it,
    /// so the last one counts.
    ///
    /// # Errors
    /// What is wrong with the text.
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
    /// Lets one rule, or all, be enforced, only evaluated, or ignored, from now on and whatever the files
    /// say. Where both are switched, what switches off more counts.
    ///
    /// # Errors
    /// If no rule is called so.
    pub fn switch(&self, rule: Option<&str>, switch: Switch) -> Result<(), SwitchError> {
        self.inner.throw(rule, switch)
    }

    /// Throws all switches at once: these stand, and no others. Those of rules that there are not wait for
    /// them.
    pub fn set_switches(&self, switches: Switches) {
        self.inner.set_switches(switches);
    }

    /// How switches stand.
    pub fn switches(&self) -> Switches {
        self.inner.source.lock().switches.clone()
    }
}

impl Inner {
    /// Throws a switch; the rules loaded last are put in force with it.
    fn throw(&self, rule: Option<&str>, switch: Switch) -> Result<(), SwitchError> {
        let mut source = self.source.lock();
        match rule {
            None => source.switches.all = switch,
            Some(rule) => {
                // One that is thrown already may be of a rule that has gone since.
                if !self.rules.load().has_rule(rule) && !source.switches.rules.contains_key(rule) {
                    return Err(SwitchError::NoRule(rule.to_owned()));
                }
                match switch {
                    Switch::Enforce => source.switches.rules.remove(rule),
                    _ => source.switches.rules.insert(rule.to_owned(), switch),
                };
            }
        }
        tracing::warn!(rule = rule.unwrap_or("(all)"), %switch, "a switch was thrown");
        self.put_switched(&source);
        Ok(())
    }

    fn set_switches(&self, switches: Switches) {
        let mut source = self.source.lock();
        if source.switches != switches {
            tracing::warn!(%switches, "switches were thrown");
            source.switches = switches;
            self.put_switched(&source);
        }
    }

    /// Puts the rules loaded last in force as they are switched now.
    fn put_switched(&self, source: &Source) {
        let before = self.rules.load();
        // They compiled before.
        if let Ok(mut rules) = source.recompile(self.backend.memory.seed(), before.generation + 1) {
            // What tenants have goes by the places of the same rules.
            rules.set_tenants(before.tenants.clone());
            self.put_in_force(rules);
        }
    }
}

impl RuleSet {
    /// Switches rules while they are compiled, so that decisions need not look.
    pub(crate) fn switch(&mut self, switches: &Switches) {
        for rule in self.domains_mut().iter_mut().flat_map(|domain| &mut domain.rules) {
            match switches.of(&rule.id) {
                Switch::Enforce => {}
                Switch::Shadow => rule.standing = Standing::of_rule(Force::Shadow),
                Switch::Off => {
                    rule.limits = Box::default();
                    rule.tiers.clear();
                    rule.personal = false;
                    rule.concurrency = None;
                }
            }
        }
    }

    /// Whether a rule is called so.
    pub(crate) fn has_rule(&self, id: &str) -> bool {
        self.domains.iter().flat_map(|domain| &domain.rules).any(|rule| &*rule.id == id)
    }
}
