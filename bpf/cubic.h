/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* CUBIC's curve in fixed point: segments by the time since a cut.
 *
 *   peak + speed (t - K)^3,   K = cbrt((peak - low) / speed)
 *
 * Segments have 20 fractional bits and times are 2^-20 s. Speed, in segments/s^3, has 24 fractional bits. K is too low
 * by at most 2^-20 s plus 2^-38 of its value; the time since the cut is too low by at most 2^-20 s. The error of the
 * curve is its growth in the time by which K and the time since the cut are too low. This error is largest at the ends
 * of the curve: 3 (peak - low) / K · 2^-20 s. At 0.32 segments/s^3 the error is below 7e-6 of the curve's value, and
 * below 0.001 segments while the curve is below 1000 segments. native/cubic.c measures the error for other speeds. More
 * than 2048 s before or after K the curve is flat: 2.7 billion segments from the peak at 0.32 segments/s^3, and 8
 * million at the lowest speed.
 */
enum { SPEED_SHIFT = 24 };

#define CURVE_FAR (1ULL << 31)

/* value x factor, where the factor has 20 fractional bits. As times_gain, but for products beyond 64 bits. */
static __u64 scaled(__u64 value, __u64 factor)
{
	return (value >> GAIN_SHIFT) * factor + ((value & (ONE - 1)) * factor >> GAIN_SHIFT);
}

/* As `scaled`, but rounded up. */
static __u64 scaled_up(__u64 value, __u64 factor)
{
	return (value >> GAIN_SHIFT) * factor + (((value & (ONE - 1)) * factor + ONE - 1) >> GAIN_SHIFT);
}

/* Microseconds in units of the curve. */
static __u64 curve_time(__u64 us)
{
	return least_of(us, 1ULL << 40) * (ONE / 64) / (USEC_PER_SEC / 64);
}

/* K, computed from peak - low. The function is not static: the verifier checks its loops once instead of on every path
 * to it.
 */
__attribute__((noinline)) __u64 curve_back(__u64 depth, __u64 speed)
{
	__u64 whole, ratio, root = 0, next, bit;
	int up = 0, place;

	if (!depth || !speed)
		return 0;
	/* The ratio is in s^3 with 27 fractional bits, so the root has 9 fractional bits. */
	whole = depth / speed;
	if (whole >= 1ULL << 31)
		return 2 * CURVE_FAR;
	ratio = (whole << 31) + ((depth % speed) << 31) / speed;
	if (!ratio)
		return 0;
	while (ratio < 1ULL << 60 && up < 20) {
		ratio <<= 3;
		up++;
	}
	/* Bit by bit, as on paper: (2r + 1)^3 - (2r)^3 = 3 · 2r (2r + 1) + 1. Each bit is the sign of a difference
	 * below 2^63: with a branch the verifier would follow every possible root.
	 */
	for (place = 60; place >= 0; place -= 3) {
		root *= 2;
		next = 3 * root * (root + 1) + 1;
		bit = 1 - (((ratio >> place) - next) >> 63);
		ratio -= (next << place) * bit;
		root += bit;
	}
	/* 20 more bits from the remainder, by the slope 3 r^2. */
	root = (root << 20) + (ratio << 20) / (3 * root * root);
	return root >> (9 + up);
}

/* speed x time^3. */
static __u64 curve_growth(__u64 time, __u64 speed)
{
	__u64 square, cube;

	time = least_of(time, CURVE_FAR);
	square = time * time >> GAIN_SHIFT;
	cube = scaled(square, time);
	return (cube >> SPEED_SHIFT) * speed + ((cube & ((1 << SPEED_SHIFT) - 1)) * speed >> SPEED_SHIFT);
}

/* The curve, rounded away from the peak. The curve is so flat near the peak that with rounding towards the peak it
 * would reach the peak too early or never leave it. Any cut below the peak and any growth beyond the peak count,
 * however small.
 */
static __u64 curve_at(__u64 peak, __u64 back, __u64 time, __u64 speed)
{
	if (time < back)
		return less(peak, curve_growth(back - time, speed) + 1);
	return peak + curve_growth(time - back, speed) + 1;
}
