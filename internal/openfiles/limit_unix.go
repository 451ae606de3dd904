//go:build unix

package openfiles

import "syscall"

// Limit returns how many files this process may have open.
func Limit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
