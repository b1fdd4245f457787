//! The names and lengths of windows, and where the epoch-aligned ones begin and end.

use tidegate_core::{Calendar, CalendarUnit, Micros, Span, Window};

const NAMED: [(&str, u64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("week", 604_800),
    ("month", 2_592_000),
    ("year", 31_536_000),
];

#[test]
fn names_are_those_of_envoy_in_any_case() {
    for (name, seconds) in NAMED {
        let window = Window::Period { us: seconds * 1_000_000 };
        assert_eq!(Window::named(name).as_ref(), Some(&window));
        assert_eq!(Window::named(&name.to_uppercase()).as_ref(), Some(&window));
        assert_eq!(window.to_string(), name, "what has a name is shown by it");
    }
    for unknown in ["", "seconds", "fortnight", " day", "1"] {
        assert_eq!(Window::named(unknown), None, "{unknown:?}");
    }
}

#[test]
fn lengths_without_a_name_are_shown_in_the_largest_whole_unit() {
    let cases = [
        (1, "1us"),
        (999, "999us"),
        (1_000, "1ms"),
        (250_000, "250ms"),
        (1_500_000, "1500ms"),
        (2_000_000, "2s"),
        (90_000_000, "90s"),
        (120_000_000, "2m"),
        (5_400_000_000, "90m"),
        (7_200_000_000, "2h"),
        (172_800_000_000, "48h"),
        (1_000_001, "1000001us"),
    ];
    for (us, text) in cases {
        assert_eq!(Window::Period { us }.to_string(), text);
    }
}

#[test]
fn calendar_windows_are_shown_with_their_zone() {
    let units = [
        (CalendarUnit::Day, "day in Europe/Berlin"),
        (CalendarUnit::Week, "week in Europe/Berlin"),
        (CalendarUnit::Month, "month in Europe/Berlin"),
        (CalendarUnit::Year, "year in Europe/Berlin"),
    ];
    for (unit, text) in units {
        assert_eq!(Window::Calendar(Calendar::new(unit, "Europe/Berlin").unwrap()).to_string(), text);
    }
    assert!(Calendar::new(CalendarUnit::Day, "Europe/Atlantis").is_none());
}

#[test]
fn periods_are_aligned_to_the_epoch() {
    let window = Window::seconds(60);
    let minute =
        |index: u64| Span { start: Micros(index * 60_000_000), end: Micros((index + 1) * 60_000_000) };
    assert_eq!(window.span(Micros(0)), minute(0));
    assert_eq!(window.span(Micros(59_999_999)), minute(0));
    assert_eq!(window.span(Micros(60_000_000)), minute(1));
    assert_eq!(window.span(Micros(1_700_000_000_000_000)).length_us(), 60_000_000);
    assert!(minute(1).contains(Micros(60_000_000)) && !minute(1).contains(Micros(120_000_000)));
}

#[test]
fn time_does_not_go_below_zero_or_past_its_end() {
    assert_eq!(Micros(5).since(Micros(9)), 0);
    assert_eq!(Micros(9).since(Micros(5)), 4);
    assert_eq!(Micros(5).minus(9), Micros(0));
    assert_eq!(Micros(u64::MAX).plus(1), Micros(u64::MAX));
}
