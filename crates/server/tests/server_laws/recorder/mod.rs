//! What the service records of its decisions, as its admin API shows it.

mod access;
mod dashboard;
mod decisions;
mod fleet;
mod live;
mod tenant;
mod warnings;

use serde_json::Value;

use crate::support::service::{Answer, Service, Setup};

/// Windows are long, so that none ends during a test.
const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: secret
    hide_keys: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
";

fn start() -> Service {
    Setup::rules(RULES).start()
}

impl Service {
    /// GETs JSON of its admin API as an administrator.
    fn read(&self, path: &str) -> Value {
        let answer = self.read_answer(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    fn read_answer(&self, path: &str) -> Answer {
        self.ask("GET", &format!("/admin/v1/{path}"), &Value::Null)
    }

    /// The sum of a series of its history.
    #[expect(clippy::float_arithmetic, clippy::cast_sign_loss, reason = "rates are fractions")]
    fn decided(&self, rule: &str, outcome: &str, span: &str) -> u64 {
        let history = self.read(&format!("history?rule={rule}&span={span}"));
        let step_s = history["step_s"].as_f64().expect("a number");
        let series = history["series"].as_array().expect("a list").iter();
        let values = series.filter(|series| series["name"] == outcome).flat_map(|series| {
            series["values"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect::<Vec<_>>()
        });
        (values.sum::<f64>() * step_s).round() as u64
    }

    /// The counts of the keys of a rule.
    fn top(&self, by: &str, window: &str, rule: &str) -> Vec<(Value, u64)> {
        let list = self.read(&format!("top?by={by}&window={window}&rule={rule}"));
        let keys = list["keys"].as_array().expect("a list").iter();
        keys.map(|key| (key["key"].clone(), key["count"].as_u64().expect("a number"))).collect()
    }
}
