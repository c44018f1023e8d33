/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* Arithmetic without floating point.
 *
 * Gains and ratios have 20 fractional bits, rates are bytes per second, times microseconds. Every division rounds
 * down. A product of a rate or an amount below 2^40 and a gain below 2^24 fits 64 bits.
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

/* a - b, or 0 below. */
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
	/* The same in two parts, which together fit 64 bits if the bytes do. */
	us = least_of(us, 1ULL << 36);
	return rate / USEC_PER_SEC * us + rate % USEC_PER_SEC * us / USEC_PER_SEC;
}

/* The maximum of a sliding window in constant space (Kathleen Nichols' algorithm): three samples, each newer than the
 * one before it and no larger. Window and times share a unit.
 */
struct max_sample {
	__u64 at;
	__u64 value;
};

struct max_filter {
	struct max_sample first, second, third;
};

static __u64 max_get(const struct max_filter *f)
{
	return f->first.value;
}

static void max_reset(struct max_filter *f, __u64 at, __u64 value)
{
	struct max_sample sample = { at, value };

	f->first = sample;
	f->second = sample;
	f->third = sample;
}

static void max_update(struct max_filter *f, __u64 window, __u64 at, __u64 value)
{
	struct max_sample sample = { at, value };
	__u64 age;

	if (value >= f->first.value || at - f->third.at > window) {
		max_reset(f, at, value);
		return;
	}
	if (value >= f->second.value) {
		f->second = sample;
		f->third = sample;
	} else if (value >= f->third.value) {
		f->third = sample;
	}
	age = at - f->first.at;
	if (age > window) {
		f->first = f->second;
		f->second = f->third;
		f->third = sample;
		if (at - f->first.at > window) {
			f->first = f->second;
			f->second = f->third;
			f->third = sample;
		}
	} else if (f->second.at == f->first.at && age > window / 4) {
		f->second = sample;
		f->third = sample;
	} else if (f->third.at == f->second.at && age > window / 2) {
		f->third = sample;
	}
}
