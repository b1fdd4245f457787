//! Division of 128-bit products by 64-bit numbers.
//!
//! A product of a count and a period may need 102 bits but nearly always fits into 64. There the
//! processor divides with one instruction, where the 128-bit routine takes about a hundred.

/// A precomputed divisor: dividing by it is one multiplication and a shift.
///
/// Let `divisor <= 2^s` and `factor = 2^(62 + s) / divisor`, rounded up. The rounding adds less than
/// `divisor` to `divisor x factor`. So for dividends below 2^62 the computed value exceeds the exact
/// quotient by less than `2^-s <= 1 / divisor`, which never reaches the next whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    pub(crate) number: u64,
    pub(crate) factor: u64,
    pub(crate) shift: u8,
}

impl Divisor {
    /// The bound for dividends: the quotient is exact for those below it.
    pub(crate) const END: u64 = 1 << 62;

    /// Creates a divisor. Returns `None` if it is 0 or not below [`Divisor::END`].
    pub(crate) fn new(divisor: u64) -> Option<Self> {
        if divisor == 0 || divisor >= Self::END {
            return None;
        }
        let shift = u64::BITS - (divisor - 1).leading_zeros();
        let factor = (1_u128 << (62 + shift)).div_ceil(u128::from(divisor)) as u64;
        Some(Self { number: divisor, factor, shift: shift as u8 })
    }

    /// Returns the divisor itself.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.number
    }

    /// Returns `dividend / divisor`, rounded down, for a dividend below [`Divisor::END`].
    #[inline]
    pub(crate) fn quotient(&self, dividend: u64) -> u64 {
        debug_assert!(dividend < Self::END);
        (mul(dividend << 2, self.factor) >> 64) as u64 >> self.shift
    }
}

/// Divides, rounding down.
#[inline]
pub(crate) fn div_floor(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => u128::from(small / divisor),
        Err(_) => dividend / u128::from(divisor),
    }
}

/// Divides, rounding up.
#[inline]
pub(crate) fn div_ceil(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => u128::from(small.div_ceil(divisor)),
        Err(_) => dividend.div_ceil(u128::from(divisor)),
    }
}

/// Returns the quotient and the remainder.
#[inline]
pub(crate) fn div_rem(dividend: u128, divisor: u64) -> (u128, u64) {
    match u64::try_from(dividend) {
        Ok(small) => (u128::from(small / divisor), small % divisor),
        Err(_) => (dividend / u128::from(divisor), (dividend % u128::from(divisor)) as u64),
    }
}

/// Multiplies without overflow.
#[inline]
pub(crate) fn mul(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// Converts to 64 bits, saturating at `u64::MAX`.
#[inline]
pub(crate) fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn a_divisor_divides_exactly() {
        let near = |number: u64| (number.saturating_sub(3)..=number + 3).filter(|near| *near < Divisor::END);
        let powers = || (0..62).flat_map(|power| near(1 << power)).chain(near(Divisor::END - 1));
        let mut random = 1_u64;
        for divisor in powers().chain([7, 10, 641, 86_400_000_000, 9_999_999_967]).filter(|it| *it > 0) {
            let by = Divisor::new(divisor).unwrap();
            let exact = |dividend: u64| {
                let dividend = dividend % Divisor::END;
                assert_eq!(by.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
            };
            powers().for_each(exact);
            for _ in 0..500 {
                random = random.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                let dividend = (random >> 2) >> (random % 62);
                // A wrong quotient would show up first at a multiple of the divisor or beside it.
                let multiple = dividend / divisor * divisor;
                [dividend, multiple, multiple.wrapping_sub(1), multiple + 1].into_iter().for_each(exact);
            }
        }
    }
}
