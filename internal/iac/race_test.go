//go:build race

package iac

// The race detector takes several times the memory, so a peak with it means nothing.
func init() { raced = true }
