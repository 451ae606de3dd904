//go:build race

package iac

// The race detector takes several times the memory: what a peak is with it says nothing.
func init() { raced = true }
