// SPDX-License-Identifier: GPL-2.0
/* The error of cubic.h against the C library. Prints for each speed: the largest relative error of K, the largest
 * relative error of the curve, and its largest error in segments where the curve is below 1000 segments. Peaks range
 * from 4 segments to 4 million segments, cuts reduce to 0.1 to 0.9 of the peak, and times end at four times K or at the
 * end of the curve's range.
 *
 *   cc -O2 -o cubic cubic.c -lm && ./cubic
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../program.h"

#include "../fixed.h"
#include "../cubic.h"

int main(int count, char **words)
{
	static const double speeds[] = { 0.001, 0.01, 0.1, 0.32, 0.4, 1, 10, 100 };
	__u64 points = count > 1 ? strtoull(words[1], 0, 0) : 1 << 20;
	unsigned n;
	__u64 i;

	srand48(1);
	for (n = 0; n < sizeof(speeds) / sizeof(*speeds); n++) {
		__u64 speed = round(speeds[n] * (1 << SPEED_SHIFT));
		double root = 0, segments = 0, share = 0;

		for (i = 0; i < points; i++) {
			__u64 peak = 4 * pow(1 << 20, drand48()) * ONE, low = peak * (0.1 + 0.8 * drand48());
			double exact = cbrt((double)(peak - low) / ONE / speeds[n]);
			__u64 back = curve_back(peak - low, speed), us = drand48() * 4e6 * exact;
			double past = us / 1e6 - exact, error;

			root = fmax(root, fabs(back * 0x1p-20 / exact - 1));
			if (fabs(past) > CURVE_FAR * 0x1p-20)
				continue;
			exact = peak * 0x1p-20 + speeds[n] * past * past * past;
			error = fabs(curve_at(peak, back, curve_time(us), speed) * 0x1p-20 - exact);
			if (exact < 1000)
				segments = fmax(segments, error);
			share = fmax(share, error / exact);
		}
		printf("%g %.3g %.3g %.3g\n", speeds[n], root, share, segments);
	}
	return 0;
}
