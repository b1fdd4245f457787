//! The flags for settings, which are generated from the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use tidegate::Problems;

use crate::config::table::{Flag, SETTINGS, Setting};
use crate::config::{DEFAULT_FILE, Settings, Sources, load, variable};

/// `--config` and a flag for each setting that has one.
#[derive(Debug)]
pub(super) struct SettingFlags {
    config: Option<PathBuf>,
    /// The names of settings, with their texts.
    flags: Vec<(&'static str, String)>,
}

/// `--config` alone, for commands that need only a few settings.
#[derive(Args, Clone, Debug)]
pub(super) struct ConfigFlag {
    #[arg(long, value_name = "FILE", help = config_help())]
    config: Option<PathBuf>,
}

impl SettingFlags {
    /// Loads the settings.
    pub(super) fn settings(self) -> Result<Settings, Problems> {
        load(&Sources::of_process(self.config, self.flags))
    }
}

impl ConfigFlag {
    /// Loads the settings.
    pub(super) fn settings(self) -> Result<Settings, Problems> {
        load(&Sources::of_process(self.config, Vec::new()))
    }
}

fn config_help() -> String {
    format!(
        "Settings file [default: {DEFAULT_FILE} in the current folder, if there is one] [env: TIDEGATE_CONFIG]"
    )
}

fn flagged() -> impl Iterator<Item = (&'static Setting, Flag)> {
    SETTINGS.iter().filter_map(|row| Some((row, row.flag?)))
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let config =
            Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf));
        flagged().fold(command.arg(config.help(config_help())), |command, (row, flag)| {
            let about = row.help.trim_end_matches('.');
            let variable = variable(row.name);
            let help = format!("{about} [default: {}] [env: {variable}]", row.default);
            command.arg(Arg::new(flag.name).long(flag.name).value_name(flag.value).help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |(row, flag): (&'static Setting, Flag)| {
            let text = matches.get_one::<String>(flag.name)?;
            Some((row.name, text.clone()))
        };
        Ok(Self { config: matches.get_one("config").cloned(), flags: flagged().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
