// Reads the monotonic clock, which setting the date does not affect.

import Glibc

/// Time since boot (CLOCK_MONOTONIC).
package enum MonotonicTime {
    package static var nanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    package static var milliseconds: UInt64 { nanoseconds / 1_000_000 }
    package static var seconds: Double { Double(nanoseconds) / 1e9 }
}
