// Package inventory has the data that the program works with, decoded from ARM documents; a
// Snapshot of them; and edits of those documents. It is pure: no context, clock, logger, network or
// files. It must not decide anything (plan does) or read anything (azure does).
//
// Each decoded value keeps its original bytes. A resource is only ever written back as those bytes
// with one thing changed.
package inventory
