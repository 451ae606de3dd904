//go:build race

package history

// SQLite, which is translated from C, is many times slower with the race detector.
func init() { raced = true }
