//! Division of 128-bit products by 64-bit numbers.
//!
//! Products of a count and a period may need 98 bits, but nearly always fit 64, where the processor
//! divides in one instruction and the 128-bit routine takes a hundred.

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
