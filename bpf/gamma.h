/* SPDX-License-Identifier: GPL-2.0 */
#pragma once
/* omega^gamma for omega in (0, 1] and gamma in [0, 16], in fixed point.
 *
 *   omega^gamma = 2^(-gamma L),   L = -log2(omega)
 *
 * Both functions use the next lower of 32 table points and a series for the rest, which is at most 1/32. The series end
 * with the fourth power (error of L: 6e-9; error of the power: 4e-11), and the fractions have 30 bits. gamma multiplies
 * the error of L, so the absolute error of the power is below 2^-22 for every gamma up to 16. A gain is rounded to
 * 2^-20. native/gamma.c measures both errors.
 */
enum { CURVE_STEPS = 32 };

/* round(2^30 log2(1 + i/32)) */
static const __u32 log2_at[CURVE_STEPS] = {
	0, 47667823, 93912511, 138816582, 182455581, 224898839, 266210141, 306448299,
	345667660, 383918542, 421247625, 457698295, 493310944, 528123241, 562170370, 595485245,
	628098702, 660039669, 691335320, 722011213, 752091421, 781598637, 810554283, 838978604,
	866890747, 894308843, 921250079, 947730758, 973766362, 999371606, 1024560487, 1049346328,
};

/* round(2^30 2^(-i/32)) */
static const __u32 exp2_at[CURVE_STEPS] = {
	1073741824, 1050733751, 1028218693, 1006186087, 984625594, 963527098, 942880699, 922676710,
	902905651, 883558244, 864625413, 846098274, 827968132, 810226483, 792865000, 775875538,
	759250125, 742980960, 727060411, 711481005, 696235434, 681316545, 666717336, 652430958,
	638450708, 624770026, 611382493, 598281827, 585461881, 572916640, 560640218, 548626854,
};

/* 2^36 / (32 + i), rounded up */
static const __u32 reciprocal[CURVE_STEPS] = {
	2147483648, 2082408386, 2021161081, 1963413622, 1908874354, 1857283156, 1808407283, 1762037866,
	1717986919, 1676084799, 1636178018, 1598127366, 1561806290, 1527099484, 1493901669, 1462116527,
	1431655766, 1402438301, 1374389535, 1347440721, 1321528399, 1296593901, 1272582903, 1249445032,
	1227133514, 1205604856, 1184818565, 1164736894, 1145324613, 1126548799, 1108378658, 1090785346,
};

/* -log2(rtt / rtt_max) with 30 fractional bits, for times below 2^32 with 0 < rtt <= rtt_max. */
static __u64 minus_log2(__u64 rtt, __u64 rtt_max)
{
	__u64 exponent = 0, mantissa, rest, series, bits, by;
	__u32 step;

	/* rtt = 2^exponent rtt, in (rtt_max / 2, rtt_max]. The sign of a difference becomes a mask: round-trip times
	 * vary, and the processor would mispredict many branches on them. barrier_var keeps the compiler from turning
	 * the mask into a branch.
	 */
	for (bits = 16; bits; bits >>= 1) {
		by = (rtt_max - (rtt << bits)) >> 63;
		barrier_var(by);
		by = (by - 1) & bits;
		rtt <<= by;
		exponent += by;
	}
	if (rtt >= rtt_max)
		return exponent << 30;
	/* 2 rtt / rtt_max in (1, 2), with 31 fractional bits */
	mantissa = (rtt << 32) / rtt_max;
	step = mantissa >> 26 & (CURVE_STEPS - 1);
	/* The rest divided by the table point, below 1/32, with 30 fractional bits. This quotient is exact: rounding
	 * the reciprocal up adds less than 1/64, and a quotient is at least 1/63 below the next integer.
	 */
	rest = ((mantissa & ((1ULL << 26) - 1)) << 4) * reciprocal[step] >> 36;
	/* ln(1 + r) = r (1 - r (1/2 - r (1/3 - r / 4))) */
	series = (1ULL << 30) / 3 - (rest >> 2);
	series = (1ULL << 29) - (rest * series >> 30);
	series = (1ULL << 30) - (rest * series >> 30);
	series = rest * series >> 30;
	/* log2(e) with 30 bits */
	series = series * 1549082005ULL >> 30;
	return ((exponent + 1) << 30) - log2_at[step] - series;
}

/* 2^-x with 30 fractional bits in and out. */
static __u64 exp2_minus(__u64 x)
{
	__u64 whole = x >> 30, rest, series;
	__u32 step = x >> 25 & (CURVE_STEPS - 1);

	if (whole >= 30)
		return 0;
	/* ln(2) with 30 bits */
	rest = (x & ((1ULL << 25) - 1)) * 744261118ULL >> 30;
	/* exp(-a) = 1 - a (1 - a/2 (1 - a/3 (1 - a/4))), with 1/3 as 0x55555556 / 2^32 */
	series = (1ULL << 30) - (rest >> 2);
	series = (1ULL << 30) - ((rest * series >> 30) * 0x55555556 >> 32);
	series = (1ULL << 30) - (rest * series >> 31);
	series = (1ULL << 30) - (rest * series >> 30);
	return exp2_at[step] * series >> 30 >> whole;
}

/* amplitude (rtt / rtt_max)^gamma. All numbers except the times have 20 fractional bits. The function is not static:
 * the verifier checks it once instead of on every path to it.
 */
__attribute__((noinline)) __u64 gamma_curve(__u64 rtt, __u64 rtt_max, __u64 gamma, __u64 amplitude)
{
	if (rtt >= rtt_max || !rtt || !gamma)
		return amplitude;
	return amplitude * exp2_minus(gamma * minus_log2(rtt, rtt_max) >> GAIN_SHIFT) >> 30;
}
