//! Division of 128-bit products by 64-bit numbers.
//!
//! Products of a count and a period may need 98 bits, but nearly always fit 64, where the processor
//! divides in one instruction and the 128-bit routine takes a hundred.

/// Divides by a number that is known long before the dividend: one multiplication and a shift.
///
/// With `s` such that `divisor <= 2^s`, and `factor = 2^(62 + s) / divisor` rounded up, the rounding adds
/// less than `divisor` to `divisor x factor`. So for dividends below 2^62 what is computed lies above the
/// true quotient by less than `2^-s <= 1 / divisor`, which never reaches the next whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    pub(crate) number: u64,
    pub(crate) factor: u64,
    pub(crate) shift: u8,
}

impl Divisor {
    /// The dividends it is exact for are below this.
    pub(crate) const END: u64 = 1 << 62;

    pub(crate) fn new(divisor: u64) -> Option<Self> {
        if divisor == 0 || divisor >= Self::END {
            return None;
        }
        let shift = u64::BITS - (divisor - 1).leading_zeros();
        let factor = (1_u128 << (62 + shift)).div_ceil(u128::from(divisor)) as u64;
        Some(Self { number: divisor, factor, shift: shift as u8 })
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.number
    }

    #[inline]
    pub(crate) fn quotient(&self, dividend: u64) -> u64 {
        debug_assert!(dividend < Self::END);
        (mul(dividend << 2, self.factor) >> 64) as u64 >> self.shift
    }
}

#[inline]
pub(crate) fn div_floor(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => u128::from(small / divisor),
        Err(_) => dividend / u128::from(divisor),
    }
}

#[inline]
pub(crate) fn div_ceil(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => u128::from(small.div_ceil(divisor)),
        Err(_) => dividend.div_ceil(u128::from(divisor)),
    }
}

/// Quotient and remainder in one go.
#[inline]
pub(crate) fn div_rem(dividend: u128, divisor: u64) -> (u128, u64) {
    match u64::try_from(dividend) {
        Ok(small) => (u128::from(small / divisor), small % divisor),
        Err(_) => (dividend / u128::from(divisor), (dividend % u128::from(divisor)) as u64),
    }
}

#[inline]
pub(crate) fn mul(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// The value, or the largest `u64` if it does not fit.
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
                // The neighbours of multiples are where a quotient would first go wrong.
                let multiple = dividend / divisor * divisor;
                [dividend, multiple, multiple.wrapping_sub(1), multiple + 1].into_iter().for_each(exact);
            }
        }
    }
}
