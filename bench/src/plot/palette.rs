//! One colour per subject, the same in every plot, and distinguishable with colour blindness (Okabe and Ito).

use plotters::style::RGBColor;

pub(crate) const FIXED_WINDOW: RGBColor = RGBColor(213, 94, 0);
pub(crate) const SLIDING_WINDOW: RGBColor = RGBColor(0, 114, 178);
pub(crate) const SUB_WINDOWS: RGBColor = RGBColor(0, 158, 115);
pub(crate) const SUB_WINDOWS_FEW: RGBColor = RGBColor(122, 196, 150);
pub(crate) const SLIDING_LOG: RGBColor = RGBColor(70, 70, 70);
pub(crate) const TOKEN_BUCKET: RGBColor = RGBColor(170, 68, 153);
pub(crate) const LEAKY_BUCKET: RGBColor = RGBColor(230, 159, 0);
pub(crate) const QUEUE: RGBColor = RGBColor(86, 180, 233);
pub(crate) const GOVERNOR: RGBColor = RGBColor(120, 120, 120);

pub(crate) const TIDEGATE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const PEER: RGBColor = RGBColor(213, 94, 0);
/// The colour of servers that allow every request.
pub(crate) const CONSTANT: RGBColor = RGBColor(150, 150, 150);

/// The colour of targets, offered load and other references.
pub(crate) const REFERENCE: RGBColor = RGBColor(150, 150, 150);
pub(crate) const TEXT: RGBColor = RGBColor(40, 40, 40);
pub(crate) const GRID: RGBColor = RGBColor(228, 228, 228);
pub(crate) const OFFERED: RGBColor = RGBColor(222, 222, 222);
