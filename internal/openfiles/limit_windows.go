package openfiles

import "math"

// Limit returns how many files this process may have open: Windows has no such limit.
func Limit() uint64 { return math.MaxUint64 }
