/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Arithmetic without floating point.
 *
 * Gains and ratios have 20 fractional bits, rates are bytes per second, and times are microseconds. Every division
 * rounds down. A product of a rate or an amount below 2^40 and a gain below 2^24 fits 64 bits.
 */
enum { GAIN_SHIFT = 20, ONE = 1 << GAIN_SHIFT };

#define USEC_PER_SEC 1000000ULL

static __u32 atleast(__u32 value, __u32 least)
{
	return value > least ? value : least;
}

static __u32 atmost(__u32 value, __u32 most)
{
	return value < most ? value : most;
}

static __u64 least_of(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __u64 most_of(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* a - b, or 0 if b is larger. */
static __u64 less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __u64 times_gain(__u64 value, __u64 gain)
{
	return value * gain >> GAIN_SHIFT;
}

/* Bytes per second. */
static __u64 rate_of(__u64 bytes, __u64 us)
{
	return us ? bytes * USEC_PER_SEC / us : 0;
}

/* The bytes that a rate carries in a time. */
static __u64 bytes_over(__u64 rate, __u64 us)
{
	if (us < 1 << 26 && rate < 1ULL << 37)
		return rate * us / USEC_PER_SEC;
	/* The product is computed in two parts, whose sum fits 64 bits if the result does. */
	us = least_of(us, 1ULL << 36);
	return rate / USEC_PER_SEC * us + rate % USEC_PER_SEC * us / USEC_PER_SEC;
}

/* n / d. If the guess is right, this costs only a multiplication; callers guess their last result, which most divisions
 * repeat. guess * d must fit 64 bits.
 */
static __u64 quotient(__u64 n, __u64 d, __u64 guess)
{
	return n - guess * d < d ? guess : n / d;
}

/* Whether bytes > bytes_over(rate, us), for bytes below 2^44; without a division for usual values. */
static bool exceeds(__u64 bytes, __u64 rate, __u64 us)
{
	if (us < 1 << 26 && rate < 1ULL << 37)
		return bytes * USEC_PER_SEC > rate * us;
	return bytes > bytes_over(rate, us);
}

/* For functions with a pointer argument: the verifier refuses a function if the argument points into the socket in one
 * call and into the socket's storage in another call.
 */
#define INLINE static inline __attribute__((always_inline))

/* The maximum of a sliding window in constant space (Kathleen Nichols' algorithm): three samples, each newer than the
 * previous sample and no larger than it. Window and times share a unit, and ages wrap at 2^32 units.
 */
struct max_filter {
	__u64 value[3];
	__u32 at[3];
};

static __u64 max_get(const struct max_filter *f)
{
	return f->value[0];
}

INLINE void max_set(struct max_filter *f, __u32 place, __u32 at, __u64 value)
{
	f->at[place] = at;
	f->value[place] = value;
}

INLINE void max_reset(struct max_filter *f, __u32 at, __u64 value)
{
	max_set(f, 0, at, value);
	max_set(f, 1, at, value);
	max_set(f, 2, at, value);
}

/* Drops the first sample, which has left the window. */
INLINE void max_shift(struct max_filter *f, __u32 at, __u64 value)
{
	max_set(f, 0, f->at[1], f->value[1]);
	max_set(f, 1, f->at[2], f->value[2]);
	max_set(f, 2, at, value);
}

INLINE void max_update(struct max_filter *f, __u64 window, __u32 at, __u64 value)
{
	__u32 age;

	if (value >= f->value[0] || at - f->at[2] > window) {
		max_reset(f, at, value);
		return;
	}
	if (value >= f->value[1]) {
		max_set(f, 1, at, value);
		max_set(f, 2, at, value);
	} else if (value >= f->value[2]) {
		max_set(f, 2, at, value);
	}
	age = at - f->at[0];
	if (age > window) {
		max_shift(f, at, value);
		if (at - f->at[0] > window)
			max_shift(f, at, value);
	} else if (f->at[1] == f->at[0] && age > window / 4) {
		max_set(f, 1, at, value);
		max_set(f, 2, at, value);
	} else if (f->at[2] == f->at[1] && age > window / 2) {
		max_set(f, 2, at, value);
	}
}
