// SPDX-License-Identifier: GPL-2.0
/* The error of gamma.h against the C library over its whole range. Prints a line per exponent: the exponent, the
 * largest absolute error of omega^gamma, the omega where it occurs, and the largest error of half the power, used as a
 * gain.
 *
 *   cc -O2 -o gamma gamma.c -lm && ./gamma
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../program.h"

#include "../fixed.h"
#include "../gamma.h"

int main(int count, char **words)
{
	static const double exponents[] = { 0.015625, 0.0625, 0.25, 0.5, 1, 2, 3, 4, 8, 16 };
	__u64 points = count > 1 ? strtoull(words[1], 0, 0) : 1 << 20;
	__u64 i;
	unsigned n;

	for (n = 0; n < sizeof(exponents) / sizeof(*exponents); n++) {
		__u64 gamma = exponents[n] * ONE;
		double worst = 0, at = 1, gain = 0;

		for (i = 0; i < points; i++) {
			/* RTT_max from 1 ms to 1000 s. RTTs below it: half of them spaced evenly, half logarithmically.
			 */
			__u64 most = 1000 << i % 21;
			double where = (i + 0.5) / points;
			__u64 rtt = (i & 1 ? where : pow(most, where - 1)) * most;
			double exact, error;

			if (!rtt || rtt >= most)
				continue;
			exact = pow((double)rtt / most, exponents[n]);
			error = fabs(exp2_minus(gamma * minus_log2(rtt, most) >> GAIN_SHIFT) * 0x1p-30 - exact);
			if (error > worst) {
				worst = error;
				at = (double)rtt / most;
			}
			error = fabs(gamma_curve(rtt, most, gamma, ONE / 2) * 0x1p-20 - exact / 2);
			gain = fmax(gain, error);
		}
		printf("%g %.3g %.3g %.3g\n", exponents[n], worst, at, gain);
	}
	return 0;
}
